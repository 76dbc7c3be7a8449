#include "integration/simulation/agent_actor.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/credentials/core/jwt_keyring.h"

namespace capstan::simulation {

using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::SessionDown;
using session::TaskId;
namespace dl = ::capstan::dataloader::v1;

namespace {

// A third of a Task's certificate's life.
constexpr absl::Duration kRenewEvery = absl::Seconds(60);
constexpr absl::Duration kRenewAgain = absl::Seconds(5);

void LogDesired(Process* who, const SessionDown& message) {
  for (const auto& task : message.desired().tasks()) {
    who->world().Log(
        who->name(),
        absl::StrCat("is to ", capstan::type::v1::DesiredTask::Phase_Name(task.phase()), " ",
                     TaskId::Of(task.key()).Path()));
  }
  if (message.desired().sync_complete()) who->world().Log(who->name(), "has its snapshot");
}

}  // namespace

AgentActor::AgentActor(Network* network, Machine* machine, std::string cluster, std::string node,
                       ExecutorActor* executor, LoaderActor* loader,
                       std::vector<CredentialsActor*> credentials, const Mutants* mutants)
    : Process(&network->world(), "agent-" + node, &machine->clock()),
      network_(network),
      machine_(machine),
      cluster_(std::move(cluster)),
      node_(std::move(node)),
      executor_(executor),
      loader_(loader),
      credentials_(std::move(credentials)),
      mutants_(mutants) {
  machine_->SetListener(
      {[this](const TaskId& id, const ShimStatus& status) {
         Run(life(), [this, id, status] { Apply(node_agent::ShimReported{id, status}); });
       },
       [this](const TaskId& id, uint64_t request, const std::string& directory, int64_t step) {
         Run(life(), [this, id, request, directory, step] {
           Apply(node_agent::CheckpointAsked{id, request, directory, step});
         });
       }});
}

void AgentActor::OnStart() {
  node_agent::CoreConfig config;
  config.cluster = cluster_;
  config.node = node_;
  config.host = absl::StrCat("host-", node_);
  config.boot_id = machine_->boot_id();
  auto core = node_agent::AgentCore::Load(config, disk_.Read(), Read());
  if (!core.ok()) return world().Violate(absl::StrCat(name(), ": ", core.status().ToString()));
  core_ = std::make_unique<node_agent::AgentCore>(*std::move(core));
  pipe_ = std::make_unique<CommitPipe>(this, &disk_, CommitPipe::Options{});
  Apply(node_agent::Discovered{machine_->Discover()});
  Observe();
  Dial();
}

void AgentActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
  up_.reset();
  kept_.clear();
}

void AgentActor::OnAlarm() { Apply(node_agent::Tick{}); }

void AgentActor::Observe() {
  node_agent::NodeObserved observed;
  observed.observation.set_node(node_);
  observed.observation.mutable_allocatable()->set_cpu_millis(machine_->cpu_millis());
  observed.observation.mutable_allocatable()->set_memory_bytes(int64_t{16} << 30);
  observed.observation.set_boot_id(machine_->boot_id());
  observed.observation.mutable_labels()->insert(machine_->labels().begin(),
                                                machine_->labels().end());
  for (const std::string& model : machine_->mig_gpus().models()) {
    capstan::type::v1::MigGpu& gpu = *observed.observation.add_mig_gpus();
    gpu.set_index(observed.observation.mig_gpus_size() - 1);
    gpu.set_model(model);
  }
  if (machine_->finding()) {
    observed.observation.add_limitations(
        capstan::type::v1::NodeObservation::LIMITATION_PREFLIGHT_FAILED);
  }
  observed.observation.set_host(absl::StrCat("host-", node_));
  Apply(observed);
  Later(absl::Seconds(10), [this] { Observe(); });
}

void AgentActor::Apply(const node_agent::Event& event) {
  node_agent::Step step = core_->Apply(event, Read());
  pipe_->Submit(std::move(step.puts), std::move(step.deletes),
                [this, my_life = life(), after = std::move(step.after)](int64_t) {
                  for (const node_agent::Effect& effect : after) {
                    if (up() && life() == my_life) CarryOut(effect);
                  }
                });
  SetAlarm(core_->NextDeadline());
}

