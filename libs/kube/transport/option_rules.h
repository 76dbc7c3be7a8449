#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_OPTION_RULES_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_OPTION_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/tls_context.h"
#include "libs/kube/transport/transport_options.h"

namespace capstan::kube {

// The server of `options`. INVALID_ARGUMENT if any of them is wrong.
absl::StatusOr<Endpoint> CheckOptions(const TransportOptions& options);

// Whether they ask for what only the transport over libcurl has: http://, a proxy, gzip.
bool NeedsLibcurl(const TransportOptions& options, const Endpoint& endpoint);

// Whom connections to the server trust; `protocols` as of TlsSettings.
TlsSettings TlsSettingsOf(const TransportOptions& options, const Endpoint& endpoint,
                          absl::string_view protocols);

// What the server is called in requests: host and port, less the port that is usual for https.
std::string HostHeader(const Endpoint& endpoint);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_OPTION_RULES_H_
