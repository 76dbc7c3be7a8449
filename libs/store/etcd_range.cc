#include "libs/store/etcd_range.h"

#include <algorithm>
#include <utility>

#include "libs/status/error.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using KvCalls = etcdserverpb::KV::StubInterface::async_interface;

// Of the largest values, with which the first page is asked for.
constexpr int64_t kFirstPage = 128;
constexpr int64_t kMaxPage = 4096;
constexpr int64_t kPageBytes = 8 << 20;
constexpr int kMaxRestarts = 3;

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(std::shared_ptr<EtcdClient> client, RangeRequest request, Callback<RangeResult> done)
      : client_(std::move(client)),
        request_(std::move(request)),
        limit_(EffectiveLimit(request_.limit)),
        until_(client_->CallDeadline()),
        done_(std::move(done)) {}

  void Start() {
    result_ = RangeResult();
    page_ = kFirstPage;
    bytes_ = 0;
    next_ = request_;
    Read();
  }

 private:
  void Read() {
    next_.limit = std::min(page_, limit_ - static_cast<int64_t>(result_.kvs.size()));
    client_->Call<etcdserverpb::KV>(
        &KvCalls::Range, ToEtcd(next_), EtcdClient::Repeat::kAlways, until_,
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::RangeResponse> page) {
          if (!page.ok()) return self->Failed(page.status());
          self->Take(*page);
        });
  }

  void Take(const etcdserverpb::RangeResponse& response) {
    RangeResult page = FromEtcd(response, next_);
    result_.revision = page.revision;
    result_.more = page.more;
    bytes_ += static_cast<int64_t>(response.ByteSizeLong());
    for (KeyValue& kv : page.kvs) result_.kvs.push_back(std::move(kv));
    const auto count = static_cast<int64_t>(result_.kvs.size());
    if (!page.more || page.kvs.empty() || count >= limit_) return done_(std::move(result_));
    page_ = std::clamp(kPageBytes / std::max<int64_t>(1, bytes_ / count), kFirstPage, kMaxPage);
    next_.key = result_.kvs.back().key + '\0';
    next_.revision = page.revision;
    Read();
  }

  void Failed(const absl::Status& why) {
    const bool moved = status::Reason(why) == kReasonCompacted && request_.revision == 0;
    if (moved && ++restarts_ <= kMaxRestarts) return Start();
    done_(why);
  }

  const std::shared_ptr<EtcdClient> client_;
  const RangeRequest request_;
  const int64_t limit_;
  const BootTime until_;
  Callback<RangeResult> done_;
  RangeResult result_;
  RangeRequest next_;
  int64_t page_ = kFirstPage;
  int64_t bytes_ = 0;
  int restarts_ = 0;
};

}  // namespace

void ReadEtcdRange(std::shared_ptr<EtcdClient> client, RangeRequest request,
                   Callback<RangeResult> done) {
  std::make_shared<Reading>(std::move(client), std::move(request), std::move(done))->Start();
}

}  // namespace capstan::store
