#include "libs/kube/transport/tls_context.h"

#include <arpa/inet.h>

#include "absl/strings/str_cat.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace capstan::kube {
namespace {

struct OpensslDelete {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, OpensslDelete>;

Owned<BIO> BioOf(const std::string& bytes) {
  return Owned<BIO>(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

Owned<X509> NextCertificate(BIO* bio) {
  // No password is asked for on a terminal: certificates have none.
  return Owned<X509>(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}

int NoPassword(char*, int, int, void*) { return -1; }

bool IsAddress(const std::string& text) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace

std::string TakeOpensslError() {
  char text[256] = "no reason given";
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return text;
}

absl::Status TlsFailed(absl::string_view why) {
  return status::Error(absl::StatusCode::kFailedPrecondition, kTlsFailed,
                       absl::StrCat("no TLS connection to the API server: ", why,
                                    "; check its address, the certificate authority and the "
                                    "client certificate"));
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Make(const TlsSettings& settings) {
  std::unique_ptr<SSL_CTX, SslDelete> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::InternalError("OpenSSL gives no context");
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(raw, settings.insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                     nullptr);
  // 0 is success, here alone.
  if (SSL_CTX_set_alpn_protos(raw,
                              reinterpret_cast<const unsigned char*>(settings.protocols.data()),
                              static_cast<unsigned>(settings.protocols.size())) != 0) {
    return absl::InternalError("OpenSSL takes no ALPN");
  }
  if (settings.ca_pem.empty()) {
    SSL_CTX_set_default_verify_paths(raw);
  } else {
    const Owned<BIO> bio = BioOf(settings.ca_pem);
    int count = 0;
    while (const Owned<X509> certificate = NextCertificate(bio.get())) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), certificate.get());
      ++count;
    }
    ERR_clear_error();
    if (count == 0) {
      return absl::InvalidArgumentError(
          "the API server's certificate authority has no certificate in PEM that can be read");
    }
  }
  X509_VERIFY_PARAM* const rules = SSL_CTX_get0_param(raw);
  // A configuration may name an intermediate authority.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
  X509_VERIFY_PARAM_set_hostflags(
      rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(context), settings.server_name));
}

absl::StatusOr<std::unique_ptr<SSL, SslDelete>> TlsContext::MakeSsl(
    const std::string& certificate_chain_pem, const std::string& private_key_pem) const {
  ERR_clear_error();
  std::unique_ptr<SSL, SslDelete> ssl(SSL_new(context_.get()));
  if (ssl == nullptr) {
    return status::Error(absl::StatusCode::kUnavailable, kNotSent, "OpenSSL gives no connection");
  }
  CAPSTAN_RETURN_IF_ERROR(SetUp(ssl.get(), certificate_chain_pem, private_key_pem));
  return ssl;
}

absl::Status TlsContext::SetUp(SSL* ssl, const std::string& certificate_chain_pem,
                               const std::string& private_key_pem) const {
  ERR_clear_error();
  const bool named =
      IsAddress(server_name_)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name_.c_str()) == 1
          : SSL_set1_host(ssl, server_name_.c_str()) == 1 &&
                SSL_set_tlsext_host_name(ssl, server_name_.c_str()) == 1;
  if (!named) return TlsFailed(TakeOpensslError());
  if (certificate_chain_pem.empty()) return absl::OkStatus();

  const Owned<BIO> chain = BioOf(certificate_chain_pem);
  const Owned<X509> own = NextCertificate(chain.get());
  const Owned<BIO> key_bio = BioOf(private_key_pem);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr));
  if (own == nullptr || key == nullptr || SSL_use_certificate(ssl, own.get()) != 1 ||
      SSL_use_PrivateKey(ssl, key.get()) != 1 || SSL_check_private_key(ssl) != 1) {
    return TlsFailed(absl::StrCat("the client certificate cannot be used: ", TakeOpensslError()));
  }
  while (const Owned<X509> above = NextCertificate(chain.get())) {
    SSL_add1_chain_cert(ssl, above.get());
  }
  ERR_clear_error();
  return absl::OkStatus();
}

}  // namespace capstan::kube
