// Where a transport gets what it shows the API server, besides a fixed configuration.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CREDENTIAL_SOURCE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CREDENTIAL_SOURCE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace capstan::kube {

// Secret: never logged, and in no error. Either part may be empty, also both.
struct Credential {
  // Of `Authorization: Bearer`.
  std::string bearer_token;
  // A client certificate's chain, PEM, and its key; both or none. Connections that show another one
  // take no new calls.
  std::string certificate_chain_pem;
  std::string private_key_pem;

  friend bool operator==(const Credential&, const Credential&) = default;
};

// Thread-safe. Asked before each request, so an answer that is still good comes from memory.
class CredentialSource {
 public:
  using Done = std::function<void(absl::StatusOr<Credential>)>;

  virtual ~CredentialSource() = default;

  // Calls `done` once: inline, if the answer is at hand, or later from a thread of the source's. An
  // error says what to do, and nothing secret; the transport ends the call with kNoCredential.
  virtual void Get(Done done) = 0;
  // The server has answered 401 to it: the next Get gives another one if there is any to be had.
  virtual void Rejected(const Credential& credential) = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CREDENTIAL_SOURCE_H_
