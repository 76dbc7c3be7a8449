#ifndef CAPSTAN_LIBS_KUBE_CONFIG_TESTING_KEY_PAIR_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_TESTING_KEY_PAIR_H_

#include <string>

namespace capstan::kube {

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;
};

// A new P-256 key and a certificate that it has signed itself. Empty if OpenSSL fails.
KeyPair MakeKeyPair();

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_TESTING_KEY_PAIR_H_
