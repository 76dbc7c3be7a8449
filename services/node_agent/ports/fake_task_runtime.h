#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_TASK_RUNTIME_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_TASK_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "libs/strand/strand.h"
#include "services/node_agent/core/shim_deadline.h"
#include "services/node_agent/ports/task_runtime.h"

namespace capstan::node_agent {

// What a Task's program does on a FakeTaskMachine.
struct FakeProgram {
  // Ends by itself after this long.
  absl::Duration duration = absl::InfiniteDuration();
  // How it does; a signal other than 0 wins.
  int exit_code = 0;
  int signal = 0;
  // From SIGTERM to its end with exit code 0; infinite if it ignores SIGTERM.
  absl::Duration termination = absl::ZeroDuration();
  // exec fails with this message.
  std::string exec_error = "";
  // The kernel ends it for want of memory when its duration is over.
  bool out_of_memory = false;
};

class FakeTaskRuntime;

// A machine with shims on it that run on the strand's time and decide with the real ShimDeadline.
// It outlives the agents that come and go; there is one for each Node of a simulation. One thread.
class FakeTaskMachine {
 public:
  using ProgramOf = std::function<FakeProgram(const capstan::nodeagent::v1::ShimSpec& spec)>;
  // Told of each start and end of a Task's processes, at the moment they happen.
  using Observer = std::function<void(const capstan::type::v1::TaskKey& key, bool started)>;
  // Asked before each operation (its method's name); an error is answered instead of acting.
  using Fault =
      std::function<absl::Status(absl::string_view operation, const capstan::type::v1::TaskKey&)>;

  // `strand` is the machine's own time and outlives it.
  explicit FakeTaskMachine(Strand* strand);
  ~FakeTaskMachine();

  // By default every program runs until it is told to end.
  void SetPrograms(ProgramOf program_of) { program_of_ = std::move(program_of); }
  void SetObserver(Observer observer) { observer_ = std::move(observer); }
  void SetFault(Fault fault) { fault_ = std::move(fault); }

  // kill -9, SIGSTOP and SIGCONT of a shim. A killed one takes its Task with it.
  void KillShim(const capstan::type::v1::TaskKey& key);
  void StopShim(const capstan::type::v1::TaskKey& key);
  void ContinueShim(const capstan::type::v1::TaskKey& key);
  // A signal to the Task's program from outside Capstan, which ends it.
  void SignalTask(const capstan::type::v1::TaskKey& key, int signal);
  // Every process is gone, every file stays; the strand's clock goes on, as if boot_id had changed.
  void Reboot();

  // Tasks with a living process.
  std::vector<capstan::type::v1::TaskKey> Running() const;
  // Tasks with a folder.
  std::vector<capstan::type::v1::TaskKey> Places() const;
  // How often the Task's program was started, ever.
  int Starts(const capstan::type::v1::TaskKey& key) const;

 private:
  friend class FakeTaskRuntime;

  struct Shim;
  struct Place {
    capstan::type::v1::TaskKey key;
    absl::optional<capstan::nodeagent::v1::ShimSpec> spec;
    absl::optional<capstan::nodeagent::v1::ShimControl> control;
    capstan::nodeagent::v1::ShimStatus status;
    bool killed_by_agent = false;
    // A process of the Task lives.
    bool task_alive = false;
    std::unique_ptr<Shim> shim;
  };

  absl::Status CheckFault(absl::string_view operation, const capstan::type::v1::TaskKey& key) const;
  Place* Find(const capstan::type::v1::TaskKey& key);
  void StartShim(Place& place);
  void StartTask(Place& place);
  void Act(Place& place, ShimActions actions);
  // The Task's processes end; the shim learns of it if it can.
  void EndTask(Place& place, const ProgramEnd& how);
  void Record(Place& place, const ProgramEnd& how);
  void ReadControl(Place& place);
  void ArmTick(Place& place);
  void EndShim(Place& place);
  void Tell(const Place& place, bool shim_dead);

  Strand* const strand_;
  ProgramOf program_of_;
  Observer observer_;
  Fault fault_;
  std::map<std::string, Place> places_;
  std::map<std::string, int> starts_;
  int64_t next_pid_ = 1000;
  // The agent that listens now.
  FakeTaskRuntime* agent_ = nullptr;
};

// The port on such a machine. Answers are posted to the agent's strand; destroying it is the
// agent's crash: what was not answered never is.
class FakeTaskRuntime final : public TaskRuntime {
 public:
  // Both outlive the runtime.
  FakeTaskRuntime(FakeTaskMachine* machine, Strand* strand);
  ~FakeTaskRuntime() override;

  void SetStatusCallback(StatusCallback on_status) override;
  void MakePlace(const capstan::type::v1::TaskKey& key, const capstan::type::v1::Resources& limits,
                 int64_t unix_uid,
                 absl::AnyInvocable<void(absl::StatusOr<TaskPlace>)> done) override;
  void Start(const capstan::nodeagent::v1::ShimSpec& spec, DoneCallback done) override;
  void Control(const capstan::type::v1::TaskKey& key,
               const capstan::nodeagent::v1::ShimControl& control, DoneCallback done) override;
  void Kill(const capstan::type::v1::TaskKey& key, DoneCallback done) override;
  void Discover(absl::AnyInvocable<void(absl::StatusOr<std::vector<FoundTask>>)> done) override;
  void Remove(const capstan::type::v1::TaskKey& key, DoneCallback done) override;

 private:
  friend class FakeTaskMachine;

  void OnStatus(const capstan::type::v1::TaskKey& key,
                const capstan::nodeagent::v1::ShimStatus& status);
  template <typename Callback, typename Result>
  void Answer(Callback done, Result result);
  absl::Status DoStart(const capstan::nodeagent::v1::ShimSpec& spec);
  absl::Status DoRemove(const capstan::type::v1::TaskKey& key);

  FakeTaskMachine* const machine_;
  Strand* const strand_;
  std::shared_ptr<StatusCallback> on_status_;
  // False once the agent has crashed; shared with what is posted.
  const std::shared_ptr<bool> alive_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_TASK_RUNTIME_H_
