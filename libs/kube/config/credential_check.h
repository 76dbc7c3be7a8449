// Whether what is to be shown to a server can be shown. Pure; errors never say what was found.
#ifndef CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CHECK_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

// A token is 1 to 65,536 bytes of printable ASCII without a space. INVALID_ARGUMENT, reason
// KUBE_BAD_TOKEN.
absl::Status CheckToken(absl::string_view token);

// One PEM certificate or more, all whole. INVALID_ARGUMENT, reason KUBE_BAD_CERTIFICATE.
absl::Status CheckCertificates(absl::string_view pem);

// A chain and the unencrypted key of its first certificate. INVALID_ARGUMENT, reasons
// KUBE_BAD_CERTIFICATE, KUBE_BAD_KEY (unreadable or encrypted) and KUBE_KEY_MISMATCH.
absl::Status CheckKeyPair(absl::string_view chain_pem, absl::string_view key_pem);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CHECK_H_
