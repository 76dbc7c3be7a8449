// The faults of one run.
#ifndef CAPSTAN_INTEGRATION_CRASH_FAULTS_H_
#define CAPSTAN_INTEGRATION_CRASH_FAULTS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "integration/crash/scenario.h"
#include "integration/platform/test_platform.h"
#include "integration/platform/witness_log.h"
#include "libs/time/clock.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// The faults of a scenario, made as the Job goes on.
class Faults {
 public:
  Faults(TestPlatform* platform, std::string plan_folder, const Scenario* scenario,
         const std::string* job);

  // Called often: makes what is due, and continues what was stopped for long enough. `submitted`:
  // the Job's submit was answered.
  void Drive(bool submitted);
  // Makes no further ones, and continues everything.
  void End();
  int made() const { return made_; }
  // Of those, the ones that a process made to itself at a point.
  int made_at_points() const { return static_cast<int>(claimed_.size()); }
  // Losses of the host, and the newest generation that ran then and had not come to its end.
  int hosts_lost() const { return hosts_lost_; }
  int64_t lost_generation() const { return lost_generation_; }
  // Of those in which everything was stopped.
  int hosts_frozen() const { return hosts_frozen_; }

 private:
  bool HasCome(Moment moment, const WitnessLog& log, bool submitted) const;
  // False if nobody is there whom it could hit: then it is for later.
  bool Make(const Fault& fault, const WitnessLog& log);
  bool LoseHost();
  bool Hit(const std::vector<absl::optional<dev::ProcessId>>& processes, const Fault& fault);
  // Adds the fault to the plan that processes read.
  void LayOut(size_t number, const Fault& fault);
  // Learns of faults that processes have made to themselves.
  void ReadClaims();

  TestPlatform* const platform_;
  const std::string plan_folder_;
  const Scenario* const scenario_;
  const std::string* const job_;
  std::set<size_t> begun_;
  std::string plan_;
  std::set<std::string> claimed_;
  std::vector<std::pair<BootTime, dev::ProcessId>> stopped_;
  // Who has said that it kills itself.
  std::vector<dev::ProcessId> killed_;
  int made_ = 0;
  int hosts_lost_ = 0;
  int hosts_frozen_ = 0;
  int64_t lost_generation_ = 0;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_FAULTS_H_
