#include "libs/kube/transport/h2_transport.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "libs/kube/transport/call_loop.h"
#include "libs/kube/transport/curl_transport.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/h2_exchange.h"
#include "libs/kube/transport/h2_loop.h"
#include "libs/kube/transport/option_rules.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/tls_channel.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

absl::StatusOr<std::unique_ptr<Transport>> MakeH2Transport(TransportOptions options,
                                                           CredentialSource* credentials,
                                                           const Clock* clock) {
  H2Setup setup;
  CAPSTAN_ASSIGN_OR_RETURN(setup.endpoint, CheckOptions(options));
  if (NeedsLibcurl(options, setup.endpoint)) {
    return absl::InvalidArgumentError("this transport has no http://, no proxy and no gzip");
  }
  setup.credentials = credentials;
  setup.authority = HostHeader(setup.endpoint);
  for (HttpHeader& header : ImpersonationHeaders(options.impersonation)) {
    setup.headers.push_back({absl::AsciiStrToLower(header.name), std::move(header.value)});
  }
  // 1.1 only to hear that there is no better.
  CAPSTAN_ASSIGN_OR_RETURN(
      std::unique_ptr<TlsContext> context,
      TlsContext::Make(TlsSettingsOf(options, setup.endpoint, "\x02h2\x08http/1.1")));
  setup.options = options;
  auto loop = std::make_shared<H2Loop>(
      std::move(setup), std::move(context),
      [options = std::move(options), credentials, clock] {
        return RunCurlLoop(options, credentials, clock);
      },
      clock);
  CAPSTAN_RETURN_IF_ERROR(loop->Run());
  return MakeLoopTransport(std::move(loop));
}

}  // namespace capstan::kube
