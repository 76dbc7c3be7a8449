#ifndef CAPSTAN_INTEGRATION_SIMULATION_MACHINE_H_
#define CAPSTAN_INTEGRATION_SIMULATION_MACHINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "integration/simulation/mig_gpus.h"
#include "integration/simulation/witness.h"
#include "integration/simulation/world.h"
#include "libs/session/task_id.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/shim_deadline.h"
#include "services/node_agent/core/step.h"

namespace capstan::simulation {

// How the simulated training program behaves.
struct ProgramConfig {
  int64_t steps = 20;
  absl::Duration step_time = absl::Seconds(4);
  int64_t steps_per_checkpoint = 4;
  // One of so many starts ends early with exit code 1; 0 for none.
  uint64_t failure_one_in = 12;
  // One of so many checks finds the Task's ports taken; 0 for none.
  uint64_t port_taken_one_in = 40;
};

// One Node's kernel and what it holds of Tasks: folders, cgroups, shims and programs. It outlives
// the agent, and loses its processes with a reboot. The shims' deadline logic is the real one.
class Machine {
 public:
  // What the agent is told, if it lives.
  struct Listener {
    std::function<void(const session::TaskId&, const capstan::nodeagent::v1::ShimStatus&)> status;
    std::function<void(const session::TaskId&, uint64_t request, const std::string& directory,
                       int64_t step)>
        checkpoint;
  };

  // `mig_models`: of its GPUs in MIG mode, by number.
  Machine(World* world, std::string name, int64_t cpu_millis, std::vector<std::string> mig_models,
          ProgramConfig program, Witness* witness, bool shim_ignores_deadline);

  const std::string& name() const { return name_; }
  const MachineClock& clock() const { return clock_; }
  MachineClock* mutable_clock() { return &clock_; }
  int64_t cpu_millis() const { return cpu_millis_; }
  const ProgramConfig& program() const { return program_; }
  std::string boot_id() const;
  // The hardware is found wanting, and the Node says so.
  void SetFinding(bool finding) { finding_ = finding; }
  bool finding() const { return finding_; }
  // A label of the Node, from when it is looked at next; none if the value is empty.
  void SetLabel(const std::string& key, const std::string& value);
  const std::map<std::string, std::string>& labels() const { return labels_; }
  const MigGpus& mig_gpus() const { return mig_gpus_; }
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  // There is a folder of the Task.
  bool Holds(const session::TaskId& id) const { return tasks_.count(id) != 0; }
  void MakePlace(const session::TaskId& id) { tasks_[id]; }
  // ALREADY_EXISTS if a spec is there.
  absl::Status Start(const session::TaskId& id, const capstan::nodeagent::v1::ShimSpec& spec);
  void Control(const session::TaskId& id, const capstan::nodeagent::v1::ShimControl& control);
  void Kill(const session::TaskId& id);
  // FAILED_PRECONDITION while a process is left.
  absl::Status Remove(const session::TaskId& id);
  std::vector<node_agent::Remains> Discover() const;
  // As the port MigDevices.
  absl::StatusOr<std::string> MakeInstance(const node_agent::MakeMigInstance& order);
  void RemoveInstance(const capstan::type::v1::MigInstance& instance);
  // Answer to a checkpoint request.
  void CheckpointAnswered(uint64_t request, const absl::Status& status);

  // Faults. Each does nothing if there is nothing to hit.
  bool KillShim();
  bool StopShim(absl::Duration how_long);
  bool KillProgram();
  void Reboot();

  // True if a Task runs under its shim.
  bool busy() const { return !Live().empty(); }
  // True if a shim that has a Task to watch is stopped.
  bool has_stopped_shim() const;
  // True if nothing is left: no folder, no process, no MIG instance.
  bool Empty() const { return tasks_.empty() && mig_gpus_.empty(); }
  std::string Left() const;

 private:
  struct Task {
    bool has_spec = false;
    capstan::nodeagent::v1::ShimSpec spec;
    std::unique_ptr<node_agent::ShimDeadline> deadline;
    capstan::nodeagent::v1::ShimStatus status;
    bool shim_alive = false;
    bool shim_stopped = false;
    bool program_alive = false;
    bool killed_by_agent = false;
    int64_t rank = 0;
    int64_t step = 0;
    uint64_t request = 0;  // checkpoint waited for; 0 if none
    int64_t ticks = 0;     // counts alarms set for the shim
    int64_t life = 0;      // counts what was planned for the program
    bool fails = false;
  };

  Task* Find(const session::TaskId& id);
  void Plan(const session::TaskId& id);
  void StepDone(const session::TaskId& id);
  void AskCheckpoint(const session::TaskId& id, int64_t life);
  void Exit(const session::TaskId& id, bool signaled, int code);
  void ArmShim(const session::TaskId& id);
  void Act(const session::TaskId& id, const node_agent::ShimActions& actions);
  void Report(const session::TaskId& id);
  std::vector<session::TaskId> Live() const;

  World* const world_;
  const std::string name_;
  const int64_t cpu_millis_;
  const ProgramConfig program_;
  Witness* const witness_;
  const bool shim_ignores_deadline_;
  MachineClock clock_;
  MigGpus mig_gpus_;
  std::map<std::string, std::string> labels_;
  Listener listener_;
  bool finding_ = false;
  int64_t boots_ = 1;
  uint64_t next_request_ = 1;
  std::map<session::TaskId, Task> tasks_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_MACHINE_H_
