#ifndef CAPSTAN_LIBS_KUBE_CONFIG_STATIC_CREDENTIAL_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_STATIC_CREDENTIAL_H_

#include <utility>

#include "libs/kube/transport/credential_source.h"

namespace capstan::kube {

// The same credential for ever, also an empty one. Thread-safe; answers inline.
class StaticCredential final : public CredentialSource {
 public:
  explicit StaticCredential(Credential credential) : credential_(std::move(credential)) {}

  void Get(Done done) override { done(credential_); }
  void Rejected(const Credential&) override {}

 private:
  const Credential credential_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_STATIC_CREDENTIAL_H_
