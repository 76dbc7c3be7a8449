// One Job through one scenario, and everything that must be true of it afterwards.
#ifndef CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
#define CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "integration/crash/scenario.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {

// A platform whose parts and shims have armed crash points. It serves several runs, one after
// another. Failures are GoogleTest's. One thread.
class CrashPlatform {
 public:
  // `config`: lines of PlatformConfig. The platform is started by the first run.
  explicit CrashPlatform(absl::string_view config = "");
  // Judges what is left in the stores, then TestPlatform what is left on the machine.
  ~CrashPlatform();

  // A Job for each scenario: it must succeed, and nothing acknowledged may be missing.
  void Run(const Scenario& scenario);

  // `<part>@<point>` for each point that a part has come by.
  std::set<std::string> Seen() const;
  // Faults of the runs so far that have been carried out, of those drawn.
  int faults_made() const { return faults_made_; }
  int faults_drawn() const { return faults_drawn_; }

 private:
  // Every Job that was submitted is there and has succeeded.
  void JudgeJobs();
  // Nothing of ended Jobs stays in the stores of executor and agent (Tasks, orders, cursors, uids),
  // and none of their pins in those of scheduler and data_loader. Looks into SQLite files alone.
  void JudgeStores();

  std::unique_ptr<TestPlatform> platform_;
  const bool own_files_;
  std::vector<std::string> jobs_;
  int faults_made_ = 0;
  int faults_drawn_ = 0;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_CRASH_RUN_H_
