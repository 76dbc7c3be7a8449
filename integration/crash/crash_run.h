// One Job through one scenario, and everything that must be true of it afterwards.
#ifndef CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
#define CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "integration/crash/etcd_leases.h"
#include "integration/crash/scenario.h"
#include "integration/platform/test_platform.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::integration {

// Faults of several runs: how many were drawn, and of those how many have been carried out.
struct FaultCounts {
  int drawn = 0;
  int made = 0;
  // Of those, the ones at a crash point, which a process does to itself.
  int drawn_at_points = 0;
  int made_at_points = 0;
  // Losses of the host, and stops of all that runs on it but Tasks.
  int hosts_lost = 0;
  int hosts_frozen = 0;
};

// How to look into a store of services that is none of their own files.
struct StoreView {
  // Keys that begin with a prefix.
  std::function<std::vector<std::string>(const std::string& prefix)> keys;
  // All that have not run out.
  std::function<std::vector<EtcdLease>()> leases;
};

// A platform whose parts and shims have armed crash points. It serves several runs, one after
// another. Failures are GoogleTest's. One thread.
class CrashPlatform {
 public:
  // `config`: lines of PlatformConfig. `store`: where the services keep their truth, if it is not
  // SQLite files. The platform is started by the first run.
  explicit CrashPlatform(absl::string_view config = "",
                         absl::optional<StoreView> store = absl::nullopt);
  // Judges what is left in the stores and files, then TestPlatform what is left on the machine.
  ~CrashPlatform();

  // A Job for each scenario: it must succeed, and nothing acknowledged may be missing: its Output,
  // the lines of its logs, also for a subscriber, its events, and the audit record of an act. No
  // Task outlives its host.
  void Run(const Scenario& scenario);

  // `<part>@<point>` for each point that a part has come by.
  std::set<std::string> Seen() const;
  const FaultCounts& counts() const { return counts_; }

 private:
  // Every Job that was submitted is there and has succeeded, and every record can be read.
  void JudgeJobs();
  // Nothing of ended Jobs stays in the stores of executor and agent (Tasks, orders, cursors, uids),
  // and none of their pins in those of scheduler and data_loader.
  void JudgeStores();
  void JudgeNothingStored(const std::string& part, const std::string& kind);
  // Nothing is left of loads, uploads, copies, versions that had to leave, and files beside their
  // places.
  void JudgeFiles();
  // Those whose holders have died are gone.
  void JudgeLeases();
  void JudgeEtcdLeases();
  void JudgeEtcdLeasesOfNobody();
  std::vector<std::string> Keys(const std::string& part, const std::string& kind);
  std::unique_ptr<store::SqliteConnection> OpenStore(const std::string& part) const;

  std::unique_ptr<TestPlatform> platform_;
  const absl::optional<StoreView> store_;
  std::vector<std::string> jobs_;
  FaultCounts counts_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
