#include "integration/simulation/machine.h"

#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/mig_witness.h"

namespace capstan::simulation {

using node_agent::ProgramEnd;
using node_agent::Remains;
using node_agent::ShimActions;
using node_agent::ShimDeadline;
using session::TaskId;

namespace {

constexpr int kSigkill = 9;

std::string Variable(const capstan::nodeagent::v1::ShimSpec& spec, const std::string& name) {
  for (const std::string& entry : spec.env()) {
    absl::string_view rest = entry;
    if (absl::ConsumePrefix(&rest, name + "=")) return std::string(rest);
  }
  return "";
}

// By alias.
std::map<std::string, std::string> DatasetFolders(const capstan::nodeagent::v1::ShimSpec& spec) {
  std::map<std::string, std::string> folders;
  for (absl::string_view entry : spec.env()) {
    if (!absl::ConsumePrefix(&entry, "CAPSTAN_DATASET_")) continue;
    const size_t mark = entry.find('=');
    folders.emplace(entry.substr(0, mark), entry.substr(mark + 1));
  }
  return folders;
}

// Checkpoint folders end in `-s<step>`.
int64_t StepOfFolder(const std::string& folder) {
  int64_t step = 0;
  const size_t mark = folder.rfind("-s");
  if (mark == std::string::npos || !absl::SimpleAtoi(folder.substr(mark + 2), &step)) return 0;
  return step;
}

}  // namespace

Machine::Machine(World* world, std::string name, int64_t cpu_millis,
                 std::vector<std::string> mig_models, ProgramConfig program, Witness* witness,
                 bool shim_ignores_deadline)
    : world_(world),
      name_(std::move(name)),
      cpu_millis_(cpu_millis),
      program_(program),
      witness_(witness),
      shim_ignores_deadline_(shim_ignores_deadline),
      clock_(world),
      mig_gpus_(name_, std::move(mig_models)) {}

std::string Machine::boot_id() const { return absl::StrCat("boot-", name_, "-", boots_); }

Machine::Task* Machine::Find(const TaskId& id) {
  const auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : &it->second;
}

absl::Status Machine::Start(const TaskId& id, const capstan::nodeagent::v1::ShimSpec& spec) {
  Task& task = tasks_[id];
  if (task.has_spec) return absl::AlreadyExistsError("a spec is there");
  task.has_spec = true;
  task.spec = spec;
  task.deadline = std::make_unique<ShimDeadline>(spec);
  task.shim_alive = true;
  task.program_alive = true;
  task.status.set_shim_pid(1000);
  task.status.set_shim_start_ticks(1);
  task.status.set_task_pid(1001);
  task.status.set_start_boottime_ns(clock_.Read().boot.ToNanoseconds());
  if (!absl::SimpleAtoi(Variable(spec, "RANK"), &task.rank)) task.rank = 0;
  task.step = StepOfFolder(Variable(spec, "CAPSTAN_RESUME_DIR"));
  task.fails = program_.failure_one_in != 0 && world_->random().OneIn(program_.failure_one_in);
  int world_size = 0;
  if (!absl::SimpleAtoi(Variable(spec, "WORLD_SIZE"), &world_size)) world_size = 0;
  witness_->Started(id, name_, 1000, cpu_millis_, world_size, task.step);
  witness_->mig().Started(id, name_, mig_gpus_.Find(Variable(spec, "CUDA_VISIBLE_DEVICES")));
  witness_->datasets().Started(id, DatasetFolders(spec));
  ArmShim(id);
  Report(id);
  Plan(id);
  return absl::OkStatus();
}

void Machine::Plan(const TaskId& id) {
  Task* task = Find(id);
  const int64_t life = ++task->life;
  const absl::Duration pace =
      world_->random().Between(program_.step_time / 2, program_.step_time * 3 / 2);
  world_->After(pace, [this, id, life] {
    Task* task = Find(id);
    if (task != nullptr && task->program_alive && task->life == life) StepDone(id);
  });
}

void Machine::StepDone(const TaskId& id) {
  Task* task = Find(id);
  ++task->step;
  if (task->fails && world_->random().OneIn(4)) return Exit(id, false, 1);
  if (task->rank == 0 && task->step % program_.steps_per_checkpoint == 0) {
    task->request = next_request_++;
    return AskCheckpoint(id, ++task->life);
  }
  if (task->step >= program_.steps) return Exit(id, false, 0);
  Plan(id);
}

// A request that got no answer is made again, as the contract lets a program do.
void Machine::AskCheckpoint(const TaskId& id, int64_t life) {
  Task* task = Find(id);
  if (task == nullptr || !task->program_alive || task->life != life) return;
  listener_.checkpoint(id, task->request, absl::StrCat("step-", task->step), task->step);
  world_->After(absl::Seconds(15), [this, id, life] { AskCheckpoint(id, life); });
}

void Machine::CheckpointAnswered(uint64_t request, const absl::Status& status) {
  for (auto& [id, task] : tasks_) {
    if (!task.program_alive || task.request != request) continue;
    if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) return;
    task.request = 0;
    if (!status.ok()) {
      ++task.life;
      return Exit(id, false, 3);
    }
    witness_->CommitAcknowledged(id.job_uid, id.generation, task.step);
    if (task.step >= program_.steps) {
      ++task.life;
      return Exit(id, false, 0);
    }
    return Plan(id);
  }
}

