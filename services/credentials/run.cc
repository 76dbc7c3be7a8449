#include "services/credentials/run.h"

#include <memory>

#include "libs/process/check.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "services/credentials/server.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kLeastTtl = absl::Seconds(30);
constexpr absl::Duration kMostTtl = absl::Hours(24 * 30);
// Three of the intervals in which it comes anew fit into it, a lost connection included.
constexpr absl::Duration kLeastPolicyValid = absl::Seconds(10);
// A right that was taken away holds for so long where nobody hears of it.
constexpr absl::Duration kMostPolicyValid = absl::Hours(1);

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "credentials", .joins = false};
  return *kKind;
}

}  // namespace

absl::Status CheckConfig(const config::v1::CredentialsConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  process::CheckAddress("join_listen", config.join_listen(), /*may_choose=*/true, &errors);
  if (!config.person_socket().empty()) {
    process::CheckAbsolutePath("person_socket", config.person_socket(), &errors);
  }
  if (!config.key_file().empty()) {
    process::CheckAbsolutePath("key_file", config.key_file(), &errors);
  }
  process::CheckDuration("svid_ttl", config.has_svid_ttl(), config.svid_ttl(), kLeastTtl, kMostTtl,
                         &errors);
  process::CheckDuration("task_svid_ttl", config.has_task_svid_ttl(), config.task_svid_ttl(),
                         kLeastTtl, kMostTtl, &errors);
  process::CheckDuration("person_svid_ttl", config.has_person_svid_ttl(), config.person_svid_ttl(),
                         kLeastTtl, kMostTtl, &errors);
  process::CheckDuration("policy_valid", config.has_policy_valid(), config.policy_valid(),
                         kLeastPolicyValid, kMostPolicyValid, &errors);
  return errors.ToStatus();
}

absl::Status Run(const config::v1::CredentialsConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  Config settings;
  settings.data_folder = config.process().data_folder();
  settings.listen = config.process().listen();
  settings.join_listen = config.join_listen();
  settings.person_socket = config.person_socket();
  settings.trust_domain = config.trust_domain();
  if (config.has_admin_uid()) settings.admin_uid = config.admin_uid();
  settings.supervisor_fd = options.supervisor_fd;
  settings.supervised_paths = options.supervised_paths;
  settings.key_file = config.key_file();
  if (config.has_svid_ttl()) settings.core.svid_ttl = ToDuration(config.svid_ttl());
  if (config.has_task_svid_ttl()) {
    settings.core.task_svid_ttl = ToDuration(config.task_svid_ttl());
  }
  if (config.has_person_svid_ttl()) {
    settings.core.person_svid_ttl = ToDuration(config.person_svid_ttl());
  }
  if (config.has_policy_valid()) settings.core.policy_valid = ToDuration(config.policy_valid());

  settings.issuer = config.issuer();
  settings.openid_listen = config.openid_listen();

  ThreadStrand io_strand("cred.io", clock);
  Deps deps;
  deps.clock = clock;
  deps.strand = process->strand();
  deps.io_strand = &io_strand;
  deps.store = process->store();
  deps.log = process->logger();
  deps.metrics = process->registry();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(server->Start());
  process->AdoptIdentity(server->identity());
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([&server] { return server->Ready(); }));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(clock->Read().boot + process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("credentials", "Identities, Projects and policy", CheckConfig, Run,
                              /*is_supervised=*/true);
}

}  // namespace capstan::credentials
