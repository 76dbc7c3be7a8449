// One Node's data path as a program, for a host of a test: brings one version, says how, and gives
// it to others until it is told to end.
//
//   peer_node <identity folder> <data_loader> <own address or -> <cache folder> <version> <holder>
//
// Prints `done <seconds> <folder> <bytes from the Site> <bytes from peers>`, or `failed <status>`.
// Whom it refuses it writes to `refused` in the identity folder, a line each: `handshake`, or the
// caller, what was called and the reason. Denied are the SPIFFE ids in `denied` there, one a line,
// which is read again on SIGHUP.
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "services/node_agent/adapters/cached_data_access.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/data_path.h"
#include "services/node_agent/ports/data_access.h"

namespace capstan {
namespace {

// Thread-safe.
class FileAudit final : public audit::AuditSink {
 public:
  explicit FileAudit(const std::string& path) : file_(path) {}

  absl::Status Record(const audit::AuditEntry& entry) override {
    Write(absl::StrCat(entry.principal, " ", entry.act, " ", entry.message));
    return absl::OkStatus();
  }
  void Write(absl::string_view line) {
    absl::MutexLock lock(&mutex_);
    file_ << line << std::endl;
  }

 private:
  absl::Mutex mutex_;
  std::ofstream file_ ABSL_GUARDED_BY(mutex_);
};

std::shared_ptr<const auth::Policy> PolicyIn(const std::string& path, BootTime now) {
  credentials::v1::PolicySnapshot snapshot;
  std::ifstream file(path);
  for (std::string id; std::getline(file, id);) snapshot.add_denied_ids(id);
  return auth::Policy::Kept(snapshot, now);
}

absl::StatusOr<std::string> PinOnce(Strand* strand, node_agent::DataAccess* data,
                                    const std::string& version, const std::string& holder) {
  absl::optional<absl::StatusOr<std::string>> answer;
  absl::Notification done;
  strand->Post([&] {
    data->PinVersion(version, holder, [&](absl::StatusOr<std::string> directory) {
      answer = std::move(directory);
      done.Notify();
    });
  });
  done.WaitForNotification();
  return *std::move(answer);
}

int Run(char** argv, const sigset_t& signals) {
  const SystemClock clock;
  log::TestingSink sink;
  const log::Logger logger("peer_node", &clock, &sink);
  metrics::Registry registry("node_agent");
  const auto identity = rpc::Identity::Load(argv[1]);
  if (!identity.ok()) {
    std::printf("failed %s\n", identity.status().ToString().c_str());
    return 1;
  }
  FileAudit audit(absl::StrCat(argv[1], "/refused"));
  auth::PolicyHolder policy;
  policy.Set(PolicyIn(absl::StrCat(argv[1], "/denied"), clock.Read().boot));
  auth::PolicyAccess access((*identity)->trust_domain(), &policy, &clock, &audit);
  node_agent::GrantBook grants;
  std::ifstream grant(absl::StrCat(argv[1], "/grant"), std::ios::binary);
  const std::vector<std::string> holder = absl::StrSplit(argv[6], '/');
  int64_t generation = 0;
  if (holder.size() != 2 || !absl::SimpleAtoi(holder[1], &generation)) return 2;
  grants.Hold({.id = {.job_uid = holder[0], .generation = generation, .group = "w"},
               .job = "projects/p/jobs/j",
               .grant = std::string(std::istreambuf_iterator<char>(grant), {})});
  ThreadStrand strand("peer_node", &clock);
  const auto loader = rpc::Dial(argv[2], *identity, &clock, "/svc/data_loader");
  node_agent::DataPathConfig config;
  config.cluster = "local";
  config.cache.folder = argv[4];
  if (std::string(argv[3]) != "-") config.peer_address = argv[3];
  node_agent::DataPathDeps deps;
  deps.strand = &strand;
  deps.logger = &logger;
  deps.registry = &registry;
  deps.data_loader = loader;
  deps.grants = &grants;
  deps.access = &access;
  deps.peer_credentials = rpc::MutualTlsServerCredentials(
      *identity, &clock,
      [&audit](const absl::Status&, absl::string_view) { audit.Write("handshake"); });
  deps.dial_peer = [&](const std::string& address, const std::string& path) {
    return rpc::Dial(address, *identity, &clock, path);
  };
  deps.seed = static_cast<uint64_t>(clock.Read().boot.ToNanoseconds());
  auto path = node_agent::DataPath::Open(config, deps);
  if (!path.ok()) {
    std::printf("failed %s\n", path.status().ToString().c_str());
    return 1;
  }
  auto data = node_agent::MakeCachedDataAccess(loader, &strand, (*path)->cache(), &grants);
  strand.Post([&] { (*path)->Start(); });
  const BootTime begun = clock.Read().boot;
  absl::StatusOr<std::string> directory = absl::UnavailableError("");
  while (absl::IsUnavailable(directory.status())) {
    directory = PinOnce(&strand, data.get(), argv[5], argv[6]);
  }
  const auto from = [&](const char* origin) {
    return registry
        .AddCounter("cache_fetched_bytes_total", "Content brought to this Node",
                    {{"origin", origin}})
        .value();
  };
  if (directory.ok()) {
    std::printf("done %.3f %s %.0f %.0f\n", absl::ToDoubleSeconds(clock.Read().boot - begun),
                directory->c_str(), from("loader"), from("peer"));
  } else {
    std::printf("failed %s\n", directory.status().ToString().c_str());
  }
  std::fflush(stdout);
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) {
    policy.Set(PolicyIn(absl::StrCat(argv[1], "/denied"), clock.Read().boot));
    // As the process' enforcer does with each policy.
    access.RecheckOpenCalls();
  }
  (*path)->StopServing(absl::ZeroDuration());
  absl::Notification gone;
  strand.Post([&] {
    data.reset();
    path->reset();
    gone.Notify();
  });
  gone.WaitForNotification();
  return 0;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  // Before any thread is made, so that all have it blocked.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return capstan::Run(argv, set);
}
