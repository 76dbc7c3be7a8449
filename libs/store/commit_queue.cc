#include "libs/store/commit_queue.h"

#include <utility>

#include "libs/status/error.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// etcd counts what frames keys and values, too.
constexpr size_t kFraming = 16 << 10;

const std::string& KeyOf(const Op& op) {
  const auto* put = std::get_if<Put>(&op);
  return put != nullptr ? put->key : std::get<Delete>(op).key;
}

// The operations of one transaction to be, at most one for each key.
class Batch {
 public:
  // Adds all of the submission, or nothing and returns false if it does not fit behind what is
  // there: for lack of room, or because what it does would be lost in a merge (a key put again
  // after its deletion must be created again; a range must not swallow what comes before or after
  // it).
  bool Add(std::vector<Op>& added, size_t max_ops, size_t max_bytes) {
    size_t ops = ops_.size();
    size_t bytes = bytes_;
    for (const Op& op : added) {
      const auto* put = std::get_if<Put>(&op);
      const std::string& key = KeyOf(op);
      const auto it = ops_.find(key);
      if (CoveredByRange(key)) return false;
      if (put != nullptr) {
        if (it != ops_.end() && std::holds_alternative<Delete>(it->second)) return false;
        bytes += key.size() + put->value.size();
      } else {
        const std::string& end = std::get<Delete>(op).end;
        const auto first = ops_.lower_bound(key);
        if (!end.empty() && first != ops_.end() && first->first < end) return false;
        bytes += key.size() + end.size();
      }
      if (it == ops_.end()) ++ops;
    }
    if (!ops_.empty() && (ops > max_ops || bytes > max_bytes)) return false;
    for (Op& op : added) {
      if (const auto* gone = std::get_if<Delete>(&op); gone != nullptr && !gone->end.empty()) {
        ranges_[gone->key] = gone->end;
      }
      const std::string key = KeyOf(op);
      ops_.insert_or_assign(key, std::move(op));
    }
    bytes_ = bytes;
    return true;
  }

  std::vector<Op> Take() {
    std::vector<Op> ops;
    ops.reserve(ops_.size());
    for (auto& [key, op] : ops_) ops.push_back(std::move(op));
    return ops;
  }

 private:
  bool CoveredByRange(const std::string& key) const {
    auto it = ranges_.upper_bound(key);
    return it != ranges_.begin() && key < std::prev(it)->second;
  }

  std::map<std::string, Op> ops_;
  std::map<std::string, std::string> ranges_;
  // Counts merged values too, which only makes batches smaller.
  size_t bytes_ = 0;
};

}  // namespace

CommitQueue::CommitQueue(Store* store, Strand* strand, absl::optional<Compare> leadership,
                         Options options)
    : store_(store),
      strand_(strand),
      leadership_(std::move(leadership)),
      options_(options),
      bounds_{.ops = store->txn_bounds().ops, .bytes = store->txn_bounds().bytes - kFraming} {}

CommitQueue::~CommitQueue() = default;

void CommitQueue::Submit(std::vector<Put> puts, std::vector<Delete> deletes, Done done) {
  TxnRequest alone;
  alone.then.reserve(puts.size() + deletes.size());
  for (Put& put : puts) alone.then.push_back(std::move(put));
  for (Delete& gone : deletes) alone.then.push_back(std::move(gone));
  const absl::Status checked = CheckTxn(alone);
  queued_.push_back(Submission{std::move(alone.then),
                               status::Annotate(checked, "a submission fits no transaction"),
                               std::move(done)});
  ScheduleFlush();
}

void CommitQueue::ScheduleFlush() {
  if (committing_ || flush_scheduled_ || queued_.empty()) return;
  flush_scheduled_ = true;
  // Not at once: what the tasks behind this one submit goes along.
  strand_->Post([this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.lock()) return;
    flush_scheduled_ = false;
    Flush();
  });
}

std::vector<Op> CommitQueue::TakeBatch() {
  Batch batch;
  while (!queued_.empty()) {
    Submission& next = queued_.front();
    if (!next.valid.ok()) break;
    if (!batch.Add(next.ops, bounds_.ops, bounds_.bytes)) break;
    in_flight_.push_back(std::move(queued_.front()));
    queued_.pop_front();
  }
  return batch.Take();
}

void CommitQueue::Flush() {
  if (!status_.ok()) return Fail(status_);
  if (!queued_.empty() && !queued_.front().valid.ok()) return Fail(queued_.front().valid);
  TxnRequest request;
  request.then = TakeBatch();
  if (request.then.empty()) return Committed(last_revision_);
  if (leadership_) request.compares.push_back(*leadership_);
  committing_ = true;
  ++transactions_;
  store_->Txn(std::move(request),
              [this, alive = std::weak_ptr<char>(alive_)](absl::StatusOr<TxnResult> result) {
                if (!alive.lock()) return;
                committing_ = false;
                if (!result.ok()) return Fail(result.status());
                if (!result->succeeded) {
                  return Fail(status::Error(absl::StatusCode::kFailedPrecondition, kReasonNotLeader,
                                            "the leadership was lost before this could be stored"));
                }
                Committed(result->revision);
              });
}

void CommitQueue::Committed(int64_t revision) {
  last_revision_ = revision;
  if (Answer(std::exchange(in_flight_, {}), revision)) ScheduleFlush();
}

void CommitQueue::Fail(const absl::Status& why) {
  status_ = why;
  std::deque<Submission> all = std::exchange(in_flight_, {});
  for (Submission& submission : queued_) all.push_back(std::move(submission));
  queued_.clear();
  Answer(std::move(all), status_);
}

bool CommitQueue::Answer(std::deque<Submission> answered, absl::StatusOr<int64_t> result) {
  const std::weak_ptr<char> alive = alive_;
  for (Submission& submission : answered) {
    submission.done(result);
    if (alive.expired()) return false;
  }
  return true;
}

}  // namespace capstan::store
