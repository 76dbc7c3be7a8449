#ifndef CAPSTAN_INTEGRATION_SIMULATION_DATASET_OWNERS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DATASET_OWNERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"

namespace capstan::simulation {

// People who have Datasets: they make them, replace what is at their sources, and now and then take
// it away for a while. Never crashes.
class DatasetOwners final : public Process {
 public:
  DatasetOwners(Network* network, const MachineClock* clock, LoaderActor* loader,
                DatasetSources* sources);

  // Make their Datasets, and change sources until `end`, in true time; then all is there again.
  void Act(absl::Duration end);
  // Some Dataset; seldom the one whose source is never there.
  std::string AnyDataset();
  // A version of it that is or was at the Site, by id; empty if there is none yet.
  std::string NewestVersion(const std::string& dataset) const;
  // Whether all that was asked is answered, and what was acknowledged is stored; if not, says why.
  bool Idle(std::string* why) const;

 protected:
  void OnStart() override {}
  void OnCrash() override {}
  void OnAlarm() override {}

 private:
  void Make(const std::string& id, const std::string& uri, const std::string& request_id);
  void Plan(absl::Duration end);

  Network* const network_;
  LoaderActor* const loader_;
  DatasetSources* const sources_;
  int64_t open_ = 0;
  std::set<std::string> acknowledged_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DATASET_OWNERS_H_
