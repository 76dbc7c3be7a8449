#include "libs/store/outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace capstan::store {
namespace {

// A transaction makes one revision and far fewer than 2^20 records (Store::txn_bounds), so what a
// term adds stays below (revision of the next term) << 20: sequences rise over terms without being
// stored anywhere.
constexpr int kSequenceBits = 20;

std::string KeyOf(const std::string& prefix, int64_t sequence) {
  return absl::StrCat(prefix, absl::Hex(sequence, absl::kZeroPad16));
}

int64_t SequenceOf(const std::string& key) {
  uint64_t sequence = 0;
  const size_t digits = std::min<size_t>(key.size(), 16);
  if (!absl::SimpleHexAtoi(absl::string_view(key).substr(key.size() - digits), &sequence)) return 0;
  return static_cast<int64_t>(sequence);
}

}  // namespace

template <typename F>
auto Outbox::WhileAlive(F f) {
  return [alive = std::weak_ptr<char>(alive_), f = std::move(f)](auto&&... args) mutable {
    if (alive.lock()) f(std::forward<decltype(args)>(args)...);
  };
}

Outbox::Outbox(Store* store, Strand* strand, CommitQueue* queue, int64_t loaded_revision,
               Options options, Sink sink)
    : store_(store),
      strand_(strand),
      queue_(queue),
      options_(std::move(options)),
      sink_(std::move(sink)),
      first_sequence_((loaded_revision << kSequenceBits) + 1),
      next_key_(options_.prefix),
      next_sequence_(first_sequence_),
      retry_(options_.retry_first) {}

Outbox::~Outbox() {
  if (retry_timer_ != 0) strand_->Cancel(retry_timer_);
}

void Outbox::Start() { Count(options_.prefix, 0, 0, 0); }

Put Outbox::Add(std::string payload) {
  Put put;
  put.key = KeyOf(options_.prefix, next_sequence_++);
  put.value = std::move(payload);
  ++records_;
  bytes_ += static_cast<int64_t>(put.value.size());
  return put;
}

void Outbox::RetryLater(void (Outbox::*what)()) {
  retry_timer_ = strand_->RunAfter(retry_, WhileAlive([this, what] {
                                     retry_timer_ = 0;
                                     (this->*what)();
                                   }));
  retry_ = std::min(retry_ * 2, options_.retry_most);
}

void Outbox::Count(std::string from, int64_t revision, int64_t records, int64_t bytes) {
  RangeRequest page{.key = std::move(from), .end = PrefixEnd(options_.prefix)};
  page.revision = revision;
  store_->Range(std::move(page),
                WhileAlive([this, records, bytes](absl::StatusOr<RangeResult> found) mutable {
                  if (!found.ok()) {
                    last_error_ = found.status();
                    return RetryLater(&Outbox::Start);
                  }
                  for (const KeyValue& kv : found->kvs) {
                    // Add has counted what is of this term.
                    if (SequenceOf(kv.key) >= first_sequence_) continue;
                    ++records;
                    bytes += static_cast<int64_t>(kv.value.size());
                  }
                  if (found->more) {
                    return Count(found->kvs.back().key + '\0', found->revision, records, bytes);
                  }
                  records_ += records;
                  bytes_ += bytes;
                  retry_ = options_.retry_first;
                  Follow(found->revision + 1);
                  Ship();
                }));
}

void Outbox::Follow(int64_t revision) {
  watch_ = store_->StartWatch(
      {.key = options_.prefix, .end = PrefixEnd(options_.prefix), .start_revision = revision},
      WhileAlive([this](absl::StatusOr<WatchBatch> batch) {
        // Only a signal: what there is to ship is read from the store. A lost watch is therefore
        // followed from now on, with one look at what it may have missed.
        if (!batch.ok()) {
          if (batch.status().code() == absl::StatusCode::kUnavailable) return;
          Follow(0);
          return Ship();
        }
        const bool put = std::any_of(
            batch->events.begin(), batch->events.end(),
            [](const WatchEvent& event) { return event.type == WatchEvent::Type::kPut; });
        if (put) Ship();
      }));
}

void Outbox::Ship() {
  more_ = true;
  if (shipping_ || retry_timer_ != 0) return;
  shipping_ = true;
  more_ = false;
  store_->Range(
      {.key = next_key_, .end = PrefixEnd(options_.prefix), .limit = options_.batch_records},
      WhileAlive([this](absl::StatusOr<RangeResult> found) {
        if (!found.ok()) return Taken(found.status(), "", 0, 0);
        Offer(*found);
      }));
}

void Outbox::Offer(const RangeResult& found) {
  if (found.kvs.empty()) {
    shipping_ = false;
    if (more_) Ship();
    return;
  }
  std::vector<OutboxRecord> records;
  int64_t bytes = 0;
  for (const KeyValue& kv : found.kvs) {
    if (!records.empty() && bytes + static_cast<int64_t>(kv.value.size()) > options_.batch_bytes) {
      break;
    }
    records.push_back({SequenceOf(kv.key), kv.value});
    bytes += static_cast<int64_t>(kv.value.size());
  }
  const std::string last = found.kvs[records.size() - 1].key;
  sink_(records,
        WhileAlive([this, last, count = static_cast<int64_t>(records.size()),
                    bytes](absl::Status status) { Taken(std::move(status), last, count, bytes); }));
}

void Outbox::Taken(absl::Status status, const std::string& last, int64_t records, int64_t bytes) {
  last_error_ = std::move(status);
  if (!last_error_.ok()) {
    shipping_ = false;
    return RetryLater(&Outbox::Ship);
  }
  retry_ = options_.retry_first;
  // What is committed later comes behind it. A range for each piece: one that began where another
  // does could not go into the same transaction.
  std::vector<Delete> gone = {Delete{std::exchange(next_key_, last + '\0'), last + '\0'}};
  // If this fails the engine's term is over, and the next one sends these records again.
  queue_->Submit({}, std::move(gone),
                 WhileAlive([this, records, bytes](absl::StatusOr<int64_t> revision) {
                   if (!revision.ok()) return;
                   records_ -= records;
                   bytes_ -= bytes;
                 }));
  shipping_ = false;
  // The next ones leave meanwhile: a deletion waits behind all that is being stored.
  Ship();
}

}  // namespace capstan::store
