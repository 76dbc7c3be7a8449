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

}  // namespace capstan::engine
