#include "libs/engine/core_loop.h"

#include "libs/store/txn_rules.h"

namespace capstan::engine {
namespace {

// One page after another, then the callback.
class Reader : public std::enable_shared_from_this<Reader> {
 public:
  Reader(store::Store* store, const std::string& prefix,
         store::Callback<std::vector<store::KeyValue>> done)
      : store_(store), end_(store::PrefixEnd(prefix)), done_(std::move(done)) {}

  void Read(const std::string& from, int64_t revision) {
    store_->Range(
        store::RangeRequest{.key = from, .end = end_, .limit = 1000, .revision = revision},
        [self = shared_from_this()](absl::StatusOr<store::RangeResult> page) {
          if (!page.ok()) return self->done_(page.status());
          for (store::KeyValue& kv : page->kvs) self->records_.push_back(std::move(kv));
          if (!page->more) return self->done_(std::move(self->records_));
          self->Read(self->records_.back().key + '\0', page->revision);
        });
  }

 private:
  store::Store* const store_;
  const std::string end_;
  store::Callback<std::vector<store::KeyValue>> done_;
  std::vector<store::KeyValue> records_;
};

}  // namespace

void ReadAll(store::Store* store, const std::string& prefix,
             store::Callback<std::vector<store::KeyValue>> done) {
  std::make_shared<Reader>(store, prefix, std::move(done))->Read(prefix, 0);
}

std::vector<Submission> CutToFit(std::vector<store::Put> puts, std::vector<store::Delete> deletes) {
  // Room is left for what the queue adds.
  constexpr size_t kOps = store::kMaxTxnOps - 8;
  constexpr size_t kBytes = store::kMaxTxnBytes / 2;
  std::vector<Submission> pieces(1);
  size_t ops = 0;
  size_t bytes = 0;
  const auto room = [&](size_t size) {
    if (ops > 0 && (ops + 1 > kOps || bytes + size > kBytes)) {
      pieces.emplace_back();
      ops = 0;
      bytes = 0;
    }
    ++ops;
    bytes += size;
  };
  for (store::Put& put : puts) {
    room(put.key.size() + put.value.size());
    pieces.back().puts.push_back(std::move(put));
  }
  for (store::Delete& key : deletes) {
    room(key.key.size());
    pieces.back().deletes.push_back(std::move(key));
  }
  return pieces;
}

}  // namespace capstan::engine
