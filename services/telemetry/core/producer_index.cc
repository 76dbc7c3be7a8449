#include "services/telemetry/core/producer_index.h"

#include <algorithm>

namespace capstan::telemetry {

bool ProducerIndex::IsNew(const std::string& producer, const std::string& key,
                          int64_t sequence) const {
  const auto it = positions_.find(Identity(producer, key));
  return it == positions_.end() || sequence > it->second.sequence;
}

void ProducerIndex::Advance(const std::string& producer, const std::string& key, int64_t sequence) {
  const Identity identity(producer, key);
  const auto it = positions_.find(identity);
  if (it != positions_.end()) {
    it->second.sequence = std::max(it->second.sequence, sequence);
    recency_.splice(recency_.end(), recency_, it->second.recency);
    return;
  }
  positions_[identity] = Position{sequence, recency_.insert(recency_.end(), identity)};
  bytes_ += CostOf(identity);
  while (positions_.size() > 1 && (positions_.size() > kMaxProducers || bytes_ > kMaxBytes)) {
    ForgetOldest();
  }
}

void ProducerIndex::ForgetOldest() {
  bytes_ -= CostOf(recency_.front());
  positions_.erase(recency_.front());
  recency_.pop_front();
}

core::StreamHeader ProducerIndex::ToHeader() const {
  core::StreamHeader header;
  for (const Identity& identity : recency_) {
    core::ProducerPosition* position = header.add_producers();
    position->set_producer(identity.first);
    position->set_key(identity.second);
    position->set_sequence(positions_.at(identity).sequence);
  }
  return header;
}

void ProducerIndex::Load(const core::StreamHeader& header) {
  for (const core::ProducerPosition& position : header.producers()) {
    Advance(position.producer(), position.key(), position.sequence());
  }
}

}  // namespace capstan::telemetry
