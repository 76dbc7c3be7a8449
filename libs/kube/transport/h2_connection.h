// One HTTP/2 connection to an API server: nghttp2 speaks the protocol, this the socket.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_CONNECTION_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/kube/transport/h2_exchange.h"
#include "libs/kube/transport/resolver.h"
#include "libs/kube/transport/tls_channel.h"
#include "libs/time/clock.h"
#include "nghttp2/nghttp2.h"

namespace capstan::kube {

// Told within the methods of a connection, which must outlive the call.
class H2ConnectionOwner {
 public:
  virtual ~H2ConnectionOwner() = default;
  // The exchange has left the connection. It may be destroyed.
  virtual void OnEnded(H2Exchange& exchange, absl::Status status) = 0;
  // It has left, and the server has not looked at it.
  virtual void OnUntouched(H2Exchange& exchange) = 0;
};

// Of the transport's thread. Once closed, its exchanges are those whose `connection` it is.
class H2Connection {
 public:
  // Events of `epoll` that have `id` are for OnEvents.
  H2Connection(const H2Setup* setup, H2ConnectionOwner* owner, uint64_t id, int epoll);
  ~H2Connection();
  H2Connection(const H2Connection&) = delete;
  H2Connection& operator=(const H2Connection&) = delete;

  uint64_t id() const { return id_; }

  // Tries one address after the other and shakes hands.
  void Connect(std::unique_ptr<SSL, SslDelete> ssl, std::vector<SocketAddress> addresses);
  // It will never be.
  void Lose(absl::Status failure);
  void OnEvents(uint32_t events);
  // There is more to read than one turn takes.
  bool more() const { return more_; }
  void ReadMore() { Pump(); }
  // Sends what was submitted since.
  void Flush();
  // When OnTime wants to be called.
  BootTime Deadline() const;
  void OnTime();
  // Says farewell, as far as that goes at once.
  void Close();

  // The server has greeted us: by then it has taken our certificate, too.
  bool open() const { return state_ == State::kOpen; }
  bool closed() const { return state_ == State::kClosed; }
  bool opened() const { return opened_; }
  // It goes on for the exchanges that it has.
  bool draining() const { return draining_; }
  // Why it has closed, with a reason of transport_error.h as if nothing had been sent.
  const absl::Status& failure() const { return failure_; }
  // It has closed since the server has no HTTP/2.
  bool no_http2() const { return no_http2_; }

  // Whether Submit may be called.
  bool HasPlace() const;
  // False: not after all; the connection is draining.
  bool Submit(H2Exchange& exchange);
  // Takes the exchange away, of which no more is told.
  void Cancel(H2Exchange& exchange);
  // The handler has got some of what was held.
  void OnConsumed(H2Exchange& exchange);

 private:
  enum class State { kResolving, kConnecting, kShaking, kGreeting, kOpen, kClosed };

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int OnData(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t size,
                    void* user);
  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int OnStreamClose(nghttp2_session*, int32_t stream, uint32_t error, void* user);
  static ssize_t ReadBody(nghttp2_session*, int32_t stream, uint8_t* out, size_t size,
                          uint32_t* flags, nghttp2_data_source*, void* user);

  void TryNextAddress();
  void Shake();
  void StartSession();
  void Pump();
  void Watch(uint32_t events);
  H2Exchange* ExchangeOf(int32_t stream) const;
  // Takes the exchange off its stream, which is reset if it has not ended.
  void Detach(H2Exchange& exchange);
  void End(H2Exchange& exchange, absl::Status status);

  const H2Setup* const setup_;
  H2ConnectionOwner* const owner_;
  const uint64_t id_;
  const int epoll_;
  State state_ = State::kResolving;
  bool opened_ = false;
  bool draining_ = false;
  bool no_http2_ = false;
  bool more_ = false;
  absl::Status failure_;

  // Until hands are shaken.
  const BootTime connect_deadline_;
  BootTime attempt_deadline_;
  std::unique_ptr<SSL, SslDelete> ssl_;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  int connecting_fd_ = -1;

  std::unique_ptr<TlsChannel> channel_;
  nghttp2_session* session_ = nullptr;
  uint32_t watched_ = 0;
  // Streams that nghttp2 has not closed.
  int streams_ = 0;
  BootTime idle_since_;
  BootTime last_read_;
  // Asked whether the server is still there; since when.
  bool pinged_ = false;
  BootTime ping_sent_;
  // What goes into one record.
  std::string plain_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_CONNECTION_H_
