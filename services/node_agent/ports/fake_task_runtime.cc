#include "services/node_agent/ports/fake_task_runtime.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimControl;
using capstan::nodeagent::v1::ShimSpec;
using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::Resources;
using capstan::type::v1::TaskKey;

std::string Name(const TaskKey& key) {
  return absl::StrCat(key.job_uid(), "/", key.generation(), "/", key.group(), "-", key.index());
}

ProgramEnd Signaled(int signal) {
  ProgramEnd end;
  end.signaled = true;
  end.code = signal;
  return end;
}

}  // namespace

struct FakeTaskMachine::Shim {
  explicit Shim(const ShimSpec& spec) : deadline(spec) {}

  ShimDeadline deadline;
  FakeProgram program;
  bool stopped = false;
  // How the program went while the shim was stopped.
  absl::optional<ProgramEnd> unseen;
  Strand::TimerId tick = 0;
  Strand::TimerId program_end = 0;
};

FakeTaskMachine::FakeTaskMachine(Strand* strand) : strand_(strand) {}

FakeTaskMachine::~FakeTaskMachine() {
  for (auto& [name, place] : places_) EndShim(place);
}

absl::Status FakeTaskMachine::CheckFault(absl::string_view operation, const TaskKey& key) const {
  return fault_ ? fault_(operation, key) : absl::OkStatus();
}

FakeTaskMachine::Place* FakeTaskMachine::Find(const TaskKey& key) {
  const auto it = places_.find(Name(key));
  return it == places_.end() ? nullptr : &it->second;
}

void FakeTaskMachine::StartShim(Place& place) {
  place.shim = std::make_unique<Shim>(*place.spec);
  place.status.set_shim_pid(next_pid_++);
  place.status.set_shim_start_ticks(1);
  place.status.set_deadline_boottime_ns(place.shim->deadline.deadline().ToNanoseconds());
  if (program_of_) place.shim->program = program_of_(*place.spec);
  Tell(place, false);
  if (!place.shim->program.exec_error.empty()) {
    ProgramEnd failed;
    failed.exec_failed = true;
    failed.message = place.shim->program.exec_error;
    return Record(place, failed);
  }
  // Like the real one: what the agent wants by now is looked at before the program runs.
  ReadControl(place);
  if (place.shim != nullptr && !place.shim->deadline.ending()) StartTask(place);
}

void FakeTaskMachine::StartTask(Place& place) {
  const TaskKey key = place.key;
  place.task_alive = true;
  place.status.set_task_pid(next_pid_++);
  place.status.set_task_start_ticks(1);
  place.status.set_start_boottime_ns(strand_->clock().Read().boot.ToNanoseconds());
  ++starts_[Name(key)];
  if (observer_) observer_(key, true);
  Tell(place, false);
  ArmTick(place);
  const FakeProgram& program = place.shim->program;
  if (program.duration == absl::InfiniteDuration()) return;
  place.shim->program_end = strand_->RunAfter(program.duration, [this, key] {
    Place* ending = Find(key);
    ending->shim->program_end = 0;
    ProgramEnd how = Signaled(ending->shim->program.signal);
    if (ending->shim->program.signal == 0) {
      how = ProgramEnd();
      how.code = ending->shim->program.exit_code;
    }
    if (ending->shim->program.out_of_memory) {
      how = Signaled(SIGKILL);
      how.out_of_memory_kills = 1;
    }
    EndTask(*ending, how);
  });
}

void FakeTaskMachine::ArmTick(Place& place) {
  strand_->Cancel(place.shim->tick);
  const absl::optional<BootTime> next = place.shim->deadline.NextTick();
  if (!next.has_value()) return;
  place.shim->tick = strand_->RunAt(*next, [this, key = place.key] {
    Place* ticking = Find(key);
    if (ticking->shim->stopped) return;
    Act(*ticking, ticking->shim->deadline.OnTick(strand_->clock().Read().boot));
  });
}

void FakeTaskMachine::Act(Place& place, ShimActions actions) {
  if (!place.task_alive) {
    // Not started yet, and it never will be.
    if (actions.terminate || actions.kill) Record(place, ProgramEnd());
    return;
  }
  if (actions.kill) return EndTask(place, Signaled(SIGKILL));
  if (actions.terminate && place.shim->program.termination != absl::InfiniteDuration()) {
    strand_->Cancel(place.shim->program_end);
    place.shim->program_end =
        strand_->RunAfter(place.shim->program.termination, [this, key = place.key] {
          Place* ending = Find(key);
          ending->shim->program_end = 0;
          EndTask(*ending, ProgramEnd());
        });
  }
  ArmTick(place);
}

