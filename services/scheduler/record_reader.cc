#include "services/scheduler/record_reader.h"

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

}  // namespace

void RecordReader::Next(absl::AnyInvocable<void(absl::StatusOr<Page>)> done) {
  const std::string prefix = absl::StrCat(kKeyPrefix, kKinds[kind_]);
  store::RangeRequest request;
  request.key = from_.empty() ? prefix : from_;
  request.end = store::PrefixEnd(prefix);
  request.limit = kPage;
  request.revision = revision_;
  store_->Range(std::move(request),
                [this, alive = std::weak_ptr<char>(alive_),
                 done = std::move(done)](absl::StatusOr<store::RangeResult> result) mutable {
                  if (alive.expired()) return;
                  if (!result.ok()) return done(result.status());
                  Page page;
                  revision_ = page.revision = result->revision;
                  from_ = result->more ? result->kvs.back().key + '\0' : "";
                  if (!result->more) page.last = ++kind_ == kKindCount;
                  page.kvs = std::move(result->kvs);
                  done(std::move(page));
                });
}

}  // namespace capstan::scheduler
