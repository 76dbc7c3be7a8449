#ifndef CAPSTAN_LIBS_STORE_OUTBOX_H_
#define CAPSTAN_LIBS_STORE_OUTBOX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/store/commit_queue.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// An event on its way out.
struct OutboxRecord {
  // Rises strictly from record to record of one store incarnation, over crashes and leaders too:
  // the receiver drops what is not higher than what it has. (Incarnation and sequence together are
  // the producer's identity; the incarnation goes into the producer's name.)
  int64_t sequence = 0;
  std::string payload{};
};

// Events leave by an outbox: the record is put in the transaction of the change that it tells of, a
// shipper gives committed records to a sink, in order, and deletes them once the sink has taken
// them. No crash loses one; a crash between taking and deleting sends some again, with the same
// sequence. One leader's term owns an Outbox; on the engine's strand only, destruction included.
//
//   outbox_ = std::make_unique<Outbox>(
//       store_, strand_, queue_.get(), loaded_revision,
//       Outbox::Options{.prefix = "/capstan/scheduler/v1/outbox/"},
//       [this](const std::vector<OutboxRecord>& records, DoneCallback taken) {
//         telemetry_->Append(ToRequest(records, store_->incarnation()), std::move(taken));
//       });
//   outbox_->Start();
//   // With every step that has events:
//   for (const JobEvent& event : step.events)
//   puts.push_back(outbox_->Add(event.SerializeAsString())); queue_->Submit(std::move(puts),
//   std::move(deletes), std::move(done));
//   // Before taking on new work (running Jobs, cancels and audit go on):
//   if (outbox_->full()) return RefuseWithRetryDelay();
class Outbox {
 public:
  struct Options {
    // Ends in '/'; nothing else may live under it.
    std::string prefix{};
    // From here on full() says so. Records beyond are still stored.
    int64_t max_records = 100000;
    int64_t max_bytes = int64_t{64} << 20;
    // Of one call of the sink.
    int64_t batch_records = 1000;
    int64_t batch_bytes = 512 << 10;
    absl::Duration retry_first = absl::Milliseconds(100);
    absl::Duration retry_most = absl::Seconds(10);
  };
  // Takes the records and answers once they are durable elsewhere, or fails; then the same records
  // come again after a pause. Called with the next records only after it has answered.
  using Sink =
      absl::AnyInvocable<void(const std::vector<OutboxRecord>& records, DoneCallback taken)>;

  // Everything must outlive the outbox. `loaded_revision` is that at which the engine loaded its
  // state in this term, before its first commit: sequences begin above it.
  Outbox(Store* store, Strand* strand, CommitQueue* queue, int64_t loaded_revision, Options options,
         Sink sink);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox();

  // Looks for what a predecessor left, and begins to ship.
  void Start();

  // The put that stores an event. Every one must be submitted to the queue, in the order of the
  // calls.
  Put Add(std::string payload);

  bool full() const { return records_ >= options_.max_records || bytes_ >= options_.max_bytes; }
  // Records that are not deleted yet, as far as known.
  int64_t records() const { return records_; }
  int64_t bytes() const { return bytes_; }
  // Why the sink's last answer was not OK; OK if it was.
  const absl::Status& last_error() const { return last_error_; }

 private:
  // Counts what a predecessor left, page by page; so far `records` and `bytes`.
  void Count(std::string from, int64_t revision, int64_t records, int64_t bytes);
  // Watches for what is committed from `revision` on.
  void Follow(int64_t revision);
  // Ships the oldest records, if nothing is under way.
  void Ship();
  void Offer(const RangeResult& found);
  void Taken(absl::Status status, const std::string& last, int64_t records, int64_t bytes);
  void RetryLater(void (Outbox::*what)());

  template <typename F>
  auto WhileAlive(F f);

  Store* const store_;
  Strand* const strand_;
  CommitQueue* const queue_;
  const Options options_;
  Sink sink_;
  const int64_t first_sequence_;
  // Behind what the sink has taken in this term.
  std::string next_key_;
  int64_t next_sequence_;
  int64_t records_ = 0;
  int64_t bytes_ = 0;
  // A read or a call of the sink is under way.
  bool shipping_ = false;
  // Something may have been committed since the last look.
  bool more_ = false;
  absl::Duration retry_;
  absl::Status last_error_;
  std::unique_ptr<Watch> watch_;
  Strand::TimerId retry_timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_OUTBOX_H_
