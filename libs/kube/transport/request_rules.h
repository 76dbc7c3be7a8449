// What may go out in a request, as functions.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_REQUEST_RULES_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_REQUEST_RULES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/impersonation.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// INVALID_ARGUMENT (kBadRequest), which names the field and no value, if the method is no token,
// the target no path and query (RFC 3986), a header ends its line or is one that the transport
// sets, or a timeout is not above 0.
absl::Status CheckRequest(const HttpRequest& request);

// Whether `value` stays within its line of the head.
bool IsHeaderValue(absl::string_view value);
// UNAUTHENTICATED (kNoCredential) unless it is empty or printable and without spaces.
absl::Status CheckBearerToken(absl::string_view token);

// Keys of `extra` are lower case and escaped as the API server unescapes them. INVALID_ARGUMENT if
// a value is not for a header or the user is missing.
absl::Status CheckImpersonation(const Impersonation& impersonation);
std::vector<HttpHeader> ImpersonationHeaders(const Impersonation& impersonation);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_REQUEST_RULES_H_
