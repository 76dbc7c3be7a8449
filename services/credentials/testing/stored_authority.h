#ifndef CAPSTAN_SERVICES_CREDENTIALS_TESTING_STORED_AUTHORITY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_TESTING_STORED_AUTHORITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/rpc/identity.h"
#include "services/credentials/trust_domain.h"

namespace capstan::credentials {

// Signs with the key of a trust domain that lies in a stopped credentials' folder, so that a test
// can show certificates that the service itself would never issue. Dies on any failure.
class StoredAuthority {
 public:
  // `folder` holds store.sqlite and key_keeper.key; nobody may have the store open meanwhile.
  explicit StoredAuthority(const std::string& folder);

  const std::string& trust_domain() const { return domain_.record.name(); }
  // An SVID for a whole URI, valid for that time.
  rpc::Svid Issue(absl::string_view uri, absl::Time not_before, absl::Time not_after) const;
  // The stored private keys in the clear, for tests that look for them where they must not be: the
  // CA's first (PKCS#8, DER), then those that sign JWT-SVIDs (JSON Web Keys).
  const std::vector<std::string>& private_keys() const { return private_keys_; }

 private:
  TrustDomain domain_;
  std::vector<std::string> private_keys_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_TESTING_STORED_AUTHORITY_H_
