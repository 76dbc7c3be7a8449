// What the engine does for each effect of its core.
#include <utility>
#include <variant>

#include "absl/types/optional.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/trace/tracer.h"
#include "services/node_agent/core/task_spans.h"
#include "services/node_agent/engine.h"

namespace capstan::node_agent {

using session::TaskId;

absl::optional<trace::Context> Engine::TraceOf(const Effect& effect) const {
  const TaskId* id = std::visit(
      [](const auto& one) -> const TaskId* {
        if constexpr (requires { one.ticket; }) {
          return &one.id;
        } else {
          return nullptr;
        }
      },
      effect);
  if (id == nullptr || core() == nullptr) return absl::nullopt;
  const auto task = core()->tasks().find(*id);
  if (task == core()->tasks().end()) return absl::nullopt;
  return StageTrace(*id, task->second.order, task->second.record.stage());
}

void Engine::CarryOut(Effect effect) {
  const trace::Scope scope(TraceOf(effect));
  const std::weak_ptr<char> alive = alive_;
  // An answer that brings a folder.
  const auto directory = [this, alive](const TaskId& id, Ticket ticket) {
    return [this, alive, id, ticket](absl::StatusOr<std::string> path) {
      if (alive.expired()) return;
      if (!path.ok()) return Answer(id, ticket, path.status());
      Answer(id, ticket, absl::OkStatus(), Directory{*std::move(path)});
    };
  };
  if (auto* up = std::get_if<SendUp>(&effect)) {
    if (up_ == nullptr || up->session != up_session_) return;
    CrashPoint(crash::kAgentBeforeSendUp);
    const absl::Status sent = up_->Send(std::move(up->message));
    // A session that cannot take everything is begun anew: its first report holds it all.
    if (!sent.ok()) up_->Finish(sent);
  } else if (auto* close = std::get_if<CloseUp>(&effect)) {
    if (up_ != nullptr && close->session == up_session_) up_->Finish(close->status);
  } else if (auto* told = std::get_if<TellSpan>(&effect)) {
    if (deps_.spans != nullptr) deps_.spans->End(std::move(told->span));
  } else if (auto* alarm = std::get_if<Alarm>(&effect)) {
    deps_.logger->Warning("alarm", {{"reason", alarm->reason}, {"cause", alarm->message}});
    if (deps_.registry == nullptr) return;
    deps_.registry
        ->AddCounter("alarms_total", "What an operator must know", {{"reason", alarm->reason}})
        .Increment();
  } else if (auto* open = std::get_if<OpenOutput>(&effect)) {
    CrashPoint(crash::kAgentBeforeOpenOutput);
    deps_.data->OpenOutput(
        open->output, open->id.job_uid, open->id.generation,
        [this, alive, id = open->id, ticket = open->ticket](absl::StatusOr<OpenedOutput> opened) {
          if (alive.expired()) return;
          if (!opened.ok()) return Answer(id, ticket, opened.status());
          Answer(id, ticket, absl::OkStatus(), *std::move(opened));
        });
  } else if (auto* bundle = std::get_if<PinBundle>(&effect)) {
    deps_.data->PinBundle(bundle->bundle, bundle->holder, directory(bundle->id, bundle->ticket));
  } else if (auto* version = std::get_if<PinVersion>(&effect)) {
    CrashPoint(crash::kAgentBeforePin);
    deps_.data->PinVersion(version->version, version->holder,
                           directory(version->id, version->ticket));
  } else if (auto* place = std::get_if<MakePlace>(&effect)) {
    CrashPoint(crash::kAgentBeforeMakePlace);
    deps_.runtime->MakePlace(
        place->id.ToProto(), place->limits, place->unix_uid,
        [this, alive, id = place->id, ticket = place->ticket](absl::StatusOr<TaskPlace> made) {
          if (alive.expired()) return;
          if (!made.ok()) return Answer(id, ticket, made.status());
          Answer(id, ticket, absl::OkStatus(), Place{made->folder, made->cgroup});
        });
  } else if (auto* furnish = std::get_if<Furnish>(&effect)) {
    CrashPoint(crash::kAgentBeforeFurnish);
    deps_.workspace->Furnish(*furnish, Answering(furnish->id, furnish->ticket));
  } else if (auto* identity = std::get_if<IssueIdentity>(&effect)) {
    if (deps_.identity == nullptr) {
      return Answer(identity->id, identity->ticket,
                    absl::UnimplementedError("the Node gives no identities"));
    }
    CrashPoint(crash::kAgentBeforeIssueIdentity);
    deps_.identity->Issue(*identity, directory(identity->id, identity->ticket));
  } else if (auto* make = std::get_if<MakeMigInstance>(&effect)) {
    if (deps_.mig == nullptr) {
      return Answer(make->id, make->ticket,
                    absl::UnimplementedError("the Node makes no MIG instances"));
    }
    deps_.mig->Make(*make, [this, alive, id = make->id,
                            ticket = make->ticket](absl::StatusOr<std::string> name) {
      if (alive.expired()) return;
      if (!name.ok()) return Answer(id, ticket, name.status());
      Answer(id, ticket, absl::OkStatus(), MigDevice{*std::move(name)});
    });
  } else if (auto* unmake = std::get_if<RemoveMigInstance>(&effect)) {
    if (deps_.mig == nullptr) return Answer(unmake->id, unmake->ticket, absl::OkStatus());
    deps_.mig->Remove(unmake->instance, Answering(unmake->id, unmake->ticket));
  } else if (auto* list = std::get_if<ListGpus>(&effect)) {
    if (deps_.gpus == nullptr) {
      return Answer(list->id, list->ticket, absl::UnimplementedError("the Node finds no GPUs"));
    }
    deps_.gpus->List([this, alive, id = list->id,
                      ticket = list->ticket](absl::StatusOr<std::vector<WholeGpu>> gpus) {
      if (alive.expired()) return;
      if (!gpus.ok()) return Answer(id, ticket, gpus.status());
      Answer(id, ticket, absl::OkStatus(), ListedGpus{*std::move(gpus)});
    });
  } else if (auto* find = std::get_if<FindMigFiles>(&effect)) {
    if (deps_.gpus == nullptr) {
      return Answer(find->id, find->ticket, absl::UnimplementedError("the Node finds no GPUs"));
    }
    deps_.gpus->FindMigFiles(
        find->gpu, find->name,
        [this, alive, id = find->id,
         ticket = find->ticket](absl::StatusOr<capstan::nodeagent::v1::ShimSpec::Gpus> files) {
          if (alive.expired()) return;
          if (!files.ok()) return Answer(id, ticket, files.status());
          Answer(id, ticket, absl::OkStatus(), GpuFileNumbers{*std::move(files)});
        });
  } else if (auto* check = std::get_if<CheckPorts>(&effect)) {
    absl::StatusOr<std::vector<int32_t>> taken = deps_.ports->Taken(check->ports);
    if (!taken.ok()) return Answer(check->id, check->ticket, taken.status());
    Answer(check->id, check->ticket, absl::OkStatus(), TakenPorts{*std::move(taken)});
  } else if (auto* start = std::get_if<StartTask>(&effect)) {
    CrashPoint(crash::kAgentBeforeStartTask);
    deps_.runtime->Start(start->spec, Answering(start->id, start->ticket));
  } else if (auto* control = std::get_if<ControlTask>(&effect)) {
    CrashPoint(crash::kAgentBeforeControlTask);
    deps_.runtime->Control(control->id.ToProto(), control->control,
                           [this, alive, id = control->id](absl::Status status) {
                             // A Task that ends at this moment has no folder for it any more; its
                             // deadline holds all the same, and the next renewal comes soon.
                             if (!alive.expired() && !status.ok()) {
                               deps_.logger->Debug("control not written",
                                                   {{"task", id.Path()}, {"cause", status}});
                             }
                           });
  } else if (auto* kill = std::get_if<KillTask>(&effect)) {
    deps_.runtime->Kill(kill->id.ToProto(), Answering(kill->id, kill->ticket));
  } else if (auto* final = std::get_if<CommitFinal>(&effect)) {
    OutputCommit commit{
        final->output,   final->id.job_uid, final->id.generation, final->rank, false, 0,
        final->directory};
    deps_.data->CommitOutput(
        commit, [answer = Answering(final->id, final->ticket)](
                    absl::StatusOr<std::string> digest) mutable { answer(digest.status()); });
  } else if (auto* checkpoint = std::get_if<CommitCheckpoint>(&effect)) {
    CommitTaskCheckpoint(*checkpoint);
  } else if (auto* refuse = std::get_if<RefuseCheckpoint>(&effect)) {
    const auto request = requests_.find(refuse->request);
    if (request == requests_.end()) return;
    request->second(refuse->status);
    requests_.erase(request);
  } else if (auto* remove = std::get_if<RemovePlace>(&effect)) {
    CrashPoint(crash::kAgentBeforeRemovePlace);
    shipper_.Drop(remove->id);
    usage_.Drop(remove->id);
    if (deps_.task_ends) deps_.task_ends(remove->id);
    if (deps_.grants != nullptr) deps_.grants->Drop(remove->id);
    deps_.runtime->Remove(
        remove->id.ToProto(), [this, alive, order = *remove](absl::Status status) {
          if (alive.expired()) return;
          if (!status.ok() || order.output_directory.empty()) {
            return Answer(order.id, order.ticket, std::move(status));
          }
          deps_.workspace->DiscardOutput(order.output_directory, Answering(order.id, order.ticket));
        });
  } else if (auto* release = std::get_if<ReleasePins>(&effect)) {
    CrashPoint(crash::kAgentBeforeReleasePins);
    deps_.data->ReleasePins(release->holder, Answering(release->id, release->ticket));
  } else if (auto* serve = std::get_if<ServeSocket>(&effect)) {
    deps_.sockets->Serve(*serve);
  } else if (auto* end = std::get_if<CloseSocket>(&effect)) {
    deps_.sockets->Close(end->id);
  } else if (auto* ship = std::get_if<ShipLogs>(&effect)) {
    shipper_.Ship(*ship);
    if (ship->ended) {
      usage_.Drop(ship->id);
      if (deps_.task_ends) deps_.task_ends(ship->id);
    } else {
      usage_.Watch(*ship);
      if (deps_.task_runs) deps_.task_runs(*ship);
    }
  } else if (auto* keep = std::get_if<KeepIdentity>(&effect)) {
    if (deps_.workloads != nullptr) deps_.workloads->Serve(*keep);
    identities_.Keep(*keep);
  } else if (auto* grant = std::get_if<HoldGrant>(&effect)) {
    if (deps_.grants != nullptr) deps_.grants->Hold(*grant);
  } else if (auto* drop = std::get_if<DropIdentity>(&effect)) {
    identities_.Drop(drop->id);
    if (deps_.workloads != nullptr) deps_.workloads->Close(drop->id);
  }
}

void Engine::CommitTaskCheckpoint(const CommitCheckpoint& commit) {
  OutputCommit output{commit.output, commit.id.job_uid, commit.id.generation, commit.rank,
                      true,          commit.step,       commit.directory};
  CrashPoint(crash::kAgentBeforeCommit);
  deps_.data->CommitOutput(output, [this, alive = std::weak_ptr<char>(alive_),
                                    request = commit.request](absl::StatusOr<std::string> digest) {
    if (alive.expired()) return;
    const auto found = requests_.find(request);
    if (found == requests_.end()) return;
    found->second(std::move(digest));
    requests_.erase(found);
  });
}

}  // namespace capstan::node_agent
