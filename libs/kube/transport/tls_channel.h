// TLS to an API server over a socket that never blocks.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CHANNEL_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/tls_context.h"
#include "openssl/ssl.h"

namespace capstan::kube {

// One end of one connection, for one thread. Errors have kTlsFailed if certificates, ours or the
// server's, or the protocol stand in the way, else kNotSent: whoever has sent something by it knows
// better.
class TlsChannel {
 public:
  // Takes `ssl` and `fd`, which is connected.
  TlsChannel(std::unique_ptr<SSL, SslDelete> ssl, int fd);
  // Closes the socket, with the farewell of TLS if hands were shaken.
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  int fd() const { return fd_; }

  // The socket has something to read, or its end.
  void SetReadable() { drained_ = false; }
  // True: hands are shaken. False: later; flush what there is to be said. Error: never.
  absl::StatusOr<bool> Handshake();
  // `h2`, or whatever else the server has chosen; empty: nothing.
  absl::string_view protocol() const;
  // How much was read; 0: the socket has no more at the moment.
  absl::StatusOr<size_t> Read(char* out, size_t size);
  // Takes all bytes; the owner bounds it by unsent().
  absl::Status Write(absl::string_view bytes);
  // Sends what the socket takes. After an error there may still be something to read.
  absl::Status Flush();
  size_t unsent() const { return out_.size() - out_sent_; }

 private:
  friend struct TlsChannelBio;

  absl::Status Failure(int result);

  const std::unique_ptr<SSL, SslDelete> ssl_;
  const int fd_;
  bool shaken_ = false;
  // Of the socket: the last read took all there was; it has ended; errno of its failure; nothing
  // can be sent any more.
  bool drained_ = false;
  bool eof_ = false;
  int error_ = 0;
  bool broken_ = false;
  // Bytes of the socket that OpenSSL has yet to take, and those that it wants sent.
  std::string in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  std::string out_;
  size_t out_sent_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TLS_CHANNEL_H_
