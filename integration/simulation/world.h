#ifndef CAPSTAN_INTEGRATION_SIMULATION_WORLD_H_
#define CAPSTAN_INTEGRATION_SIMULATION_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::simulation {

// The one queue of everything that happens, on true time from 0. Events of the same moment happen
// in the order in which they were asked for, so a seed makes one history.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  Random& random() { return random_; }
  absl::Duration now() const { return now_; }

  void After(absl::Duration delay, std::function<void()> happen);
  // Nothing more happens: what was to, is dropped while those live that it knows.
  void End();
  // Makes the next thing happen; false if there is none.
  bool Step();

  // Adds a line to the history: it is hashed, and printed if asked for.
  void Log(absl::string_view who, absl::string_view what);
  uint64_t log_hash() const { return log_hash_; }
  void PrintLog() { print_ = true; }

  // Counts one firing of a kind of fault.
  void Fault(const std::string& kind) { ++faults_[kind]; }
  const std::map<std::string, int>& faults() const { return faults_; }

  // Notes what must never be; the run ends.
  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }

 private:
  Random random_;
  absl::Duration now_;
  uint64_t next_ = 0;
  bool over_ = false;
  std::map<std::pair<absl::Duration, uint64_t>, std::function<void()>> queue_;
  uint64_t log_hash_ = 14695981039346656037u;
  bool print_ = false;
  std::map<std::string, int> faults_;
  std::string violation_;
};

// A machine's clocks: another boot, another wall that may be set, and a rate of its own within
// 1,000 ppm.
class MachineClock {
 public:
  explicit MachineClock(World* world);

  Now Read() const { return At(world_->now()); }
  // What the clocks show at a true time.
  Now At(absl::Duration true_time) const;
  // True time until the boot clock shows `time`; not negative.
  absl::Duration Until(BootTime time) const;
  // Somebody sets the wall clock; the boot clock goes on.
  void StepWall(absl::Duration by) { wall_step_ += by; }

 private:
  World* world_;
  absl::Duration offset_;
  int64_t rate_ppm_;
  absl::Duration wall_step_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_WORLD_H_
