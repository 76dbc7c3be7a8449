// One Job through one scenario, and everything that must be true of it afterwards.
#ifndef CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
#define CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
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
};

// A platform whose parts and shims have armed crash points. It serves several runs, one after
// another. Failures are GoogleTest's. One thread.
class CrashPlatform {
 public:
  // Keys of services' stores that begin with a prefix.
  using KeysBelow = std::function<std::vector<std::string>(const std::string& prefix)>;

  // `config`: lines of PlatformConfig. `keys_of_services`: how to look into their stores; null if
  // they are SQLite files. The platform is started by the first run.
  explicit CrashPlatform(absl::string_view config = "", KeysBelow keys_of_services = nullptr);
  // Judges what is left in the stores, then TestPlatform what is left on the machine.
  ~CrashPlatform();

  // A Job for each scenario: it must succeed, and nothing acknowledged may be missing: its Output,
  // the lines of its logs, its events, and the audit record of an act.
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
  // Of the leases in SQLite files, those whose holders have died are gone.
  void JudgeLeases();
  std::unique_ptr<store::SqliteConnection> OpenStore(const std::string& part) const;

  std::unique_ptr<TestPlatform> platform_;
  const KeysBelow keys_of_services_;
  std::vector<std::string> jobs_;
  FaultCounts counts_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
