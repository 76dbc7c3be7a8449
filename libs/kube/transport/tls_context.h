// Whom connections to an API server trust, and what they show.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CONTEXT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CONTEXT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "openssl/ssl.h"

namespace capstan::kube {

struct SslDelete {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct TlsSettings {
  // Authorities, PEM; empty: those of the system.
  std::string ca_pem;
  // What the certificate must be for, by its SAN: a DNS name, which is also asked for (SNI), or an
  // address.
  std::string server_name;
  bool insecure_skip_verify = false;
  // Offered by ALPN, each with its length before it.
  std::string protocols;
};

// The last error of OpenSSL on this thread, which is then forgotten.
std::string TakeOpensslError();

// FAILED_PRECONDITION (kTlsFailed), with what to look at.
absl::Status TlsFailed(absl::string_view why);

// TLS 1.2 or later. What the connections of a transport have in common. Thread-safe.
class TlsContext {
 public:
  // INVALID_ARGUMENT if no authority can be read.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(const TlsSettings& settings);

  SSL_CTX* get() const { return context_.get(); }
  // A connection of this context that is set up. UNAVAILABLE (kNotSent) if OpenSSL has none.
  absl::StatusOr<std::unique_ptr<SSL, SslDelete>> MakeSsl(const std::string& certificate_chain_pem,
                                                          const std::string& private_key_pem) const;
  // Has the handshake verify the name, and show the certificate, if it is not empty.
  // FAILED_PRECONDITION (kTlsFailed) if it cannot be used.
  absl::Status SetUp(SSL* ssl, const std::string& certificate_chain_pem,
                     const std::string& private_key_pem) const;

 private:
  TlsContext(std::unique_ptr<SSL_CTX, SslDelete> context, std::string server_name)
      : context_(std::move(context)), server_name_(std::move(server_name)) {}

  const std::unique_ptr<SSL_CTX, SslDelete> context_;
  const std::string server_name_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CONTEXT_H_
