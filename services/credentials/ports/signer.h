#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_SIGNER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_SIGNER_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// Signs certificates with the trust domain's key. Does not block for longer than a signature takes;
// one thread at a time.
class Signer {
 public:
  virtual ~Signer() = default;

  // Makes the X.509-SVID that the order describes, DER. It decides nothing: identity, serial and
  // validity are the order's. Signing the same order again gives the same certificate but for the
  // signature.
  virtual absl::StatusOr<std::string> Sign(const IssueOrder& order) = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_SIGNER_H_
