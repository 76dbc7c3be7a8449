#include "integration/simulation/telemetry_witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "integration/simulation/disk_streams.h"
#include "integration/simulation/disk_subscriptions.h"

namespace capstan::simulation {

using telemetry::core::SubscriptionRecord;

bool TelemetryWitness::Read(int64_t offset, telemetry::v1::Record* record) const {
  const auto stored = disk_->records.find(DiskStreams::RecordKey(offset));
  return stored != disk_->records.end() && record->ParseFromString(stored->second);
}

SubscriptionRecord TelemetryWitness::Stored() const {
  SubscriptionRecord record;
  const auto stored = disk_->records.find(DiskSubscriptions::Key(DiskSubscriptions::kName));
  if (stored != disk_->records.end()) record.ParseFromString(stored->second);
  return record;
}

void TelemetryWitness::Loaded() {
  const telemetry::StreamExtent extent = DiskStreams::ExtentOf(*disk_);
  for (int64_t offset = extent.first; offset < std::min(extent.next, next_); ++offset) {
    telemetry::v1::Record record;
    if (!Read(offset, &record) || record.SerializeAsString() != stream_[offset]) {
      world_->Violate(absl::StrCat("offset ", offset, " of the Stream has another record now"));
    }
  }
  StreamStored();
  for (const Identity& record : acknowledged_) {
    if (there_.count(record) != 0) continue;
    world_->Violate(absl::StrCat("acknowledged record ", record.first, " is not in the Stream"));
  }
  if (extent.next < next_) {
    world_->Violate(absl::StrCat("acknowledged records are gone: the Stream ends at ",
                                 extent.next - 1, " and had ", next_ - 1));
  }
  SubscriptionStored();
}

void TelemetryWitness::StreamStored() {
  const telemetry::StreamExtent extent = DiskStreams::ExtentOf(*disk_);
  for (; next_ < extent.next; ++next_) {
    telemetry::v1::Record record;
    if (!Read(next_, &record) || record.offset() != next_) {
      return world_->Violate(absl::StrCat("the Stream has a hole at ", next_));
    }
    int64_t& newest = newest_[record.key()];
    if (record.producer_sequence() <= newest) {
      world_->Violate(absl::StrCat("record ", record.producer_sequence(), " of ", record.key(),
                                   " is in the Stream twice, or after ", newest));
    }
    newest = record.producer_sequence();
    there_.insert({record.producer_sequence(), record.key()});
    stream_[next_] = record.SerializeAsString();
  }
}

void TelemetryWitness::Acknowledged(const std::string& key, int64_t sequence) {
  acknowledged_.insert({sequence, key});
  if (there_.count({sequence, key}) != 0) return;
  world_->Violate(absl::StrCat("acknowledged record ", sequence, " is not in the Stream"));
}

void TelemetryWitness::AcknowledgeAsked(int64_t generation, int64_t offset) {
  asked_.insert({generation, offset});
}

void TelemetryWitness::SubscriptionStored() {
  const SubscriptionRecord stored = Stored();
  const SubscriptionRecord before = std::exchange(subscription_, stored);
  const int64_t cursor = stored.acknowledged_offset();
  if (stored.SerializeAsString() == before.SerializeAsString()) return;
  world_->Log("witness", absl::StrCat("the cursor is at ", cursor, ", generation ",
                                      stored.reader_generation()));
  if (before.name().empty()) {
    // Nothing before where it begins is promised.
    delivered_next_ = std::max(delivered_next_, cursor + 1);
    return;
  }
  if (stored.name().empty() || stored.reader_generation() < before.reader_generation() ||
      stored.reader_generation() > before.reader_generation() + 1) {
    return world_->Violate("a stored reader generation is lost or was skipped");
  }
  if (stored.beyond_end()) world_->Violate("the stored cursor is beyond the Stream's end");
  if (stored.reader_generation() == before.reader_generation()) {
    if (cursor < before.acknowledged_offset()) {
      world_->Violate(absl::StrCat("the cursor goes back from ", before.acknowledged_offset(),
                                   " to ", cursor, " without a seek"));
    }
    if (cursor > before.acknowledged_offset() &&
        asked_.count({stored.reader_generation(), cursor}) == 0) {
      world_->Violate(absl::StrCat("the cursor moves to ", cursor,
                                   " and the reader in charge did not ask for it"));
    }
  } else if (cursor != before.acknowledged_offset() && seeks_.count(cursor + 1) == 0) {
    world_->Violate(absl::StrCat("the cursor moves to ", cursor, " with a new reader"));
  }
  if (cursor >= delivered_next_) {
    world_->Violate(
        absl::StrCat("the cursor moves over record ", delivered_next_, ", which nobody got"));
  }
}

void TelemetryWitness::CursorAnswered(int64_t generation, int64_t cursor) {
  // What came between is newer, and stands in `subscription_`.
  const SubscriptionRecord stored = Stored();
  if (stored.reader_generation() == generation ? stored.acknowledged_offset() >= cursor
                                               : stored.reader_generation() > generation) {
    return;
  }
  world_->Violate(absl::StrCat("cursor ", cursor, " of generation ", generation,
                               " is acknowledged and not stored"));
}

void TelemetryWitness::Delivered(const telemetry::v1::SubscribeResponse& response) {
  for (const telemetry::v1::Record& record : response.records()) {
    const auto reader = readers_.find(response.reader_generation());
    if (reader != readers_.end() && record.offset() != reader->second) {
      world_->Violate(
          absl::StrCat("a reader gets record ", record.offset(), " and not ", reader->second));
    }
    readers_[response.reader_generation()] = record.offset() + 1;
    const auto there = stream_.find(record.offset());
    if (there == stream_.end() || there->second != record.SerializeAsString()) {
      world_->Violate(absl::StrCat("record ", record.offset(), " is delivered and not on disk"));
    }
    if (record.offset() > delivered_next_) {
      world_->Violate(
          absl::StrCat("record ", record.offset(), " is delivered before ", delivered_next_));
    }
    delivered_next_ = std::max(delivered_next_, record.offset() + 1);
  }
}

void TelemetryWitness::ToldLost(int64_t next_offset, int64_t first_offset) {
  if (first_offset > DiskStreams::ExtentOf(*disk_).first) {
    world_->Violate(absl::StrCat("records before ", first_offset, " are reported lost"));
  }
  if (next_offset <= delivered_next_) delivered_next_ = std::max(delivered_next_, first_offset);
}

bool TelemetryWitness::HasAll(std::string* why) const {
  for (const Identity& record : committed_) {
    if (there_.count(record) != 0) continue;
    *why = absl::StrCat("event ", record.first, " of ", record.second, " has not come");
    return false;
  }
  if (!subscription_.name().empty() && delivered_next_ < next_) {
    *why = absl::StrCat("record ", delivered_next_, " has not been delivered");
    return false;
  }
  return true;
}

}  // namespace capstan::simulation
