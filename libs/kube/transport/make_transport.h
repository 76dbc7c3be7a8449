#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_MAKE_TRANSPORT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_MAKE_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// The transport over HTTP/2 (h2_transport.h), or that over libcurl (curl_transport.h) where the
// options ask for what only it has: http://, a proxy, gzip. Conditions and errors as there.
absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(TransportOptions options,
                                                         CredentialSource* credentials,
                                                         const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_MAKE_TRANSPORT_H_
