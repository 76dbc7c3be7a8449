#include "libs/kube/transport/curl_transport.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/transport/curl_exchange.h"
#include "libs/kube/transport/curl_loop.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/option_rules.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/libcurl/libcurl.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

absl::StatusOr<std::shared_ptr<CallLoop>> RunCurlLoop(TransportOptions options,
                                                      CredentialSource* credentials,
                                                      const Clock* clock) {
  CurlSetup setup;
  CAPSTAN_ASSIGN_OR_RETURN(setup.endpoint, CheckOptions(options));
  CAPSTAN_ASSIGN_OR_RETURN(setup.libcurl, LoadLibcurl());
  setup.credentials = credentials;
  const Endpoint& endpoint = setup.endpoint;
  const std::string authority = endpoint.Authority();
  setup.lines = {"Expect:"};
  if (endpoint.tls && !options.tls_server_name.empty()) {
    // The URL's host is what libcurl asks for and verifies; where it connects to is another matter.
    setup.base_url = absl::StrCat("https://", options.tls_server_name, ":", endpoint.port);
    setup.connect_to = {setup.libcurl->slist_append(nullptr, absl::StrCat("::", authority).c_str()),
                        setup.libcurl->slist_free_all};
    setup.lines.push_back(absl::StrCat("Host: ", HostHeader(endpoint)));
  } else {
    setup.base_url = absl::StrCat(endpoint.tls ? "https://" : "http://", authority);
  }
  absl::StrAppend(&setup.base_url, endpoint.prefix);
  for (const HttpHeader& header : ImpersonationHeaders(options.impersonation)) {
    setup.lines.push_back(absl::StrCat(header.name, ": ", header.value));
  }
  if (!BypassesProxy(options.no_proxy, endpoint)) setup.proxy = options.proxy;
  setup.options = std::move(options);
  auto loop = std::make_shared<CurlLoop>(std::move(setup), clock);
  CAPSTAN_RETURN_IF_ERROR(loop->Run());
  return std::shared_ptr<CallLoop>(std::move(loop));
}

absl::StatusOr<std::unique_ptr<Transport>> MakeCurlTransport(TransportOptions options,
                                                             CredentialSource* credentials,
                                                             const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<CallLoop> loop,
                           RunCurlLoop(std::move(options), credentials, clock));
  return MakeLoopTransport(std::move(loop));
}

}  // namespace capstan::kube
