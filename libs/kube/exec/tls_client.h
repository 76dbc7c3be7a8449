#ifndef CAPSTAN_LIBS_KUBE_EXEC_TLS_CLIENT_H_
#define CAPSTAN_LIBS_KUBE_EXEC_TLS_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "boost/asio/ssl/context.hpp"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/curl_options.h"

namespace capstan::kube {

// What a TLS client shows and whom it trusts: TLS 1.2 or later, HTTP/1.1. FAILED_PRECONDITION
// (kTlsFailed) if the authorities, the certificate or its key cannot be used; nothing secret is in
// the message.
absl::StatusOr<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(
    const CurlTransportOptions& options, const Credential& credential);

// Has the handshake ask for `name`, a DNS name or an address, and verify that the certificate is
// for it.
absl::Status SetServerName(const std::string& name, SSL* ssl);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_TLS_CLIENT_H_
