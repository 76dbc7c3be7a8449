#ifndef CAPSTAN_LIBS_RPC_TESTING_TEST_AUTHORITY_H_
#define CAPSTAN_LIBS_RPC_TESTING_TEST_AUTHORITY_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/x509.h"

namespace capstan::rpc {

// A certificate authority of a test's own. Dies on any failure.
class TestAuthority {
 public:
  explicit TestAuthority(absl::string_view trust_domain = "test.capstan.dev",
                         absl::Time now = absl::Now());

  // An SVID for `path`, e.g. `/svc/scheduler`, valid from an hour ago for `life` from now; it has
  // expired if `life` is negative.
  Svid Issue(absl::string_view path, absl::Duration life = absl::Hours(24)) const;
  // The same stored in `folder`, which is made.
  std::shared_ptr<Identity> MakeIdentity(absl::string_view path, const std::string& folder,
                                         absl::Duration life = absl::Hours(24)) const;

  const std::string& trust_domain() const { return trust_domain_; }
  // DER.
  const std::string& root() const { return root_; }
  const PrivateKey& key() const { return key_; }

 private:
  const std::string trust_domain_;
  const absl::Time now_;
  const PrivateKey key_;
  std::string root_;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_TESTING_TEST_AUTHORITY_H_
