#include "integration/simulation/telemetry_actor.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::simulation {
namespace {

// Of a segment.
constexpr int64_t kRecords = 40;
constexpr char kRecordPrefix[] = "record/";
constexpr char kHeaderKey[] = "header";

struct Stored {
  std::string producer;
  TelemetryActor::Record record;
};

std::string Encode(const Stored& stored) {
  return absl::StrCat(stored.producer, " ", stored.record.key, " ", stored.record.sequence);
}

Stored Decode(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  Stored stored{parts.at(0), {parts.at(1), 0}};
  if (!absl::SimpleAtoi(parts.at(2), &stored.record.sequence)) stored.record.sequence = -1;
  return stored;
}

}  // namespace

void TelemetryActor::OnStart() {
  Check();
  index_ = std::make_unique<telemetry::ProducerIndex>();
  pipe_ = std::make_unique<CommitPipe>(this, &disk_, CommitPipe::Options{});
  next_offset_ = 0;
  // The header of the newest segment, and what comes after it.
  telemetry::core::StreamHeader header;
  const auto stored = disk_.records.find(kHeaderKey);
  if (stored != disk_.records.end()) header.ParseFromString(stored->second);
  if (!mutants_->telemetry_forgets_producers) index_->Load(header);
  for (const auto& [key, value] : disk_.records) {
    next_offset_ += absl::StartsWith(key, kRecordPrefix) ? 1 : 0;
  }
  const int64_t last = std::max<int64_t>(next_offset_ - 1, 0);
  const int64_t begin = last - last % kRecords;
  for (int64_t offset = begin; offset < next_offset_; ++offset) {
    if (mutants_->telemetry_forgets_producers) break;
    const Stored record =
        Decode(disk_.records.at(absl::StrFormat("%s%012d", kRecordPrefix, offset)));
    index_->Advance(record.producer, record.record.key, record.record.sequence);
  }
}

void TelemetryActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  index_.reset();
}

void TelemetryActor::Append(const std::string& producer, const std::vector<Record>& records,
                            const std::function<void(absl::StatusOr<bool>)>& reply) {
  std::vector<store::Put> puts;
  for (const Record& record : records) {
    if (!index_->IsNew(producer, record.key, record.sequence)) continue;
    // A new segment begins with how far each producer had come by then.
    if (next_offset_ % kRecords == 0) {
      puts.push_back({.key = kHeaderKey, .value = index_->ToHeader().SerializeAsString()});
    }
    index_->Advance(producer, record.key, record.sequence);
    puts.push_back({.key = absl::StrFormat("%s%012d", kRecordPrefix, next_offset_++),
                    .value = Encode({producer, record})});
  }
  world().Log(name(), absl::StrCat("takes ", puts.size(), " of ", records.size()));
  pipe_->Submit(std::move(puts), {}, [this, records, reply](int64_t) {
    for (const Record& record : records) acknowledged_.insert({record.sequence, record.key});
    Check();
    reply(true);
  });
}

void TelemetryActor::Check() {
  std::map<std::string, int64_t> newest;
  std::set<std::pair<int64_t, std::string>> there;
  for (const auto& [key, value] : disk_.records) {
    if (!absl::StartsWith(key, kRecordPrefix)) continue;
    const Record record = Decode(value).record;
    int64_t& before = newest[record.key];
    if (record.sequence <= before) {
      world().Violate(absl::StrCat("record ", record.sequence, " of ", record.key,
                                   " is in the Stream twice, or after ", before));
    }
    before = record.sequence;
    there.insert({record.sequence, record.key});
  }
  for (const auto& record : acknowledged_) {
    if (there.count(record) != 0) continue;
    world().Violate(absl::StrCat("acknowledged record ", record.first, " is not in the Stream"));
  }
}

bool TelemetryActor::HasAll(std::string* why) const {
  std::set<std::pair<int64_t, std::string>> there;
  for (const auto& [key, value] : disk_.records) {
    if (!absl::StartsWith(key, kRecordPrefix)) continue;
    const Record record = Decode(value).record;
    there.insert({record.sequence, record.key});
  }
  for (const auto& record : committed_) {
    if (there.count(record) != 0) continue;
    *why = absl::StrCat("event ", record.first, " of ", record.second, " has not come");
    return false;
  }
  return true;
}

}  // namespace capstan::simulation
