#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_SUPERVISOR_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_SUPERVISOR_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/time/clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "tools/capstan/dev/credentials_link.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/process.h"
#include "tools/capstan/dev/restart_policy.h"

namespace capstan::dev {

// What is asked of the supervisor: SIGTERM or SIGINT stop the Tasks too, kKeepTasksSignal does not.
enum class StopKind { kStopTasks, kKeepTasks };

inline constexpr int kKeepTasksSignal = SIGUSR2;

struct SupervisorOptions {
  std::string data_dir;
  // Absolute path of this program.
  std::string program;
  // Folder of the services' own programs, `<service>/<service>_main`; empty: all parts are this
  // program's `serve`.
  std::string programs;
  // What runs, in the order of starting.
  std::vector<PartSpec> parts;
  // Of the children, all of it.
  std::vector<std::string> environment;
  // Bound of ending all Tasks when stopping; the longest grace there is plus the time to kill.
  absl::Duration task_stop_bound = absl::Hours(1) + absl::Minutes(1);
  // Bound of a part's own drain; then it is killed. Nothing is lost by that.
  absl::Duration part_stop_bound = absl::Seconds(15);
};

// Runs the parts as child processes: starts them, hands join tokens to those that need one, starts
// again what ends, and stops all in order. One thread; made for `capstan dev up`.
//
// Stopping with Tasks: cluster_manager first, so that it cordons nothing; then the node agent, told
// to end its Tasks, while everything it needs is still there; then the others, credentials last.
class Supervisor {
 public:
  // The pointers must outlive it. `on_ready` is called once, when every part is ready for the first
  // time; `on_phase` with a line for people when stopping goes on to something that may take long.
  Supervisor(SupervisorOptions options, cli::v1::Endpoints endpoints, const Clock* clock,
             const log::Logger* log, std::function<void()> on_ready,
             std::function<void(const std::string&)> on_phase);
  ~Supervisor();

  // Runs until a signal number is read from `signal_fd` (one byte each), then stops everything.
  // Fails if a part can never run: its program is missing, or it ends again and again before the
  // platform was ready once.
  absl::Status Run(int signal_fd);

 private:
  struct Part {
    PartSpec spec;
    absl::optional<Child> child;
    RestartPolicy restarts;
    // When to start it; absent while it runs.
    absl::optional<BootTime> start_at;
    bool needs_token = false;
    bool token_asked = false;
    std::string token;
    bool ready = false;
  };

  // Null if the platform has no such part.
  Part* Find(absl::string_view name);
  // credentials runs and has said that it is ready.
  bool CanAskForTokens() const;
  absl::Status StartDue();
  absl::Status StartPart(Part& part);
  void PrepareCredentials(SpawnOptions* spawn, UniqueFd* child_end);
  void ReapEnded();
  void ReadLink();
  void HandleMessage(const CredentialsMessage& message);
  void ProbeReadiness();
  absl::Duration TimeToNext() const;
  // Absent, or what was asked for.
  absl::optional<StopKind> ReadSignal(int signal_fd);

  void StopAll(StopKind kind, int signal_fd);
  // False if another signal came before the part had ended.
  bool StopPart(Part& part, int signal, absl::Duration bound, int signal_fd);

  const SupervisorOptions options_;
  cli::v1::Endpoints endpoints_;
  const Clock* const clock_;
  const log::Logger* const log_;
  std::function<void()> on_ready_;
  const std::function<void(const std::string&)> on_phase_;
  std::vector<Part> parts_;
  absl::optional<CredentialsLink> link_;
  BootTime next_probe_;
};

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_SUPERVISOR_H_
