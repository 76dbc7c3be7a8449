#include "services/scheduler/record_reader.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/keys.h"

namespace capstan::scheduler {
namespace {

constexpr int64_t kPage = 1000;
constexpr const char* kKinds[] = {"capacity_orders/",
                                  "clusters/",
                                  "gangs/",
                                  "jobs/",
                                  "maintenance_windows/",
                                  "nodes/",
                                  "queues/",
                                  "queue_usage/",
                                  "requests/",
                                  "pin_releases/",
                                  "tasks/"};
constexpr size_t kKindCount = sizeof(kKinds) / sizeof(kKinds[0]);

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(store::Store* store, absl::AnyInvocable<void(absl::StatusOr<Records>)> done)
      : store_(store), done_(std::move(done)) {}

  void Next(const std::string& from) {
    const std::string prefix = absl::StrCat(kKeyPrefix, kKinds[kind_]);
    store::RangeRequest request;
    request.key = from.empty() ? prefix : from;
    request.end = store::PrefixEnd(prefix);
    request.limit = kPage;
    request.revision = records_.revision;
    store_->Range(std::move(request),
                  [self = shared_from_this()](absl::StatusOr<store::RangeResult> result) {
                    self->Take(std::move(result));
                  });
  }

 private:
  void Take(absl::StatusOr<store::RangeResult> result) {
    if (!result.ok()) return done_(result.status());
    records_.revision = result->revision;
    std::string from;
    if (result->more) {
      from = result->kvs.back().key + '\0';
    } else if (++kind_ == kKindCount) {
      std::move(result->kvs.begin(), result->kvs.end(), std::back_inserter(records_.kvs));
      return done_(std::move(records_));
    }
    std::move(result->kvs.begin(), result->kvs.end(), std::back_inserter(records_.kvs));
    Next(from);
  }

  store::Store* const store_;
  absl::AnyInvocable<void(absl::StatusOr<Records>)> done_;
  size_t kind_ = 0;
  Records records_;
};

}  // namespace

void ReadRecords(store::Store* store, absl::AnyInvocable<void(absl::StatusOr<Records>)> done) {
  std::make_shared<Reading>(store, std::move(done))->Next("");
}

}  // namespace capstan::scheduler