void Machine::Exit(const TaskId& id, bool signaled, int code) {
  Task* task = Find(id);
  if (task == nullptr || !task->program_alive) return;
  task->program_alive = false;
  ++task->life;
  witness_->Ended(id, !signaled && code == 0 && task->step >= program_.steps);
  if (!task->shim_alive) return;
  ProgramEnd end;
  end.signaled = signaled;
  end.code = code;
  end.killed_by_agent = task->killed_by_agent;
  *task->status.mutable_end() = task->deadline->Classify(end);
  task->status.set_end_boottime_ns(clock_.Read().boot.ToNanoseconds());
  // A shim exits once it has said so.
  if (task->shim_stopped) return;
  task->shim_alive = false;
  Report(id);
}

void Machine::Report(const TaskId& id) {
  const Task* task = Find(id);
  if (task == nullptr || task->shim_stopped) return;
  world_->After(absl::Milliseconds(1), [this, id] {
    const Task* task = Find(id);
    if (task != nullptr) listener_.status(id, task->status);
  });
}

void Machine::ArmShim(const TaskId& id) {
  Task* task = Find(id);
  if (task == nullptr || !task->program_alive || !task->shim_alive || shim_ignores_deadline_)
    return;
  const absl::optional<BootTime> next = task->deadline->NextTick();
  if (!next.has_value()) return;
  world_->After(clock_.Until(*next), [this, id, tick = ++task->ticks] {
    Task* task = Find(id);
    if (task == nullptr || task->ticks != tick || !task->shim_alive || task->shim_stopped) return;
    Act(id, task->deadline->OnTick(clock_.Read().boot));
    ArmShim(id);
  });
}

void Machine::Act(const TaskId& id, const ShimActions& actions) {
  if (actions.terminate && world_->random().OneIn(2)) {
    // This program heeds SIGTERM.
    world_->After(absl::Milliseconds(200), [this, id] { Exit(id, false, 0); });
  }
  if (actions.kill) Exit(id, true, kSigkill);
}

void Machine::Control(const TaskId& id, const capstan::nodeagent::v1::ShimControl& control) {
  Task* task = Find(id);
  if (task == nullptr || !task->shim_alive || !task->program_alive) return;
  if (shim_ignores_deadline_ && !control.has_stop()) return;
  if (task->shim_stopped) {
    // The file is read once the shim goes on; what was given last counts.
    world_->After(absl::Seconds(1), [this, id, control] { Control(id, control); });
    return;
  }
  Act(id, task->deadline->OnControl(control, clock_.Read().boot));
  ArmShim(id);
}

void Machine::Kill(const TaskId& id) {
  Task* task = Find(id);
  if (task == nullptr) return;
  task->killed_by_agent = true;
  Exit(id, true, kSigkill);
}

