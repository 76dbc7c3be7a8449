#include "services/credentials/api/certifiable_key.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/core/serial.h"

namespace capstan::credentials {
namespace {

constexpr size_t kMaxRequest = 8 * 1024;

}  // namespace

absl::Status ValidateCertificateRequest(absl::string_view der) {
  status::FieldErrors errors;
  if (der.empty() || der.size() > kMaxRequest) {
    errors.Add(
        "certificate_request",
        absl::StrCat("has ", der.size(), " bytes; a DER PKCS#10 request has 1 to ", kMaxRequest));
    return errors.ToStatus();
  }
  if (const absl::Status status = rpc::PublicKeyOfRequest(der).status(); !status.ok()) {
    errors.Add(
        "certificate_request",
        absl::StrCat("is not a PKCS#10 request signed by its own P-256 key: ", status.message()));
  }
  return errors.ToStatus();
}

absl::StatusOr<CertifiableKey> MakeCertifiableKey(absl::string_view der, SecretSource* secrets) {
  CertifiableKey key;
  CAPSTAN_ASSIGN_OR_RETURN(key.spki, rpc::PublicKeyOfRequest(der));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string random, secrets->Bytes(kSerialBytes));
  key.serial = SerialFrom(random);
  return key;
}

}  // namespace capstan::credentials
