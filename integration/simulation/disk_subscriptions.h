#ifndef CAPSTAN_INTEGRATION_SIMULATION_DISK_SUBSCRIPTIONS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DISK_SUBSCRIPTIONS_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/ports/subscription_store.h"

namespace capstan::simulation {

// Where one life of telemetry keeps its subscriptions: on a simulated disk.
class DiskSubscriptions final : public telemetry::SubscriptionStore {
 public:
  // The one that there is in a simulated world, and what it reads.
  static constexpr char kProject[] = "projects/p";
  static constexpr char kId[] = "s";
  static constexpr char kName[] = "projects/p/subscriptions/s";
  static constexpr char kStream[] = "projects/p/jobs/all/streams/events";
  static std::string Key(const std::string& name);

  // `stored` runs whenever one has changed on the disk.
  DiskSubscriptions(Process* process, Disk* disk, const Mutants* mutants,
                    std::function<void()> stored)
      : process_(process), disk_(disk), mutants_(mutants), stored_(std::move(stored)) {}

  absl::StatusOr<std::vector<telemetry::core::SubscriptionRecord>> Load() override;
  void Put(telemetry::core::SubscriptionRecord record, Done done) override;
  void Remove(std::string name, Done done) override;

  // The life is over: the oldest write under way may or may not have taken effect.
  void Crash();

 private:
  struct Write {
    std::string key;
    // Absent: it is removed.
    absl::optional<std::string> value;
    Done done;
  };
  void Take(Write write);
  // The disk fails; what it says.
  absl::Status Fail(const Write& write);
  void Next();
  void Apply(const Write& write);

  Process* const process_;
  Disk* const disk_;
  const Mutants* const mutants_;
  const std::function<void()> stored_;
  std::deque<Write> queue_;
  // Failed, but whole in the log on the disk: there once it is opened again, unless something is
  // written over it before.
  std::function<void()> in_log_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DISK_SUBSCRIPTIONS_H_
