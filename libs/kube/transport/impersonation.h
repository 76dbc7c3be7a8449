#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_IMPERSONATION_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_IMPERSONATION_H_

#include <string>
#include <utility>
#include <vector>

namespace capstan::kube {

// Whom requests are made for, in place of who the credential stands for (Kubernetes: user
// impersonation). All empty: nobody.
struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  // Each key once, in order.
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;

  friend bool operator==(const Impersonation&, const Impersonation&) = default;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_IMPERSONATION_H_
