#include "services/credentials/own_identity.h"

#include <string>
#include <utility>

#include "libs/rpc/x509.h"
#include "services/credentials/api/certifiable_key.h"

namespace capstan::credentials {

void OwnIdentity::Start(Callback done) {
  absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::Generate();
  if (!key.ok()) return done(key.status());
  absl::StatusOr<std::string> request = rpc::MakeCertificateRequest(*key);
  if (!request.ok()) return done(request.status());
  Issue(*request, [this, key = *std::move(key),
                   done = std::move(done)](absl::StatusOr<v1::Svid> issued) mutable {
    if (!issued.ok()) return done(issued.status());
    auto identity = rpc::Identity::Store(deps_.folder, auth::MakeSvid(key, *issued));
    if (!identity.ok()) return done(identity.status());
    renewer_ = std::make_unique<auth::SvidRenewer>(
        *identity, deps_.io_strand, &random_,
        [this](const std::string& certificate_request, auth::SvidRenewer::Done answer) {
          Issue(certificate_request, std::move(answer));
        },
        [this](const absl::Status& status) {
          if (status.ok()) {
            deps_.log->Info("renewed the own SVID");
          } else {
            deps_.log->Error("cannot renew the own SVID", {{"why", status}});
          }
        });
    renewer_->Start();
    done(*std::move(identity));
  });
}

void OwnIdentity::Issue(const std::string& certificate_request, auth::SvidRenewer::Done done) {
  absl::StatusOr<CertifiableKey> key = MakeCertifiableKey(certificate_request, deps_.secrets);
  if (!key.ok()) return done(key.status());
  IssueOwnSvid event;
  event.key = *std::move(key);
  deps_.sink->Submit(
      std::move(event), [strand = deps_.io_strand, alive = std::weak_ptr<char>(alive_),
                         done = std::move(done)](absl::StatusOr<Answer> answer) mutable {
        // The answer comes on the engine's strand; what follows writes files.
        strand->Post([alive, done = std::move(done), answer = std::move(answer)]() mutable {
          if (alive.expired()) return;
          if (!answer.ok()) return done(answer.status());
          done(std::get<v1::Svid>(*std::move(answer)));
        });
      });
}

}  // namespace capstan::credentials
