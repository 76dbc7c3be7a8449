// What strangers send in handshakes and requests: certificates, PEM texts, PKCS#10 requests.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/x509.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::auth::SpiffeId;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<capstan::rpc::Certificate> certificate =
      capstan::rpc::ParseCertificate(bytes);
  if (certificate.ok() && !certificate->uri.empty()) {
    const absl::StatusOr<SpiffeId> id = SpiffeId::Parse(certificate->uri);
    if (id.ok() && id->ToString() != certificate->uri) std::abort();
  }
  const absl::StatusOr<std::vector<std::string>> ders = capstan::rpc::CertificatesFromPem(bytes);
  if (ders.ok()) {
    // What was read is written and read again the same.
    const absl::StatusOr<std::vector<std::string>> again =
        capstan::rpc::CertificatesFromPem(capstan::rpc::CertificatesToPem(*ders));
    if (!again.ok() || *again != *ders) std::abort();
  }
  capstan::rpc::PublicKeyOfRequest(bytes).status().IgnoreError();
  capstan::rpc::PrivateKey::FromPem(bytes).status().IgnoreError();
  return 0;
}
