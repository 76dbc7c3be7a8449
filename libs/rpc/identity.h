#ifndef CAPSTAN_LIBS_RPC_IDENTITY_H_
#define CAPSTAN_LIBS_RPC_IDENTITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/auth/spiffe_id.h"

namespace capstan::rpc {

// An X.509-SVID with its key, and the roots by which others are verified.
struct Svid {
  // PKCS#8 PEM.
  std::string key_pem;
  // DER, leaf first, without roots.
  std::vector<std::string> chain;
  // DER roots of the trust bundle, in the issuer's order.
  std::vector<std::string> bundle;

  friend bool operator==(const Svid&, const Svid&) = default;
};

// An Svid and what its leaf says. Immutable.
struct IdentitySnapshot {
  Svid svid;
  auth::SpiffeId id;
  std::string serial;
  absl::Time not_before;
  absl::Time not_after;
};

// Who this process is. It lives in a folder of its own (0700), so that a restart needs no
// credentials service:
//   svid.pem    key, chain and bundle in one file (0600), replaced by one rename, so that key and
//               chain always belong together. The roots are sent in handshakes, for joining
//               clients, which know only their SHA-256;
//   bundle.pem  the roots (0600).
// Thread-safe. Shared with the transport credentials made from it, which use a new SVID for all
// connections from a second after Replace on, and the new bundle at once.
class Identity {
 public:
  // Reads the folder. NOT_FOUND if it holds no identity; DATA_LOSS if what it holds is damaged or
  // the key is not the leaf's. An expired SVID is loaded all the same: its owner decides.
  static absl::StatusOr<std::shared_ptr<Identity>> Load(const std::string& folder);
  // Makes the folder if need be, stores `svid` there durably, replacing what is there, and loads
  // it.
  static absl::StatusOr<std::shared_ptr<Identity>> Store(const std::string& folder, Svid svid);

  std::shared_ptr<const IdentitySnapshot> Get() const;

  // Stores and then uses a new SVID. It must be of the same SPIFFE id, its key the leaf's. After
  // an error the old one stays in use.
  absl::Status Replace(Svid svid);

  // `spiffe://…`, and its trust domain: these never change.
  const std::string& spiffe_id() const { return spiffe_id_; }
  const std::string& trust_domain() const { return trust_domain_; }
  // File with key and chain.
  std::string svid_path() const;

  // Where the transport keeps its certificate provider: `make` runs once in the identity's life.
  std::shared_ptr<void> GetOrMakeAttachment(absl::FunctionRef<std::shared_ptr<void>()> make) const;

 private:
  Identity(std::string folder, std::shared_ptr<const IdentitySnapshot> snapshot);

  const std::string folder_;
  const std::string spiffe_id_;
  const std::string trust_domain_;
  // Held while files are written.
  absl::Mutex write_mutex_;
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(write_mutex_);
  std::shared_ptr<const IdentitySnapshot> snapshot_ ABSL_GUARDED_BY(mutex_);
  // A lock of its own: making the provider takes gRPC's locks, under which gRPC in turn asks the
  // verifier, which reads the snapshot.
  mutable absl::Mutex attachment_mutex_;
  mutable std::shared_ptr<void> attachment_ ABSL_GUARDED_BY(attachment_mutex_);
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_IDENTITY_H_
