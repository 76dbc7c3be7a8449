#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_CERTIFIABLE_KEY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_CERTIFIABLE_KEY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// OK if `der` is a PKCS#10 request of at most 8 KiB whose signature proves possession of its P-256
// key; else INVALID_ARGUMENT with a violation of `certificate_request`. Everything else in the
// request, names above all, is ignored.
absl::Status ValidateCertificateRequest(absl::string_view der);

// The key of a request that was validated, with a fresh serial.
absl::StatusOr<CertifiableKey> MakeCertifiableKey(absl::string_view der, SecretSource* secrets);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_CERTIFIABLE_KEY_H_