void AgentActor::Answer(const TaskId& id, node_agent::Ticket ticket, absl::Status status,
                        node_agent::Answer answer) {
  Apply(node_agent::Answered{id, ticket, std::move(status), std::move(answer)});
}

void AgentActor::AnswerSoon(const TaskId& id, node_agent::Ticket ticket, absl::Status status,
                            node_agent::Answer answer) {
  Later(world().random().Between(absl::Milliseconds(1), absl::Milliseconds(30)),
        [this, id, ticket, status = std::move(status), answer = std::move(answer)] {
          Answer(id, ticket, status, answer);
        });
}

void AgentActor::CarryOut(const node_agent::Effect& effect) {
  using namespace node_agent;  // NOLINT: the effects, all of which are named here.
  if (const auto* send = std::get_if<SendUp>(&effect)) {
    if (up_ != nullptr && send->session == session_) up_->SendUp(send->message);
  } else if (const auto* close = std::get_if<CloseUp>(&effect)) {
    if (up_ == nullptr || close->session != session_) return;
    std::exchange(up_, nullptr)->CloseLower();
    Later(absl::ZeroDuration(), [this, session = close->session] {
      Apply(UpDisconnected{session});
      Redial();
    });
  } else if (const auto* alarm = std::get_if<Alarm>(&effect)) {
    world().Log(name(), absl::StrCat("alarm ", alarm->reason));
  } else if (const auto* open = std::get_if<OpenOutput>(&effect)) {
    dl::OpenOutputRequest request;
    request.set_name(open->output);
    request.set_job_uid(open->id.job_uid);
    request.set_generation(open->id.generation);
    network_->Call<dl::OpenOutputResponse>(
        this, loader_, [this, request](const auto& reply) { loader_->OpenOutput(request, reply); },
        [this, id = open->id, ticket = open->ticket](absl::StatusOr<dl::OpenOutputResponse> done) {
          OpenedOutput opened;
          if (done.ok()) {
            opened.resume_directory = done->resume_from().directory();
            opened.staging_root = done->staging_root();
          }
          Answer(id, ticket, done.status(), opened);
        });
  } else if (const auto* pin = std::get_if<PinVersion>(&effect)) {
    dl::PinVersionRequest request;
    request.set_version(pin->version);
    request.set_holder(pin->holder);
    network_->Call<dl::PinVersionResponse>(
        this, loader_,
        [this, request](const auto& reply) { loader_->PinVersion(request, NodeId(), reply); },
        [this, id = pin->id, ticket = pin->ticket](absl::StatusOr<dl::PinVersionResponse> done) {
          Directory found;
          if (done.ok()) found.path = done->directory();
          Answer(id, ticket, done.status(), found);
        });
  } else if (const auto* place = std::get_if<MakePlace>(&effect)) {
    machine_->MakePlace(place->id);
    credentials_.front()->witness().Placed(Task(place->id).ToString(), Node().ToString());
    Place made;
    made.folder = absl::StrCat("/tasks/", place->id.Path());
    made.cgroup.set_v2(absl::StrCat("/cgroup/", place->id.Path()));
    AnswerSoon(place->id, place->ticket, absl::OkStatus(), made);
  } else if (const auto* furnish = std::get_if<Furnish>(&effect)) {
    AnswerSoon(furnish->id, furnish->ticket, absl::OkStatus());
  } else if (const auto* identity = std::get_if<node_agent::IssueIdentity>(&effect)) {
    IssueIdentity(*identity);
  } else if (const auto* keep = std::get_if<KeepIdentity>(&effect)) {
    // As the agent's own renewals: long before the end of what was just got.
    kept_[keep->order.id] = next_kept_;
    RenewLater(keep->order.id, next_kept_++, kRenewEvery);
  } else if (const auto* drop = std::get_if<DropIdentity>(&effect)) {
    if (!mutants_->agent_keeps_identities) kept_.erase(drop->id);
  } else if (const auto* make = std::get_if<node_agent::MakeMigInstance>(&effect)) {
    node_agent::MakeMigInstance order = *make;
    if (mutants_->instance_made_elsewhere) order.instance.set_start(0);
    const absl::StatusOr<std::string> made = machine_->MakeInstance(order);
    AnswerSoon(make->id, make->ticket, made.status(),
               node_agent::MigDevice{made.ok() ? *made : std::string()});
  } else if (const auto* unmake = std::get_if<node_agent::RemoveMigInstance>(&effect)) {
    if (!mutants_->instance_not_removed) machine_->RemoveInstance(unmake->instance);
    AnswerSoon(unmake->id, unmake->ticket, absl::OkStatus());
  } else if (const auto* check = std::get_if<CheckPorts>(&effect)) {
    TakenPorts taken;
    const uint64_t one_in = machine_->program().port_taken_one_in;
    if (one_in != 0 && world().random().OneIn(one_in)) {
      world().Fault("port taken");
      taken.ports = check->ports;
    }
    AnswerSoon(check->id, check->ticket, absl::OkStatus(), taken);
  } else if (const auto* start = std::get_if<StartTask>(&effect)) {
    AnswerSoon(start->id, start->ticket, machine_->Start(start->id, start->spec));
  } else if (const auto* control = std::get_if<ControlTask>(&effect)) {
    machine_->Control(control->id, control->control);
    if (mutants_->instance_removed_early && control->control.has_stop()) {
      RemoveInstanceOf(control->id);
    }
  } else if (const auto* kill = std::get_if<KillTask>(&effect)) {
    machine_->Kill(kill->id);
    AnswerSoon(kill->id, kill->ticket, absl::OkStatus());
  } else if (const auto* final = std::get_if<CommitFinal>(&effect)) {
    dl::CommitOutputRequest request;
    request.set_name(final->output);
    request.set_job_uid(final->id.job_uid);
    request.set_generation(final->id.generation);
    request.set_rank(final->rank);
    request.set_final(true);
    network_->Call<dl::CommitOutputResponse>(
        this, loader_,
        [this, request](auto reply) { loader_->CommitOutput(request, std::move(reply)); },
        [this, id = final->id, ticket = final->ticket](
            absl::StatusOr<dl::CommitOutputResponse> done) { Answer(id, ticket, done.status()); });
  } else if (const auto* checkpoint = std::get_if<CommitCheckpoint>(&effect)) {
    dl::CommitOutputRequest request;
    request.set_name(checkpoint->output);
    request.set_job_uid(checkpoint->id.job_uid);
    request.set_generation(checkpoint->id.generation);
    request.set_rank(checkpoint->rank);
    request.set_checkpoint_step(checkpoint->step);
    network_->Call<dl::CommitOutputResponse>(
        this, loader_,
        [this, request](auto reply) { loader_->CommitOutput(request, std::move(reply)); },
        [this, asked = checkpoint->request](absl::StatusOr<dl::CommitOutputResponse> done) {
          machine_->CheckpointAnswered(asked, done.status());
        });
  } else if (const auto* refuse = std::get_if<RefuseCheckpoint>(&effect)) {
    machine_->CheckpointAnswered(refuse->request, refuse->status);
  } else if (const auto* remove = std::get_if<RemovePlace>(&effect)) {
    AnswerSoon(remove->id, remove->ticket, machine_->Remove(remove->id));
  } else if (const auto* pins = std::get_if<ReleasePins>(&effect)) {
    network_->Call<bool>(
        this, loader_,
        [this, holder = pins->holder](const auto& reply) {
          loader_->ReleasePins(holder, NodeId(), reply);
        },
        [this, id = pins->id, ticket = pins->ticket](absl::StatusOr<bool> done) {
          Answer(id, ticket, done.status());
        });
  } else if (const auto* ship = std::get_if<ShipLogs>(&effect)) {
    if (!ship->ended) return;
    Later(absl::Milliseconds(50), [this, id = ship->id] { Apply(LogsShipped{id}); });
  }
}

