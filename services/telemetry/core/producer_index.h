#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_PRODUCER_INDEX_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_PRODUCER_INDEX_H_

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

// How far each producer of one Stream has come, so that what it sends again is dropped. It is
// rebuilt from the newest segment: its header holds the state before its records. Bounded, so that
// it always fits into a header: beyond kMaxProducers, or kMaxBytes of them, those that have been
// silent for longest are forgotten, and what they would send again would be kept twice.
class ProducerIndex {
 public:
  static constexpr size_t kMaxProducers = 20000;
  // Of the header, as counted by CostOf.
  static constexpr size_t kMaxBytes = 2 << 20;

  // Whether a record of this identity is not in the Stream yet.
  bool IsNew(const std::string& producer, const std::string& key, int64_t sequence) const;
  // The record is in the Stream now.
  void Advance(const std::string& producer, const std::string& key, int64_t sequence);

  core::StreamHeader ToHeader() const;
  void Load(const core::StreamHeader& header);

  size_t size() const { return positions_.size(); }

 private:
  using Identity = std::pair<std::string, std::string>;
  struct Position {
    int64_t sequence = 0;
    std::list<Identity>::iterator recency;
  };

  // At least what the identity takes in the header.
  static size_t CostOf(const Identity& identity) {
    return identity.first.size() + identity.second.size() + 32;
  }
  void ForgetOldest();

  std::map<Identity, Position> positions_;
  size_t bytes_ = 0;
  // Silent for longest first.
  std::list<Identity> recency_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_PRODUCER_INDEX_H_
