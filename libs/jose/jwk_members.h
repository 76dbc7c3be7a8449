#ifndef CAPSTAN_LIBS_JOSE_JWK_MEMBERS_H_
#define CAPSTAN_LIBS_JOSE_JWK_MEMBERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

namespace capstan::jose {

// base64url without padding of which the bytes give back exactly this text; the bytes.
absl::optional<std::string> DecodeBase64Url(absl::string_view text);

// Whether the key has all of these members, each as such text of at least a byte. To be asked before
// cjose reads one from wherever it came: cjose 0.6.2 ends the process where `=` stands within the
// text, and does not free what it has read of an RSA key that has some of its factors alone.
bool HasMembers(const nlohmann::json& jwk, absl::Span<const char* const> names);

// Overwrites the texts of the object's members.
void Wipe(nlohmann::json* object);

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_JWK_MEMBERS_H_
