#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/text_table.h"
#include "tools/capstan/dev/data_folder.h"
#include "tools/capstan/dev/dev_commands.h"
#include "tools/capstan/dev/leftovers.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/platform_config.h"
#include "tools/capstan/dev/process.h"
#include "tools/capstan/dev/readiness.h"
#include "tools/capstan/dev/supervisor.h"

namespace capstan::dev {
namespace {

// Longer than the supervisor's own bounds together.
constexpr absl::Duration kStopBound = absl::Minutes(65);
constexpr absl::Duration kTaskBound = absl::Hours(1);
constexpr absl::Duration kPartBound = absl::Seconds(15);

}  // namespace

bool IsPlatformRunning(const std::string& data_dir) {
  return ReadPidFile(PidFile(data_dir, "supervisor")).has_value();
}

absl::Status DevDown(const DownOptions& options, cli::Invocation& invocation) {
  const std::string& data_dir = invocation.data_dir;
  if (const auto supervisor = ReadPidFile(PidFile(data_dir, "supervisor"))) {
    *invocation.err << "capstan: stopping the platform in " << data_dir
                    << (options.keep_tasks ? ", Tasks stay" : ", Tasks get their grace")
                    << std::endl;
    SignalProcess(*supervisor, options.keep_tasks ? kKeepTasksSignal : SIGTERM);
    if (!WaitForEnd(*supervisor, kStopBound)) {
      return status::Error(absl::StatusCode::kDeadlineExceeded, "STILL_STOPPING",
                           absl::StrCat("the platform is still stopping; see ", LogFolder(data_dir),
                                        "/supervisor.log"));
    }
    *invocation.err << "capstan: stopped" << std::endl;
    return absl::OkStatus();
  }
  const auto endpoints = cli::ReadEndpoints(data_dir);
  if (!endpoints.ok()) {
    *invocation.err << "capstan: there is no platform in " << data_dir << "\n";
    return absl::OkStatus();
  }
  CAPSTAN_ASSIGN_OR_RETURN(const DataFolder folder, DataFolder::Own(data_dir));
  const std::vector<std::string> found =
      StopLeftovers(folder.path(), options.keep_tasks, kTaskBound, kPartBound);
  RemoveRunFiles(folder.path());
  if (found.empty()) {
    *invocation.err << "capstan: the platform in " << data_dir << " was not running\n";
  } else {
    *invocation.err << "capstan: stopped what a dead supervisor had left: "
                    << absl::StrJoin(found, ", ") << "\n";
  }
  return absl::OkStatus();
}

absl::Status DevStatus(cli::Invocation& invocation) {
  const std::string& data_dir = invocation.data_dir;
  CAPSTAN_ASSIGN_OR_RETURN(const cli::v1::Endpoints endpoints, cli::ReadEndpoints(data_dir));
  const bool running = IsPlatformRunning(data_dir);
  cli::TextTable table({"PART", "PID", "STATE", "ADDRESS", "METRICS", "WHY"});
  bool all_ready = true;
  CAPSTAN_ASSIGN_OR_RETURN(const cli::v1::PlatformConfig config, ReadPlatformConfig(data_dir));
  for (const PartSpec& spec : PartsOf(config)) {
    const auto process = ReadPidFile(PidFile(data_dir, spec.name));
    const auto entry = endpoints.parts().find(spec.name);
    ReadinessAnswer answer;
    if (process.has_value() && entry != endpoints.parts().end()) {
      answer = AskReadiness(entry->second.metrics_address(), absl::Seconds(2));
    }
    const bool ready = process.has_value() && answer.readiness == Readiness::kReady;
    all_ready = all_ready && ready;
    const char* state = !process.has_value()                       ? "STOPPED"
                        : ready                                    ? "READY"
                        : answer.readiness == Readiness::kNotReady ? "NOT_READY"
                                                                   : "STARTING";
    table.AddRow({spec.name,
                  process.has_value() ? absl::StrCat(process->pid) : "",
                  {state, ready ? cli::Colour::kGreen : cli::Colour::kRed},
                  entry == endpoints.parts().end() ? "" : entry->second.address(),
                  entry == endpoints.parts().end() ? "" : entry->second.metrics_address(),
                  answer.reason});
  }
  *invocation.out << "data folder:  " << data_dir << "\n"
                  << "trust domain: " << endpoints.trust_domain() << "\n"
                  << "supervisor:   " << (running ? "running" : "not running") << "\n\n"
                  << table.Render(invocation.out_terminal);
  if (!all_ready) return cli::Failed("the platform is not ready");
  return absl::OkStatus();
}

}  // namespace capstan::dev
