// Signatures by the keys of SVIDs over statements that others verify without the platform's help.
#ifndef CAPSTAN_LIBS_RPC_SIGNATURE_H_
#define CAPSTAN_LIBS_RPC_SIGNATURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/rpc/x509.h"

namespace capstan::rpc {

// ECDSA over P-256 with SHA-256, DER, of `purpose`, a zero byte, and the statement. The purpose is
// text of its own for each kind of statement, so that nothing signed for one end is taken for
// another. About 30 us.
absl::StatusOr<std::string> Sign(const PrivateKey& key, absl::string_view purpose,
                                 absl::string_view statement);

// True if `signature` was made by Sign with the key whose public half is `public_key`
// (SubjectPublicKeyInfo, DER), and the same purpose and statement.
bool SignatureHolds(absl::string_view public_key, absl::string_view purpose,
                    absl::string_view statement, absl::string_view signature);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SIGNATURE_H_
