#ifndef CAPSTAN_TOOLS_TESTENV_PLANNED_SERVER_H_
#define CAPSTAN_TOOLS_TESTENV_PLANNED_SERVER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::testenv {

// What `./dev testenv up` would start, as a test's own: the same plan (plans.py), carried out by
// processes that end when this object or the test does. The test needs the tool and the homes of
// the programs as data. For one thread, which must outlive it.
class PlannedServer {
 public:
  struct Request {
    // As `testenv up` calls it, and how many ports it takes.
    std::string server;
    int ports = 1;
    // What it runs; their `_home` targets say where each lies.
    std::vector<std::string> programs{};
    // More of `testenv.py prepare`, e.g. `--clusters=2`.
    std::vector<std::string> arguments{};
  };

  // Starts all of it and waits until it answers. NOT_FOUND, with what to do, if a program is not
  // there; UNAVAILABLE, with the end of the logs, if it does not start.
  static absl::StatusOr<std::unique_ptr<PlannedServer>> Start(const Request& request);
  ~PlannedServer();

  // Of the plan: empty for a name that it does not have.
  std::string endpoint(absl::string_view name) const { return Of("endpoints", name); }
  std::string credential(absl::string_view name) const { return Of("credentials", name); }
  std::string value(absl::string_view name) const { return Of("values", name); }
  const std::string& folder() const { return folder_; }

  // Of a process of the plan by its name. Stop is SIGSTOP, Kill SIGKILL; both need it to run.
  pid_t pid(const std::string& process) const { return processes_.at(process)->pid(); }
  bool IsRunning(const std::string& process) const { return processes_.count(process) > 0; }
  void Kill(const std::string& process) { processes_.erase(process); }
  void Stop(const std::string& process) { processes_.at(process)->Stop(); }
  void Continue(const std::string& process) { processes_.at(process)->Continue(); }
  // Starts one that was killed, with what it had on disk, and waits until it answers.
  absl::Status Restart(const std::string& process);

  // Runs the tool, e.g. {"topic", …}, and waits for it.
  absl::Status RunTool(const std::vector<std::string>& arguments) const;

 private:
  PlannedServer() = default;
  absl::Status Prepare(const Request& request);
  absl::Status Begin(const nlohmann::json& process);
  absl::Status Wait(const std::vector<std::string>& which) const;
  std::string Of(const char* field, absl::string_view name) const;

  std::string folder_;
  std::vector<LoopbackPort> ports_;
  nlohmann::json plan_;
  std::map<std::string, std::unique_ptr<ServerProcess>> processes_;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_PLANNED_SERVER_H_