absl::Status Machine::Remove(const TaskId& id) {
  const Task* task = Find(id);
  if (task != nullptr && task->program_alive) {
    return absl::FailedPreconditionError("a process is left");
  }
  tasks_.erase(id);
  return absl::OkStatus();
}

void Machine::SetLabel(const std::string& key, const std::string& value) {
  if (value.empty()) {
    labels_.erase(key);
  } else {
    labels_[key] = value;
  }
}

absl::StatusOr<std::string> Machine::MakeInstance(const node_agent::MakeMigInstance& order) {
  std::vector<capstan::type::v1::MigInstance> removed;
  absl::StatusOr<std::string> made = mig_gpus_.Make(order, &removed);
  for (const auto& instance : removed) witness_->mig().Removed(name_, instance);
  world_->Log(
      name_, absl::StrCat(made.ok() ? "has " : "cannot make ", MigInstanceInWords(order.instance)));
  return made;
}

void Machine::RemoveInstance(const capstan::type::v1::MigInstance& instance) {
  if (!mig_gpus_.Remove(instance)) return;
  world_->Log(name_, absl::StrCat("removes ", MigInstanceInWords(instance)));
  witness_->mig().Removed(name_, instance);
}

std::vector<Remains> Machine::Discover() const {
  std::vector<Remains> found;
  for (const auto& [id, task] : tasks_) {
    Remains remains;
    remains.key = id.ToProto();
    remains.has_spec = task.has_spec;
    remains.status = task.status;
    remains.shim_alive = task.shim_alive;
    remains.cgroup_empty = !task.program_alive;
    if (task.shim_stopped) remains.status.clear_end();
    found.push_back(std::move(remains));
  }
  return found;
}

std::vector<TaskId> Machine::Live() const {
  std::vector<TaskId> live;
  for (const auto& [id, task] : tasks_) {
    if (task.program_alive && task.shim_alive) live.push_back(id);
  }
  return live;
}

bool Machine::has_stopped_shim() const {
  for (const auto& [id, task] : tasks_) {
    if (task.program_alive && task.shim_stopped) return true;
  }
  return false;
}

bool Machine::KillShim() {
  const std::vector<TaskId> live = Live();
  if (live.empty()) return false;
  const TaskId& id = live[world_->random().Below(live.size())];
  Task& task = tasks_[id];
  task.shim_alive = false;
  task.shim_stopped = false;
  // PR_SET_PDEATHSIG: the Task's init dies with its shim, and its namespace with it.
  Exit(id, true, kSigkill);
  world_->After(absl::Milliseconds(2), [this, id] {
    if (Find(id) != nullptr) listener_.status(id, capstan::nodeagent::v1::ShimStatus());
  });
  return true;
}

bool Machine::StopShim(absl::Duration how_long) {
  const std::vector<TaskId> live = Live();
  if (live.empty()) return false;
  const TaskId& id = live[world_->random().Below(live.size())];
  tasks_[id].shim_stopped = true;
  world_->After(how_long, [this, id] {
    Task* task = Find(id);
    if (task == nullptr || !task->shim_stopped) return;
    task->shim_stopped = false;
    if (!task->program_alive) {
      task->shim_alive = false;
      return Report(id);
    }
    Act(id, task->deadline->OnTick(clock_.Read().boot));
    ArmShim(id);
  });
  return true;
}

bool Machine::KillProgram() {
  const std::vector<TaskId> live = Live();
  if (live.empty()) return false;
  Exit(live[world_->random().Below(live.size())], true, kSigkill);
  return true;
}

void Machine::Reboot() {
  ++boots_;
  for (auto& [id, task] : tasks_) {
    if (task.program_alive) {
      task.program_alive = false;
      ++task.life;
      witness_->Ended(id, /*finished=*/false);
    }
    task.shim_alive = false;
    task.shim_stopped = false;
  }
  mig_gpus_.Clear();
}

std::string Machine::Left() const {
  std::string left;
  for (const auto& [id, task] : tasks_) absl::StrAppend(&left, name_, ":", id.Path(), " ");
  if (!mig_gpus_.empty()) absl::StrAppend(&left, name_, " has instances: ", mig_gpus_.Left());
  return left;
}

}  // namespace capstan::simulation
