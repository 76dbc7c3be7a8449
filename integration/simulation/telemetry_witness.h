#ifndef CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::simulation {

// Sees what telemetry has on its disk, all that it answers, and all that the readers of its one
// subscription get. Checks each time:
//  1. no record is in the Stream twice, and those of a producer's key are in order;
//  2. what was acknowledged to a producer is there, unless retention has dropped it;
//  3. an offset always means the same record, and none is delivered before it is on disk;
//  4. a reader gets records without a hole, and none for the first time before all earlier ones
//     were delivered to somebody or reported as lost;
//  5. the stored cursor moves forth only by what the reader of that very generation has asked, only
//     over what was delivered or reported lost, and back only by a seek;
//  6. an acknowledgement or a seek is answered once it is stored, and stays so.
class TelemetryWitness {
 public:
  TelemetryWitness(World* world, const Disk* disk) : world_(world), disk_(disk) {}

  // A life begins, and reads the disk.
  void Loaded();
  // The Stream on disk has changed.
  void StreamStored();
  // A leader has committed the record, which therefore must come.
  void Committed(const std::string& key, int64_t sequence) { committed_.insert({sequence, key}); }
  // Its producer was told that it is there.
  void Acknowledged(const std::string& key, int64_t sequence);

  // The subscription on disk has changed, or may have.
  void SubscriptionStored();
  // Somebody asks; it may take effect at any time from now on.
  void AcknowledgeAsked(int64_t generation, int64_t offset);
  void SeekAsked(int64_t next_offset) { seeks_.insert(next_offset); }
  // As telemetry answers.
  void CursorAnswered(int64_t generation, int64_t cursor);

  // What a reader takes, and is told at its end of what it can no longer get.
  void Delivered(const telemetry::v1::SubscribeResponse& response);
  void ToldLost(int64_t next_offset, int64_t first_offset);

  // Whether all that was committed has come, and has been delivered or reported as lost.
  bool HasAll(std::string* why) const;
  // What retention has kept, for who seeks.
  int64_t delivered() const { return delivered_next_ - 1; }

 private:
  bool Read(int64_t offset, telemetry::v1::Record* record) const;
  telemetry::core::SubscriptionRecord Stored() const;

  World* const world_;
  const Disk* const disk_;
  // By offset: all that was ever seen on disk.
  std::map<int64_t, std::string> stream_;
  // How far each key has come there.
  std::map<std::string, int64_t> newest_;
  using Identity = std::pair<int64_t, std::string>;
  std::set<Identity> there_;
  std::set<Identity> committed_;
  std::set<Identity> acknowledged_;
  int64_t next_ = 1;

  // The subscription as last seen on disk.
  telemetry::core::SubscriptionRecord subscription_;
  std::set<std::pair<int64_t, int64_t>> asked_;
  std::set<int64_t> seeks_;
  // By generation of the reader: what it gets next.
  std::map<int64_t, int64_t> readers_;
  // All before it was delivered or reported as lost.
  int64_t delivered_next_ = 1;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_TELEMETRY_WITNESS_H_
