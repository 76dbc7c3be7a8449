#ifndef CAPSTAN_LIBS_AUTH_SVID_RENEWER_H_
#define CAPSTAN_LIBS_AUTH_SVID_RENEWER_H_

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/x509.h"
#include "libs/strand/strand.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"

namespace capstan::auth {

// An rpc::Svid from the answer of credentials and the key it was asked with.
rpc::Svid MakeSvid(const rpc::PrivateKey& key, const credentials::v1::Svid& issued);

// Renews the identity of a process in time. For one strand.
class SvidRenewer {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<credentials::v1::Svid>)>;
  // Asks for an SVID by a PKCS#10 request (DER). Calls `done` once, on the strand.
  using Renew = absl::AnyInvocable<void(std::string certificate_request, Done done)>;
  // Told about each try, on the strand: for metrics and the log.
  using Observer = absl::AnyInvocable<void(const absl::Status&)>;
  // Told once, on the strand, after a try that failed with an SVID that has expired: with it no
  // handshake succeeds any more, so that only a new join can help. Trying goes on all the same.
  using Expired = absl::AnyInvocable<void()>;

  // The pointers must outlive it.
  SvidRenewer(std::shared_ptr<rpc::Identity> identity, Strand* strand, Random* random, Renew renew,
              Observer observer = nullptr, Expired expired = nullptr);
  // On the strand, or after it has stopped.
  ~SvidRenewer();

  // On the strand. Renews at once if it is due.
  void Start();

 private:
  // Arms the timer for the next look. The wall clock may step, and timers count on the boot clock,
  // so that it looks at least every ten minutes.
  void Arm(absl::Duration delay);
  void Look();
  void Try();
  void OnAnswer(const rpc::PrivateKey& key, absl::StatusOr<credentials::v1::Svid> issued);

  const std::shared_ptr<rpc::Identity> identity_;
  Strand* const strand_;
  Random* const random_;
  Renew renew_;
  Observer observer_;
  Expired expired_;
  int failures_ = 0;
  Strand::TimerId timer_ = 0;
  // Expires with this object, for answers that come later.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// Renew by IdentityService.RenewSvid; `stub` and `strand` must outlive it.
SvidRenewer::Renew RenewOver(credentials::v1::IdentityService::StubInterface* stub, Strand* strand);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_SVID_RENEWER_H_
