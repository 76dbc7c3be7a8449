#ifndef CAPSTAN_INTEGRATION_SIMULATION_CONFIRMATIONS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_CONFIRMATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/simulation/network.h"
#include "integration/simulation/world.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::simulation {

// The confirmations by the scheduler that reached each Node, in the words of DESIGN.md §4, but on
// true time and from the traffic alone: no core is asked. An executor is confirmed as of the moment
// at which it sent a renewal whose answer it then took; an agent as of what its executor had taken
// when it sent the answer that the agent took.
class Confirmations final : public Tap {
 public:
  explicit Confirmations(const World* world) : world_(world) {}

  // The newest one that a process, by name, had taken by `time`; absent if none.
  absl::optional<absl::Duration> LatestBy(const std::string& name, absl::Duration time) const;

  void SentUp(const Pipe& pipe, const capstan::type::v1::SessionUp& message) override;
  void SentDown(const Pipe& pipe, const capstan::type::v1::SessionDown& message) override;
  void TakenDown(const Pipe& pipe, const capstan::type::v1::SessionDown& message) override;

 private:
  // By when it was taken: as of when the newest until then confirms.
  using History = std::map<absl::Duration, absl::Duration>;
  using Renewal = std::pair<const Pipe*, int64_t>;

  const World* const world_;
  // When each was sent, and what its answer stands for.
  std::map<Renewal, absl::Duration> renewals_;
  std::map<Renewal, absl::Duration> answers_;
  std::map<std::string, History> taken_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_CONFIRMATIONS_H_
