#include "libs/kube/transport/tls_channel.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/transport/tls_alert.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace capstan::kube {
namespace {

// Taken from the socket at once: several records, so that a burst costs one system call.
constexpr size_t kInBytes = size_t{64} << 10;

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

std::string LastError() {
  char text[256] = "no reason given";
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return text;
}

absl::Status NotSent(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnavailable, kNotSent,
                       absl::StrCat("the API server was not reached: ", why));
}

absl::Status TlsFailed(absl::string_view why) {
  return status::Error(absl::StatusCode::kFailedPrecondition, kTlsFailed,
                       absl::StrCat("no TLS connection to the API server: ", why,
                                    "; check its address, the certificate authority and the "
                                    "client certificate"));
}

bool IsAddress(const std::string& text) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

TlsChannel* ChannelOf(BIO* bio) { return static_cast<TlsChannel*>(BIO_get_data(bio)); }

}  // namespace

// Between OpenSSL and the socket: reads many records at once and never only to hear that there is
// nothing, and gathers what is to be sent.
struct TlsChannelBio {
  static int Read(BIO* bio, char* out, int size) {
    TlsChannel& self = *ChannelOf(bio);
    BIO_clear_retry_flags(bio);
    if (self.in_begin_ == self.in_end_ && !Fill(&self)) {
      if (self.eof_ || self.error_ != 0) return self.eof_ ? 0 : -1;
      BIO_set_retry_read(bio);
      return -1;
    }
    const size_t count = std::min(static_cast<size_t>(size), self.in_end_ - self.in_begin_);
    std::memcpy(out, self.in_.data() + self.in_begin_, count);
    self.in_begin_ += count;
    return static_cast<int>(count);
  }

  static bool Fill(TlsChannel* self) {
    if (self->drained_ || self->eof_ || self->error_ != 0) return false;
    self->in_.resize(kInBytes);
    ssize_t got = 0;
    do {
      got = ::recv(self->fd_, self->in_.data(), self->in_.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    self->in_begin_ = 0;
    self->in_end_ = static_cast<size_t>(std::max<ssize_t>(got, 0));
    if (got == 0) self->eof_ = true;
    if (got < 0 && errno != EAGAIN) self->error_ = errno;
    // A short read has emptied the socket; what comes later is told by epoll.
    self->drained_ = self->in_end_ < self->in_.size();
    return got > 0;
  }

  static int Write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    ChannelOf(bio)->out_.append(bytes, static_cast<size_t>(size));
    return size;
  }

  static long Control(BIO* bio, int command, long, void*) {  // NOLINT(google-runtime-int)
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return ChannelOf(bio)->eof_ ? 1 : 0;
    return 0;
  }

  static const BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "capstan");
      BIO_meth_set_read(made, Read);
      BIO_meth_set_write(made, Write);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return method;
  }
};

TlsChannel::TlsChannel(std::unique_ptr<SSL, SslDelete> ssl, int fd)
    : ssl_(std::move(ssl)), fd_(fd) {
  BIO* const bio = BIO_new(TlsChannelBio::Method());
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_connect_state(ssl_.get());
}

TlsChannel::~TlsChannel() {
  if (shaken_ && !eof_ && error_ == 0 && !broken_) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    Flush().IgnoreError();
  }
  ::close(fd_);
}

absl::Status TlsChannel::Failure(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (error_ != 0) return NotSent(std::strerror(error_));  // NOLINT(concurrency-mt-unsafe)
  const unsigned long error = ERR_peek_last_error();       // NOLINT(google-runtime-int)
  if (kind != SSL_ERROR_SSL || (ERR_GET_LIB(error) == ERR_LIB_SSL &&
                                ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
    ERR_clear_error();
    return NotSent("the connection was closed");
  }
  const bool refused = ERR_GET_LIB(error) == ERR_LIB_SSL &&
                       RefusesCertificate(ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET);
  std::string why = LastError();
  const long verified = SSL_get_verify_result(ssl_.get());  // NOLINT(google-runtime-int)
  if (verified != X509_V_OK) {
    absl::StrAppend(&why, " (", X509_verify_cert_error_string(verified), ")");
  }
  return !shaken_ || refused ? TlsFailed(why) : NotSent(why);
}

absl::StatusOr<bool> TlsChannel::Handshake() {
  if (shaken_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    shaken_ = true;
    return true;
  }
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
  absl::Status failure = Failure(result);
  // The server learns why, if there is an alert to send.
  Flush().IgnoreError();
  return failure;
}

absl::string_view TlsChannel::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return absl::string_view(reinterpret_cast<const char*>(name), size);
}

absl::StatusOr<size_t> TlsChannel::Read(char* out, size_t size) {
  // Else OpenSSL is asked only to say so.
  if (drained_ && in_begin_ == in_end_ && !eof_ && error_ == 0 &&
      SSL_has_pending(ssl_.get()) == 0) {
    return size_t{0};
  }
  ERR_clear_error();
  const int got = SSL_read(ssl_.get(), out, static_cast<int>(size));
  if (got > 0) return static_cast<size_t>(got);
  if (SSL_get_error(ssl_.get(), got) == SSL_ERROR_WANT_READ) return size_t{0};
  return Failure(got);
}

absl::Status TlsChannel::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    ERR_clear_error();
    const int taken = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (taken <= 0) return Failure(taken);
    bytes.remove_prefix(static_cast<size_t>(taken));
  }
  return absl::OkStatus();
}

absl::Status TlsChannel::Flush() {
  while (out_sent_ < out_.size()) {
    const ssize_t sent =
        ::send(fd_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return absl::OkStatus();
      broken_ = true;
      return NotSent(std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    }
    out_sent_ += static_cast<size_t>(sent);
  }
  out_.clear();
  out_sent_ = 0;
  return absl::OkStatus();
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
  static constexpr unsigned char kHttp2[] = "\x02h2\x08http/1.1";
  // 0 is success, here alone.
  if (SSL_CTX_set_alpn_protos(raw, kHttp2, sizeof(kHttp2) - 1) != 0) {
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
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(context), settings));
}

absl::StatusOr<std::unique_ptr<SSL, SslDelete>> TlsContext::MakeSsl(
    const std::string& certificate_chain_pem, const std::string& private_key_pem) const {
  ERR_clear_error();
  std::unique_ptr<SSL, SslDelete> ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return NotSent("OpenSSL gives no connection");
  SSL* const raw = ssl.get();
  const bool named =
      IsAddress(server_name_)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(raw), server_name_.c_str()) == 1
          : SSL_set1_host(raw, server_name_.c_str()) == 1 &&
                SSL_set_tlsext_host_name(raw, server_name_.c_str()) == 1;
  if (!named) return TlsFailed(LastError());
  if (certificate_chain_pem.empty()) return ssl;

  const Owned<BIO> chain = BioOf(certificate_chain_pem);
  const Owned<X509> own = NextCertificate(chain.get());
  const Owned<BIO> key_bio = BioOf(private_key_pem);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr));
  if (own == nullptr || key == nullptr || SSL_use_certificate(raw, own.get()) != 1 ||
      SSL_use_PrivateKey(raw, key.get()) != 1 || SSL_check_private_key(raw) != 1) {
    return TlsFailed(absl::StrCat("the client certificate cannot be used: ", LastError()));
  }
  while (const Owned<X509> above = NextCertificate(chain.get())) {
    SSL_add1_chain_cert(raw, above.get());
  }
  ERR_clear_error();
  return ssl;
}

}  // namespace capstan::kube
