#ifndef CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/auth/svid_renewer.h"
#include "libs/log/log.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/strand/strand.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// The service's own SVID, `/svc/credentials`, which it asks of its own engine: a new one, under a
// new key, at each start and then whenever it is due. It writes files, so it lives on a strand of
// its own where that is allowed.
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
    // For the jitter of retries.
    uint64_t seed = 0;
  };
  using Callback = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<rpc::Identity>>)>;

  explicit OwnIdentity(Deps deps) : deps_(std::move(deps)), random_(deps_.seed) {}
  OwnIdentity(const OwnIdentity&) = delete;
  OwnIdentity& operator=(const OwnIdentity&) = delete;

  // On the I/O strand, as everything else, destruction included. `done` gets the first identity, or
  // why there is none.
  void Start(Callback done);

 private:
  void Issue(const std::string& certificate_request, auth::SvidRenewer::Done done);

  const Deps deps_;
  Random random_;
  std::unique_ptr<auth::SvidRenewer> renewer_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_OWN_IDENTITY_H_
