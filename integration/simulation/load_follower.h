#ifndef CAPSTAN_INTEGRATION_SIMULATION_LOAD_FOLLOWER_H_
#define CAPSTAN_INTEGRATION_SIMULATION_LOAD_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/scheduler/core/events.h"

namespace capstan::simulation {

// Has Datasets brought for a scheduler in one term, and tells it how far they are: does over the
// simulated network what services/scheduler/adapters/data_loader_source.h does over gRPC. A load is
// looked at again and again, in place of a stream.
class LoadFollower {
 public:
  using Report = std::function<void(const scheduler::Event&)>;

  LoadFollower(Network* network, Process* scheduler, LoaderActor* loader, const Mutants* mutants,
               Report report)
      : network_(network),
        scheduler_(scheduler),
        loader_(loader),
        mutants_(mutants),
        report_(std::move(report)) {}

  // Replaces what was asked before for the same Job and position.
  void Ensure(const scheduler::EnsureData& wanted);
  // No report about the Job from now on.
  void Stop(const std::string& job_uid);

 private:
  // Of a Job: the position of the Dataset.
  using Key = std::pair<std::string, int>;
  struct Wanted {
    scheduler::EnsureData data;
    // Tells it from what was asked before.
    int64_t order = 0;
    bool is_first = true;
    absl::Duration back_off;
  };

  // Null if it is not wanted any more.
  Wanted* Find(const Key& key, int64_t order);
  void Ask(const Key& key, int64_t order);
  void AskLater(const Key& key, int64_t order);
  void Look(const Key& key, int64_t order, const std::string& load);
  // Reports; false if this was the end.
  bool Show(const Key& key, const Wanted& wanted, const capstan::dataloader::v1::DataLoad& load);
  // The last report, which may be the end of this object.
  void End(const Key& key, const scheduler::Event& event);
  // Does it while this lives.
  template <typename Then>
  auto Alive(Then then) {
    return [alive = std::weak_ptr<char>(alive_), then = std::move(then)](const auto&... args) {
      if (!alive.expired()) then(args...);
    };
  }

  Network* const network_;
  Process* const scheduler_;
  LoaderActor* const loader_;
  const Mutants* const mutants_;
  const Report report_;
  int64_t orders_ = 0;
  std::map<Key, Wanted> wanted_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_LOAD_FOLLOWER_H_