void AgentActor::RemoveInstanceOf(const TaskId& id) {
  const auto task = core_->tasks().find(id);
  if (task == core_->tasks().end() || !task->second.order.launch().has_mig_instance()) return;
  machine_->RemoveInstance(task->second.order.launch().mig_instance());
}

std::string AgentActor::NodeId() const { return absl::StrCat(cluster_, "/", node_); }

auth::SpiffeId AgentActor::Node() const {
  return auth::SpiffeId::Node(CredentialsActor::kDomain, cluster_, node_);
}

auth::SpiffeId AgentActor::Task(const TaskId& id) {
  return auth::SpiffeId::Task(CredentialsActor::kDomain, "p", "default", id.job_uid, id.generation,
                              id.group, id.index);
}

void AgentActor::AskForSvid(const TaskId& id, std::function<void(const absl::Status&)> done) {
  if (!machine_->Holds(id)) {
    world().Violate(
        absl::StrCat(name(), " asks for a certificate of ", id.Path(), ", which is no more"));
  }
  credentials::IssueTaskSvid ask;
  ask.node = Node();
  ask.serial = std::string(32, '4');
  ask.task = Task(id);
  ask.key.spki = absl::StrCat("key-", world().random().Uuid4());
  CredentialsActor* const replica = credentials_[world().random().Below(credentials_.size())];
  network_->Call<credentials::Answer>(
      this, replica, [replica, ask](auto reply) { replica->Ask(ask, std::move(reply)); },
      [done = std::move(done)](const absl::StatusOr<credentials::Answer>& answer) {
        done(answer.status());
      });
}

