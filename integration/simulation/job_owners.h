#ifndef CAPSTAN_INTEGRATION_SIMULATION_JOB_OWNERS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_JOB_OWNERS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/scheduler_caller.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::simulation {

// People who change priorities and time limits of Jobs, hold them for a while and release them; and
// who see that what was acknowledged as held is stored so until they ask to release it.
class JobOwners final : public SchedulerCaller {
 public:
  JobOwners(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
            const SharedStore* store);

  // One of theirs from now on.
  void Have(const capstan::scheduler::v1::Job& job);
  // Change Jobs until `end`, in true time; then all are released.
  void Act(absl::Duration end);

 private:
  struct Owned {
    std::string name;
    std::string uid;
    // A release that is late may come after any hold: so there is one hold of each.
    bool was_held = false;
  };
  using Change = capstan::scheduler::records::v1::JobChange;

  void Plan(absl::Duration end);
  void Hold(Owned* job);
  void Release(const Owned& job);
  // Unless it has ended, or was asked to be released.
  void CheckHeld(const Owned& job);
  // Again and again until there is an answer, of which `done` is told.
  void Update(const std::string& job, const Change& change, absl::AnyInvocable<void(bool ok)> done);

  const SharedStore* const store_;
  std::vector<Owned> jobs_;
  std::set<std::string> released_;  // uids
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_JOB_OWNERS_H_
