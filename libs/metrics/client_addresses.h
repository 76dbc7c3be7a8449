#ifndef CAPSTAN_LIBS_METRICS_CLIENT_ADDRESSES_H_
#define CAPSTAN_LIBS_METRICS_CLIENT_ADDRESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::metrics {

// Who may read a page that is served without authentication: this machine's loopback addresses,
// always, and the networks that the deployment names. A value; immutable, thread-safe.
class ClientAddresses {
 public:
  // `networks` are addresses (`10.0.0.7`, `fd00::7`) or networks (`10.0.0.0/8`, `fd00::/8`), at
  // most 64. INVALID_ARGUMENT names the one that is neither.
  static absl::StatusOr<ClientAddresses> Parse(const std::vector<std::string>& networks);
  // Loopback alone.
  ClientAddresses();

  // False also for what is no address.
  bool Contain(absl::string_view address) const;

 private:
  struct Networks;
  std::shared_ptr<const Networks> networks_;
};

}  // namespace capstan::metrics

#endif  // CAPSTAN_LIBS_METRICS_CLIENT_ADDRESSES_H_
