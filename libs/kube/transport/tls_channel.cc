#include "libs/kube/transport/tls_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/transport/tls_alert.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "openssl/bio.h"
#include "openssl/err.h"

namespace capstan::kube {
namespace {

// Taken from the socket at once: several records, so that a burst costs one system call.
constexpr size_t kInBytes = size_t{64} << 10;

absl::Status NotSent(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnavailable, kNotSent,
                       absl::StrCat("the API server was not reached: ", why));
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
  std::string why = TakeOpensslError();
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

}  // namespace capstan::kube