void AgentActor::IssueIdentity(const node_agent::IssueIdentity& order) {
  AskForSvid(order.id, [this, id = order.id, ticket = order.ticket,
                        folder = order.folder](const absl::Status& done) {
    Answer(id, ticket, done, node_agent::Directory{folder + "/svid"});
  });
}

void AgentActor::RenewLater(const TaskId& id, int64_t kept, absl::Duration delay) {
  Later(delay * world().random().Between(int64_t{90}, int64_t{110}) / 100, [this, id, kept] {
    const auto order = kept_.find(id);
    if (order == kept_.end() || order->second != kept) return;
    AskForSvid(id, [this, id, kept](const absl::Status& done) {
      RenewLater(id, kept, done.ok() ? kRenewEvery : kRenewAgain);
      if (done.ok()) AskForToken(id);
    });
  });
}

void AgentActor::AskForToken(const TaskId& id) {
  credentials::IssueTaskJwt ask;
  ask.node = Node();
  ask.serial = std::string(32, '4');
  ask.task = Task(id);
  ask.job = absl::StrCat("projects/p/jobs/", id.job_uid);
  ask.audiences = {"cloud"};
  ask.ttl = absl::Minutes(5);
  ask.algorithm = credentials::kJwtAlgorithms[world().random().Below(2)];
  ask.token_id = world().random().Uuid4();
  CredentialsActor* const replica = credentials_[world().random().Below(credentials_.size())];
  network_->Call<credentials::Answer>(
      this, replica, [replica, ask](auto reply) { replica->Ask(ask, std::move(reply)); },
      [](const absl::StatusOr<credentials::Answer>&) {});
}

void AgentActor::Dial() {
  const node_agent::SessionId session = next_session_++;
  Network::LowerEnd end;
  end.received = [this, session](const SessionDown& message) {
    if (session != session_ || up_ == nullptr) return;
    LogDesired(this, message);
    Apply(node_agent::UpMessage{session, message});
  };
  end.closed = [this, session] {
    if (session != session_ || up_ == nullptr) return;
    up_.reset();
    Apply(node_agent::UpDisconnected{session});
    Redial();
  };
  network_->Dial(
      this, executor_, end,
      [this](std::shared_ptr<Pipe> pipe) { return executor_->Accept(node_, std::move(pipe)); },
      [this, session](std::shared_ptr<Pipe> pipe) {
        if (pipe == nullptr) return Redial();
        up_ = std::move(pipe);
        session_ = session;
        Apply(node_agent::UpConnected{session});
      });
}

void AgentActor::Redial() {
  Later(world().random().Between(absl::Milliseconds(200), absl::Seconds(3)), [this] { Dial(); });
}

}  // namespace capstan::simulation
