#ifndef CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/log/log.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/x509.h"
#include "libs/strand/strand.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// The service's own SVID, `/svc/credentials`, which it asks of its own engine: a new one, under a new
// key, at each start and at a third of the life of the one before; after a failure every thirtieth of
// that life. It writes files, so it lives on a strand of its own where that is allowed.
class OwnIdentity {
 public:
  struct Deps {
    EventSink* sink = nullptr;
    SecretSource* secrets = nullptr;
    // Not the engine's.
    Strand* io_strand = nullptr;
    const log::Logger* log = nullptr;
    // Where the identity lies.
    std::string folder;
  };
  using Callback = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<rpc::Identity>>)>;

  explicit OwnIdentity(Deps deps) : deps_(std::move(deps)) {}
  // On the I/O strand.
  ~OwnIdentity();
  OwnIdentity(const OwnIdentity&) = delete;
  OwnIdentity& operator=(const OwnIdentity&) = delete;

  // On the I/O strand. `done` gets the first identity, or why there is none.
  void Start(Callback done);

 private:
  void Issue(absl::AnyInvocable<void(absl::StatusOr<rpc::Svid>)> done);
  void Renew();
  void ArmRenewal(absl::Duration delay);
  // From now to the identity's notAfter.
  absl::Duration Life() const;

  const Deps deps_;
  std::shared_ptr<rpc::Identity> identity_;
  // Of the SVID in use, when it was issued.
  absl::Duration full_life_;
  Strand::TimerId timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_
