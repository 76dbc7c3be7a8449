#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PERSON_IDENTITY_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PERSON_IDENTITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/time/clock.h"

namespace capstan::cli {

// Folder in which this person's SVID is kept: in the platform's data folder if it is the person's
// own, else in the person's home.
std::string PersonFolder(const std::string& data_dir);

// True if an SVID should be asked for anew: a third of its life or less is left.
bool NeedsRenewal(absl::Time not_before, absl::Time not_after, absl::Time now);

// The person's identity: the one kept in `folder` while it is good for `trust_domain`, in force by
// the clock, and has more than a third of its life left, else a new one from PersonService at the
// Unix socket. If the service gives none and the kept one is still in force, that one; if it is
// not, an error with the service's code that names what was found, both bounds and the way out.
// UNAUTHENTICATED with CERTIFICATE_NOT_VALID if by this clock the new one is not in force. So no
// service is ever shown a certificate of which it could only say that the handshake failed.
absl::StatusOr<std::shared_ptr<const rpc::Identity>> GetPersonIdentity(
    const std::string& folder, const std::string& socket, const std::string& trust_domain,
    const Clock* clock, Random* random);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PERSON_IDENTITY_H_
