#include "libs/kube/exec/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "boost/asio/buffer.hpp"
#include "boost/system/error_code.hpp"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

namespace ssl = boost::asio::ssl;

absl::Status Unusable(absl::string_view what, const boost::system::error_code& error) {
  return status::Error(absl::StatusCode::kFailedPrecondition, kTlsFailed,
                       absl::StrCat(what, " cannot be used: ", error.message()));
}

bool IsAddress(const std::string& name) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(name.c_str());
  if (address == nullptr) return false;
  ASN1_OCTET_STRING_free(address);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ssl::context>> MakeTlsContext(const CurlTransportOptions& options,
                                                             const Credential& credential) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                       error);
  if (options.ca_pem.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->add_certificate_authority(boost::asio::buffer(options.ca_pem), error);
  }
  if (error) return Unusable("the certificate authorities of the API server", error);
  context->set_verify_mode(options.insecure_skip_verify ? ssl::verify_none : ssl::verify_peer,
                           error);
  if (!error && !credential.certificate_chain_pem.empty()) {
    context->use_certificate_chain(boost::asio::buffer(credential.certificate_chain_pem), error);
    if (error) return Unusable("the client certificate", error);
    context->use_private_key(boost::asio::buffer(credential.private_key_pem), ssl::context::pem,
                             error);
    if (error) return Unusable("the client certificate's key", error);
  }
  if (error) return Unusable("TLS", error);
  // Else a server might choose HTTP/2, which has no upgrades.
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context->native_handle(), kProtocols, sizeof(kProtocols) - 1);
  return context;
}

absl::Status SetServerName(const std::string& name, SSL* ssl) {
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl);
  const bool set =
      IsAddress(name) ? X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1
                      : SSL_set_tlsext_host_name(ssl, name.c_str()) == 1 &&
                            X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1;
  if (set) return absl::OkStatus();
  return status::Error(absl::StatusCode::kFailedPrecondition, kTlsFailed,
                       "OpenSSL does not take the API server's name");
}

}  // namespace capstan::kube