void FakeTaskMachine::EndTask(Place& place, const ProgramEnd& how) {
  if (!place.task_alive) return;
  place.task_alive = false;
  if (observer_) observer_(place.key, false);
  if (place.shim == nullptr) return;
  strand_->Cancel(std::exchange(place.shim->program_end, 0));
  if (place.shim->stopped) {
    place.shim->unseen = how;
    return;
  }
  Record(place, how);
}

void FakeTaskMachine::Record(Place& place, const ProgramEnd& how) {
  ProgramEnd program = how;
  program.killed_by_agent = place.killed_by_agent;
  *place.status.mutable_end() = place.shim->deadline.Classify(program);
  place.status.set_end_boottime_ns(strand_->clock().Read().boot.ToNanoseconds());
  EndShim(place);
  Tell(place, false);
}

void FakeTaskMachine::ReadControl(Place& place) {
  if (!place.control.has_value() || place.shim == nullptr || place.shim->stopped) return;
  Act(place, place.shim->deadline.OnControl(*place.control, strand_->clock().Read().boot));
  if (place.shim == nullptr) return;
  const int64_t deadline = place.shim->deadline.deadline().ToNanoseconds();
  if (deadline == place.status.deadline_boottime_ns()) return;
  place.status.set_deadline_boottime_ns(deadline);
  Tell(place, false);
}

void FakeTaskMachine::EndShim(Place& place) {
  if (place.shim == nullptr) return;
  strand_->Cancel(place.shim->tick);
  strand_->Cancel(place.shim->program_end);
  place.shim.reset();
}

void FakeTaskMachine::Tell(const Place& place, bool shim_dead) {
  if (agent_ == nullptr) return;
  ShimStatus status = place.status;
  if (shim_dead) {
    status.set_shim_pid(0);
    status.set_shim_start_ticks(0);
  }
  agent_->OnStatus(place.key, status);
}

void FakeTaskMachine::KillShim(const TaskKey& key) {
  Place* place = Find(key);
  if (place == nullptr || place->shim == nullptr) return;
  EndShim(*place);
  EndTask(*place, Signaled(SIGKILL));
  Tell(*place, true);
}

void FakeTaskMachine::StopShim(const TaskKey& key) {
  Place* place = Find(key);
  if (place != nullptr && place->shim != nullptr) place->shim->stopped = true;
}

void FakeTaskMachine::ContinueShim(const TaskKey& key) {
  Place* place = Find(key);
  if (place == nullptr || place->shim == nullptr || !place->shim->stopped) return;
  place->shim->stopped = false;
  if (place->shim->unseen.has_value()) return Record(*place, *place->shim->unseen);
  Act(*place, place->shim->deadline.OnTick(strand_->clock().Read().boot));
  ReadControl(*place);
}

void FakeTaskMachine::SignalTask(const TaskKey& key, int signal) {
  Place* place = Find(key);
  if (place != nullptr) EndTask(*place, Signaled(signal));
}

void FakeTaskMachine::Reboot() {
  agent_ = nullptr;
  for (auto& [name, place] : places_) {
    EndShim(place);
    EndTask(place, Signaled(SIGKILL));
  }
}

std::vector<TaskKey> FakeTaskMachine::Running() const {
  std::vector<TaskKey> keys;
  for (const auto& [name, place] : places_) {
    if (place.task_alive) keys.push_back(place.key);
  }
  return keys;
}

std::vector<TaskKey> FakeTaskMachine::Places() const {
  std::vector<TaskKey> keys;
  for (const auto& [name, place] : places_) keys.push_back(place.key);
  return keys;
}

int FakeTaskMachine::Starts(const TaskKey& key) const {
  const auto it = starts_.find(Name(key));
  return it == starts_.end() ? 0 : it->second;
}

FakeTaskRuntime::FakeTaskRuntime(FakeTaskMachine* machine, Strand* strand)
    : machine_(machine), strand_(strand), alive_(std::make_shared<bool>(true)) {
  machine_->agent_ = this;
}

FakeTaskRuntime::~FakeTaskRuntime() {
  *alive_ = false;
  if (machine_->agent_ == this) machine_->agent_ = nullptr;
}

template <typename Callback, typename Result>
void FakeTaskRuntime::Answer(Callback done, Result result) {
  strand_->Post([alive = alive_, done = std::move(done), result = std::move(result)]() mutable {
    if (*alive) done(std::move(result));
  });
}

