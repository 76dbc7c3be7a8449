#include "libs/auth/svid_renewer.h"

#include <algorithm>
#include <utility>

#include "libs/auth/renewal_schedule.h"
#include "libs/rpc/call.h"

namespace capstan::auth {
namespace {

constexpr absl::Duration kLookEvery = absl::Minutes(10);
// Less than the clock can tell would wake it again and again at one moment.
constexpr absl::Duration kShortestWait = absl::Milliseconds(1);
constexpr absl::Duration kLongestRetry = absl::Minutes(5);
constexpr absl::Duration kCallDeadline = absl::Seconds(20);

}  // namespace

rpc::Svid MakeSvid(const rpc::PrivateKey& key, const credentials::v1::Svid& issued) {
  rpc::Svid svid;
  svid.key_pem = key.ToPem();
  svid.chain.assign(issued.certificate_chain().begin(), issued.certificate_chain().end());
  svid.bundle.assign(issued.bundle().roots().begin(), issued.bundle().roots().end());
  return svid;
}

SvidRenewer::SvidRenewer(std::shared_ptr<rpc::Identity> identity, Strand* strand, Random* random,
                         Renew renew, Observer observer, Expired expired)
    : identity_(std::move(identity)),
      strand_(strand),
      random_(random),
      renew_(std::move(renew)),
      observer_(std::move(observer)),
      expired_(std::move(expired)) {}

SvidRenewer::~SvidRenewer() {
  if (timer_ != 0) strand_->Cancel(timer_);
}

void SvidRenewer::Start() { Look(); }

void SvidRenewer::Arm(absl::Duration delay) {
  timer_ = strand_->RunAfter(std::clamp(delay, kShortestWait, kLookEvery), [this] {
    timer_ = 0;
    Look();
  });
}

void SvidRenewer::Look() {
  const std::shared_ptr<const rpc::IdentitySnapshot> snapshot = identity_->Get();
  const absl::Time due = RenewalTime(snapshot->not_before, snapshot->not_after);
  const absl::Time now = strand_->clock().Read().wall;
  if (now < due) {
    Arm(due - now);
  } else {
    Try();
  }
}

void SvidRenewer::Try() {
  absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::Generate();
  absl::StatusOr<std::string> request = key.ok() ? rpc::MakeCertificateRequest(*key) : key.status();
  if (!request.ok()) {
    // Nothing but a lack of memory or randomness.
    if (observer_) observer_(request.status());
    Arm(kLongestRetry);
    return;
  }
  renew_(*std::move(request), [this, key = *key, alive = std::weak_ptr<bool>(alive_)](
                                  absl::StatusOr<credentials::v1::Svid> issued) {
    if (!alive.expired()) OnAnswer(key, std::move(issued));
  });
}

void SvidRenewer::OnAnswer(const rpc::PrivateKey& key,
                           absl::StatusOr<credentials::v1::Svid> issued) {
  absl::Status status = issued.status();
  if (status.ok()) status = identity_->Replace(MakeSvid(key, *issued));
  if (observer_) observer_(status);
  if (status.ok()) {
    failures_ = 0;
    const std::shared_ptr<const rpc::IdentitySnapshot> renewed = identity_->Get();
    Arm(std::max(
        ShortestRenewalInterval(renewed->not_before, renewed->not_after),
        RenewalTime(renewed->not_before, renewed->not_after) - strand_->clock().Read().wall));
    return;
  }
  const absl::Duration left = identity_->Get()->not_after - strand_->clock().Read().wall;
  if (left <= absl::ZeroDuration() && expired_) std::exchange(expired_, nullptr)();
  const double jitter = static_cast<double>(random_->Below(1000)) / 1000;
  Arm(RenewalRetryDelay(failures_++, left, jitter));
}

SvidRenewer::Renew RenewOver(credentials::v1::IdentityService::StubInterface* stub,
                             Strand* strand) {
  return [stub, strand](std::string certificate_request, SvidRenewer::Done done) {
    credentials::v1::RenewSvidRequest request;
    request.set_certificate_request(std::move(certificate_request));
    rpc::CallUnary(stub,
                   &credentials::v1::IdentityService::StubInterface::async_interface::RenewSvid,
                   std::move(request), {.deadline = kCallDeadline, .wait_for_ready = true}, strand,
                   std::move(done));
  };
}

}  // namespace capstan::auth
