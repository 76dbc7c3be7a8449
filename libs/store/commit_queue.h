#ifndef CAPSTAN_LIBS_STORE_COMMIT_QUEUE_H_
#define CAPSTAN_LIBS_STORE_COMMIT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// FAILED_PRECONDITION: the leadership compare failed, so another process leads or none does.
inline constexpr char kReasonNotLeader[] = "NOT_LEADER";

// The way an engine persists: many submissions to one transaction, one transaction under way, in
// strict order. On the engine's strand only, destruction included.
//
//   // In the engine, once it leads and has loaded its core:
//   queue_ = std::make_unique<CommitQueue>(store_, strand_, leadership_->Guard());
//   // For every event:
//   Step step = core_.Apply(event, strand_->clock().Read());
//   queue_->Submit(std::move(step.persist.puts), std::move(step.persist.deletes),
//                  [this, after = std::move(step.after)](absl::StatusOr<int64_t> revision) {
//                    if (!revision.ok()) return Reload(revision.status());  // destroys queue_
//                    for (const Effect& effect : after) CarryOut(effect, *revision);
//                  });
//   // Before taking on new work from outside:
//   if (queue_->congested()) return RefuseWithRetryDelay();
//
// Guarantees:
// - A submission is atomic: all its puts and deletes are in one transaction, which also compares
// the
//   leadership.
// - Callbacks run in the order of the submissions, never from within Submit. A submission without
//   puts and deletes completes after those before it and costs no transaction.
// - What one transaction holds of several submissions looks to everyone as if only the last value
// of
//   each key had been put.
// - After a failure every submission that is queued or comes later fails with the same error, in
//   order, and the queue stays dead: its owner drops its state and loads again. Whether the failed
//   transaction itself took effect is as open as store.h says.
// - Destroying the queue, also from a callback, drops all callbacks.
class CommitQueue {
 public:
  struct Options {
    // Submissions waiting beyond which congested() says so. Nothing is refused: by the time it
    // persists, the engine's state has already changed.
    size_t congested_at = 4096;
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<int64_t> revision)>;

  // `store` and `strand` must outlive the queue; `strand` must be the one on which the store calls
  // back. Without `leadership` nothing is compared (stores that have one writer by construction).
  CommitQueue(Store* store, Strand* strand, absl::optional<Compare> leadership)
      : CommitQueue(store, strand, std::move(leadership), Options()) {}
  CommitQueue(Store* store, Strand* strand, absl::optional<Compare> leadership, Options options);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // `done` gets the revision of the transaction that committed the submission, or for an empty one
  // that of the newest before it (0 if none). A submission that fits no transaction, or that names
  // a key twice, kills the queue with INVALID_ARGUMENT.
  void Submit(std::vector<Put> puts, std::vector<Delete> deletes, Done done);

  // Submissions not yet answered.
  size_t waiting() const { return queued_.size() + in_flight_.size(); }
  bool congested() const { return waiting() > options_.congested_at; }
  // OK until the queue is dead, then why.
  const absl::Status& status() const { return status_; }
  // Transactions sent so far.
  int64_t transactions() const { return transactions_; }

 private:
  struct Submission {
    std::vector<Op> ops;
    // Why it fits no transaction, if it doesn't.
    absl::Status valid;
    Done done;
  };

  void ScheduleFlush();
  void Flush();
  // Moves what fits from the front of queued_ to in_flight_ and returns its operations.
  std::vector<Op> TakeBatch();
  void Committed(int64_t revision);
  void Fail(const absl::Status& why);
  // Runs the callbacks of `answered`; false if one of them destroyed the queue.
  bool Answer(std::deque<Submission> answered, absl::StatusOr<int64_t> result);

  Store* const store_;
  Strand* const strand_;
  const absl::optional<Compare> leadership_;
  const Options options_;
  // Of a transaction.
  const TxnBounds bounds_;
  std::deque<Submission> queued_;
  std::deque<Submission> in_flight_;
  bool flush_scheduled_ = false;
  bool committing_ = false;
  int64_t last_revision_ = 0;
  int64_t transactions_ = 0;
  absl::Status status_;
  // Expires with the queue: callbacks of the store and tasks hold it weakly.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_COMMIT_QUEUE_H_
