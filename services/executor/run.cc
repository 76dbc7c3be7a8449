#include "services/executor/run.h"

#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/process/check.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/executor/server.h"

namespace capstan::executor {
namespace {

constexpr int64_t kFirstJobUid = 70'000;
constexpr int64_t kLastJobUid = 79'999;
// Below are the system's and people's uids, above what no kernel takes.
constexpr int64_t kLeastUid = 1'000;
constexpr int64_t kMostUid = 4'294'000'000;
constexpr absl::Duration kLeastSuspectAfter = absl::Seconds(10);
constexpr absl::Duration kMost = absl::Hours(24 * 30);

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "executor"};
  return *kKind;
}

}  // namespace

absl::Status CheckConfig(const config::v1::ExecutorConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  if (!resource::IsValidId(config.cluster())) {
    errors.Add("cluster",
               absl::StrCat("'", config.cluster(), "' is not an id: ", resource::kIdRule));
  }
  process::CheckPeer("scheduler", config.scheduler(), &errors);
  process::CheckDuration("suspect_after", config.has_suspect_after(), config.suspect_after(),
                         kLeastSuspectAfter, kMost, &errors);
  if (config.first_uid() != 0 || config.last_uid() != 0) {
    if (config.first_uid() < kLeastUid || config.last_uid() > kMostUid ||
        config.first_uid() > config.last_uid()) {
      errors.Add("first_uid",
                 absl::StrCat("to last_uid is ", config.first_uid(), " to ", config.last_uid(),
                              "; expected a range within ", kLeastUid, " to ", kMostUid));
    }
  }
  return errors.ToStatus();
}

absl::Status Run(const config::v1::ExecutorConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.address = config.process().listen();
  settings.cluster = config.cluster();
  if (config.has_suspect_after()) settings.suspect_after = ToDuration(config.suspect_after());
  if (geteuid() == 0) {
    settings.first_uid = config.first_uid() == 0 ? kFirstJobUid : config.first_uid();
    settings.last_uid = config.last_uid() == 0 ? kLastJobUid : config.last_uid();
  }
  settings.max_connection_age = process->max_connection_age();

  ServerDeps deps;
  deps.strand = process->strand();
  deps.store = process->store();
  deps.access = process->access();
  deps.logger = process->logger();
  deps.registry = process->registry();
  deps.spans = process->spans();
  deps.scheduler = process->ChannelToLeader(config.scheduler(), "/svc/scheduler");
  deps.credentials = process->server_credentials();
  deps.seed = process->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([&server] { return server->Ready(); }));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("executor", "The control of one Cluster", CheckConfig, Run);
}

}  // namespace capstan::executor
