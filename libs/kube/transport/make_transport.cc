#include "libs/kube/transport/make_transport.h"

#include <utility>

#include "libs/kube/transport/curl_transport.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/h2_transport.h"
#include "libs/kube/transport/option_rules.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(TransportOptions options,
                                                         CredentialSource* credentials,
                                                         const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const Endpoint endpoint, CheckOptions(options));
  return NeedsLibcurl(options, endpoint) ? MakeCurlTransport(std::move(options), credentials, clock)
                                         : MakeH2Transport(std::move(options), credentials, clock);
}

}  // namespace capstan::kube
