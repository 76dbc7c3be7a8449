// The secret part of keys, whatever they are written in.
#ifndef CAPSTAN_INTEGRATION_SECRETS_KEY_MATERIAL_H_
#define CAPSTAN_INTEGRATION_SECRETS_KEY_MATERIAL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::integration {

// The scalar of the first P-256 key in PEM; empty if there is none.
std::string ScalarOfPem(absl::string_view pem);
// The scalar of a P-256 key in PKCS#8, DER.
std::string ScalarOfDer(absl::string_view der);
// The private members of a JSON Web Key: `d`, and `p` and `q` of RSA.
std::vector<std::string> PrivateMembersOfJwk(absl::string_view jwk);
// A new P-256 key in PEM.
std::string NewKeyPem();
// So many random letters and digits.
std::string RandomText(size_t size);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_KEY_MATERIAL_H_
