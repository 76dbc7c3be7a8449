#ifndef CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "services/telemetry/core/producer_index.h"

namespace capstan::simulation {

// Telemetry: its real producer index in front of one Stream, whose segments are on one disk. Checks
// at each append and at the start of each life that
//  1. no record is in the Stream twice, and those of a producer's key are in order;
//  2. what was acknowledged is there.
class TelemetryActor final : public Process {
 public:
  struct Record {
    std::string key;
    int64_t sequence = 0;
  };
  TelemetryActor(World* world, const MachineClock* clock, const Mutants* mutants)
      : Process(world, "telemetry", clock), mutants_(mutants) {}

  // Keeps what is new, and replies once all is on disk.
  void Append(const std::string& producer, const std::vector<Record>& records,
              const std::function<void(absl::StatusOr<bool>)>& reply);

  // A leader has committed the record, which therefore must come.
  void Committed(const Record& record) { committed_.insert({record.sequence, record.key}); }
  // Whether all that was committed has come; if not, says why.
  bool HasAll(std::string* why) const;

  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  // Walks the Stream on disk.
  void Check();

  const Mutants* const mutants_;
  Disk disk_;
  std::set<std::pair<int64_t, std::string>> committed_;
  std::set<std::pair<int64_t, std::string>> acknowledged_;
  // Of this life.
  int64_t next_offset_ = 0;
  std::unique_ptr<telemetry::ProducerIndex> index_;
  std::unique_ptr<CommitPipe> pipe_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_ACTOR_H_
