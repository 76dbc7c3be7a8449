#include "libs/store/etcd_range.h"

#include <utility>

#include "absl/types/optional.h"
#include "libs/status/error.h"
#include "libs/store/etcd_messages.h"

namespace capstan::store {
namespace {

using KvCalls = etcdserverpb::KV::StubInterface::async_interface;

constexpr int kMaxRestarts = 3;

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(std::shared_ptr<EtcdClient> client, std::shared_ptr<EtcdPaces> paces,
          RangeRequest request, Callback<RangeResult> done)
      : client_(std::move(client)),
        paces_(std::move(paces)),
        request_(std::move(request)),
        until_(client_->CallDeadline()),
        done_(std::move(done)) {}

  void Start() {
    pager_.emplace(request_, paces_ == nullptr ? EtcdPager::Pace{} : paces_->Of(request_.end));
    Read();
  }

 private:
  void Read() {
    RangeRequest next = pager_->Next();
    auto encoded = ToEtcd(next);
    client_->Call<etcdserverpb::KV>(
        &KvCalls::Range, std::move(encoded), EtcdClient::Repeat::kAlways, until_,
        [self = shared_from_this(),
         next = std::move(next)](absl::StatusOr<etcdserverpb::RangeResponse> page) {
          if (!page.ok()) return self->Failed(page.status());
          self->Take(next, *page);
        });
  }

  void Take(const RangeRequest& asked, const etcdserverpb::RangeResponse& response) {
    if (!pager_->Take(FromEtcd(response, asked), response.count(),
                      static_cast<int64_t>(response.ByteSizeLong()))) {
      return Read();
    }
    if (paces_ != nullptr) paces_->Keep(request_.end, pager_->pace());
    done_(pager_->TakeResult());
  }

  void Failed(const absl::Status& why) {
    const bool moved = status::Reason(why) == kReasonCompacted && request_.revision == 0;
    if (moved && ++restarts_ <= kMaxRestarts) return Start();
    done_(why);
  }

  const std::shared_ptr<EtcdClient> client_;
  const std::shared_ptr<EtcdPaces> paces_;
  const RangeRequest request_;
  const BootTime until_;
  Callback<RangeResult> done_;
  absl::optional<EtcdPager> pager_;
  int restarts_ = 0;
};

}  // namespace

EtcdPager::Pace EtcdPaces::Of(const std::string& end) const {
  const auto found = paces_.find(end);
  return found == paces_.end() ? EtcdPager::Pace{} : found->second;
}

void EtcdPaces::Keep(const std::string& end, const EtcdPager::Pace& pace) {
  // Only what had to be read in pieces is worth it.
  if (pace.prefix == 0) return;
  if (paces_.size() >= kMost && paces_.count(end) == 0) paces_.clear();
  paces_[end] = pace;
}

void ReadEtcdRange(std::shared_ptr<EtcdClient> client, std::shared_ptr<EtcdPaces> paces,
                   RangeRequest request, Callback<RangeResult> done) {
  std::make_shared<Reading>(std::move(client), std::move(paces), std::move(request),
                            std::move(done))
      ->Start();
}

}  // namespace capstan::store