void FakeTaskRuntime::SetStatusCallback(StatusCallback on_status) {
  on_status_ = std::make_shared<StatusCallback>(std::move(on_status));
}

void FakeTaskRuntime::OnStatus(const TaskKey& key, const ShimStatus& status) {
  if (on_status_ == nullptr) return;
  strand_->Post([alive = alive_, on_status = on_status_, key, status] {
    if (*alive) (*on_status)(key, status);
  });
}

void FakeTaskRuntime::MakePlace(const TaskKey& key, const Resources&, int64_t,
                                absl::AnyInvocable<void(absl::StatusOr<TaskPlace>)> done) {
  const absl::Status fault = machine_->CheckFault("MakePlace", key);
  if (!fault.ok()) return Answer(std::move(done), absl::StatusOr<TaskPlace>(fault));
  machine_->places_[Name(key)].key = key;
  TaskPlace place;
  place.folder = absl::StrCat("/fake/tasks/", Name(key));
  place.cgroup.set_v2(absl::StrCat("/fake/cgroup/", Name(key)));
  Answer(std::move(done), absl::StatusOr<TaskPlace>(std::move(place)));
}

absl::Status FakeTaskRuntime::DoStart(const ShimSpec& spec) {
  absl::Status fault = machine_->CheckFault("Start", spec.key());
  if (!fault.ok()) return fault;
  FakeTaskMachine::Place* place = machine_->Find(spec.key());
  if (place == nullptr) {
    return status::Error(absl::StatusCode::kNotFound, "NO_PLACE", "The Task has no folder here.");
  }
  if (place->spec.has_value()) {
    return status::Error(absl::StatusCode::kAlreadyExists, "TASK_STARTED",
                         "The Task was started before.");
  }
  place->spec = spec;
  if (place->killed_by_agent) {
    place->shim = std::make_unique<FakeTaskMachine::Shim>(spec);
    machine_->Record(*place, ProgramEnd());
  } else {
    machine_->StartShim(*place);
  }
  return absl::OkStatus();
}

void FakeTaskRuntime::Start(const ShimSpec& spec, DoneCallback done) {
  Answer(std::move(done), DoStart(spec));
}

void FakeTaskRuntime::Control(const TaskKey& key, const ShimControl& control, DoneCallback done) {
  absl::Status result = machine_->CheckFault("Control", key);
  FakeTaskMachine::Place* place = machine_->Find(key);
  if (result.ok() && place == nullptr) {
    result = status::Error(absl::StatusCode::kNotFound, "NO_PLACE", "The Task has no folder here.");
  }
  if (result.ok()) {
    place->control = control;
    machine_->ReadControl(*place);
  }
  Answer(std::move(done), result);
}

void FakeTaskRuntime::Kill(const TaskKey& key, DoneCallback done) {
  absl::Status result = machine_->CheckFault("Kill", key);
  FakeTaskMachine::Place* place = machine_->Find(key);
  if (result.ok() && place != nullptr) {
    place->killed_by_agent = true;
    machine_->EndTask(*place, Signaled(SIGKILL));
  }
  Answer(std::move(done), result);
}

void FakeTaskRuntime::Discover(
    absl::AnyInvocable<void(absl::StatusOr<std::vector<FoundTask>>)> done) {
  std::vector<FoundTask> found;
  for (const auto& [name, place] : machine_->places_) {
    FoundTask task;
    task.key = place.key;
    task.has_spec = place.spec.has_value();
    task.status = place.status;
    task.shim_alive = place.shim != nullptr;
    task.cgroup_empty = !place.task_alive;
    found.push_back(std::move(task));
  }
  Answer(std::move(done), absl::StatusOr<std::vector<FoundTask>>(std::move(found)));
}

absl::Status FakeTaskRuntime::DoRemove(const TaskKey& key) {
  absl::Status fault = machine_->CheckFault("Remove", key);
  if (!fault.ok()) return fault;
  FakeTaskMachine::Place* place = machine_->Find(key);
  if (place == nullptr) return absl::OkStatus();
  if (place->task_alive || (place->shim != nullptr && !place->killed_by_agent)) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "TASK_ALIVE",
                         "The Task still has a process.");
  }
  machine_->EndShim(*place);
  machine_->places_.erase(Name(key));
  return absl::OkStatus();
}

void FakeTaskRuntime::Remove(const TaskKey& key, DoneCallback done) {
  Answer(std::move(done), DoRemove(key));
}

}  // namespace capstan::node_agent
