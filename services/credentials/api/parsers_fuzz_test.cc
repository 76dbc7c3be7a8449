// What strangers send: join tokens, certificate requests, denials. Nothing may crash, and nothing
// of a token may come back in an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "services/credentials/api/certifiable_key.h"
#include "services/credentials/api/join_token.h"
#include "services/credentials/api/policy_service.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace credentials = capstan::credentials;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parts = credentials::ParseJoinToken(text);
  if (parts.ok() && parts->id + "." + parts->secret + "." + parts->bundle_sha256 != text) {
    std::abort();
  }
  // One error for all that is refused: so nothing of the input can be in it.
  if (!parts.ok() && parts.status() != credentials::ParseJoinToken("").status()) std::abort();
  credentials::ValidateCertificateRequest(text).IgnoreError();
  credentials::v1::DenyIdentityRequest request;
  request.set_reason("fuzz");
  // Proto strings are UTF-8 by contract; the parser must not rely on it.
  request.set_spiffe_id(text);
  const auto denial = credentials::ParseDenial(request, "x.local");
  if (denial.ok() && denial->spiffe_id.rfind("spiffe://x.local/", 0) != 0) std::abort();
  return 0;
}
