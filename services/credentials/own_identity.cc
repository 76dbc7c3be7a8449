#include "services/credentials/own_identity.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libs/status/status_macros.h"
#include "services/credentials/core/serial.h"

namespace capstan::credentials {
namespace {

absl::StatusOr<CertifiableKey> Certify(const rpc::PrivateKey& key, SecretSource* secrets) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string random, secrets->Bytes(kSerialBytes));
  return CertifiableKey{.spki = key.PublicKey(), .serial = SerialFrom(random)};
}

}  // namespace

OwnIdentity::~OwnIdentity() {
  if (timer_ != 0) deps_.io_strand->Cancel(timer_);
}

void OwnIdentity::Start(Callback done) {
  Issue([this, done = std::move(done)](absl::StatusOr<rpc::Svid> svid) mutable {
    if (!svid.ok()) return done(svid.status());
    auto identity = rpc::Identity::Store(deps_.folder, *std::move(svid));
    if (!identity.ok()) return done(identity.status());
    identity_ = *identity;
    full_life_ = Life();
    ArmRenewal(full_life_ / 3);
    done(identity_);
  });
}

void OwnIdentity::Issue(absl::AnyInvocable<void(absl::StatusOr<rpc::Svid>)> done) {
  absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::Generate();
  if (!key.ok()) return done(key.status());
  absl::StatusOr<CertifiableKey> certifiable = Certify(*key, deps_.secrets);
  if (!certifiable.ok()) return done(certifiable.status());
  IssueOwnSvid event;
  event.key = *std::move(certifiable);
  deps_.sink->Submit(
      std::move(event), [strand = deps_.io_strand, alive = std::weak_ptr<char>(alive_),
                         key = *std::move(key),
                         done = std::move(done)](absl::StatusOr<Answer> answer) mutable {
        // The answer comes on the engine's strand; what follows writes files.
        strand->Post([alive, key = std::move(key), done = std::move(done),
                      answer = std::move(answer)]() mutable {
          if (alive.expired()) return;
          if (!answer.ok()) return done(answer.status());
          const v1::Svid& issued = std::get<v1::Svid>(*answer);
          rpc::Svid svid;
          svid.key_pem = key.ToPem();
          svid.chain.assign(issued.certificate_chain().begin(), issued.certificate_chain().end());
          svid.bundle.assign(issued.bundle().roots().begin(), issued.bundle().roots().end());
          done(std::move(svid));
        });
      });
}

void OwnIdentity::Renew() {
  Issue([this](absl::StatusOr<rpc::Svid> svid) {
    const absl::Status renewed = svid.ok() ? identity_->Replace(*std::move(svid)) : svid.status();
    if (renewed.ok()) {
      full_life_ = Life();
      deps_.log->Info("renewed the own SVID", {{"expires", identity_->Get()->not_after}});
    } else {
      deps_.log->Error("cannot renew the own SVID",
                       {{"why", renewed}, {"expires", identity_->Get()->not_after}});
    }
    ArmRenewal(renewed.ok() ? full_life_ / 3 : full_life_ / 30);
  });
}

void OwnIdentity::ArmRenewal(absl::Duration delay) {
  timer_ = deps_.io_strand->RunAfter(std::max(delay, absl::Seconds(1)),
                                     [this, alive = std::weak_ptr<char>(alive_)] {
                                       if (alive.expired()) return;
                                       timer_ = 0;
                                       Renew();
                                     });
}

absl::Duration OwnIdentity::Life() const {
  return identity_->Get()->not_after - deps_.io_strand->clock().Read().wall;
}

}  // namespace capstan::credentials
