#include "libs/kube/exec/web_socket_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/error.hpp"
#include "boost/asio/ssl/error.hpp"
#include "boost/asio/ssl/stream_base.hpp"
#include "libs/kube/client/server_error.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;

constexpr size_t kWriteBuffer = size_t{48} << 10;
constexpr int kHttp11 = 11;
constexpr int kRedirect = 300;
constexpr int kUnauthorizedStatus = 401;
constexpr int kKeepaliveProbes = 3;
constexpr absl::Duration kCloseWithin = absl::Seconds(1);

// None is longer than a year, which leaves the clock's range alone.
std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

absl::Status Broken(absl::string_view what) {
  return status::Error(absl::StatusCode::kUnavailable, kBroken,
                       absl::StrCat("the connection to the API server broke: ", what));
}

absl::Status TimedOut(absl::string_view what, absl::Duration within) {
  return status::Error(absl::StatusCode::kDeadlineExceeded, kTimedOut,
                       absl::StrCat(what, " within ", absl::FormatDuration(within)));
}

absl::string_view ToAbsl(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

WebSocketConnection::WebSocketConnection(asio::io_context* context, std::shared_ptr<LoopGate> loop,
                                         const DialerSetup* setup, WebSocketRequest request,
                                         std::shared_ptr<HandlerGate> handler)
    : loop_(std::move(loop)),
      setup_(setup),
      request_(std::move(request)),
      handler_(std::move(handler)),
      resolver_(*context),
      stream_(*context),
      deadline_(*context),
      opening_(*context),
      timer_(*context) {}

void WebSocketConnection::Begin(absl::Status refusal) {
  if (ended_) return;
  if (!refusal.ok()) return End(std::move(refusal));
  deadline_.expires_after(Nanoseconds(request_.timeout));
  deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->End(TimedOut("the stream has not ended", self->request_.timeout));
  });
  opening_.expires_after(Nanoseconds(request_.open_timeout));
  opening_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || self->open_) return;
    self->End(TimedOut("the API server has not answered", self->request_.open_timeout));
  });
  if (setup_->credentials == nullptr) return Dial(Credential());
  setup_->credentials->Get(
      [loop = loop_, weak = weak_from_this()](absl::StatusOr<Credential> credential) {
        loop->Post([weak, credential = std::move(credential)]() mutable {
          const auto self = weak.lock();
          if (self != nullptr) self->Dial(std::move(credential));
        });
      });
}

void WebSocketConnection::Dial(absl::StatusOr<Credential> credential) {
  if (ended_) return;
  if (!credential.ok()) {
    return End(status::Error(absl::StatusCode::kUnauthenticated, kNoCredential,
                             credential.status().message()));
  }
  absl::Status good = CheckBearerToken(credential->bearer_token);
  if (!good.ok()) return End(std::move(good));
  credential_ = *std::move(credential);
  const absl::Duration connect = setup_->options.server.connect_timeout;
  timer_.expires_after(Nanoseconds(connect));
  timer_.async_wait([self = shared_from_this(), connect](ErrorCode error) {
    if (error || self->connected_) return;
    self->End(status::Error(
        absl::StatusCode::kUnavailable, kNotSent,
        absl::StrCat("the API server was not reached within ", absl::FormatDuration(connect))));
  });
  const auto& proxy = setup_->proxy;
  resolver_.async_resolve(
      proxy.has_value() ? proxy->host : setup_->endpoint.host,
      proxy.has_value() ? proxy->port : absl::StrCat(setup_->endpoint.port),
      [self = shared_from_this()](ErrorCode error, const tcp::resolver::results_type& addresses) {
        if (self->ended_) return;
        if (error) return self->NotSent("its name was not found", error);
        self->Connect(addresses);
      });
}

void WebSocketConnection::Connect(const tcp::resolver::results_type& addresses) {
  stream_.next_layer().next_layer().async_connect(
      addresses, [self = shared_from_this()](ErrorCode error, const tcp::endpoint&) {
        if (self->ended_) return;
        if (error) return self->NotSent("no connection", error);
        self->SetSocketOptions();
        if (self->setup_->proxy.has_value()) return self->AskProxy();
        self->ShakeHands();
      });
}

void WebSocketConnection::SetSocketOptions() {
  const TransportOptions& options = setup_->options.server;
  const int fd = stream_.next_layer().next_layer().socket().native_handle();
  const auto seconds = [](absl::Duration duration) {
    return static_cast<int>(std::max<int64_t>(1, absl::ToInt64Seconds(duration)));
  };
  const auto set = [fd](int level, int option, int value) {
    // Without it a dead peer is only found later.
    (void)::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds(options.keepalive_idle));
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds(options.keepalive_timeout / kKeepaliveProbes));
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  // No TCP_USER_TIMEOUT: it would also end a connection whose peer takes nothing for so long, as
  // when a command does not read its stdin.
}

void WebSocketConnection::AskProxy() {
  const std::string authority = setup_->endpoint.Authority();
  proxy_request_ = {http::verb::connect, authority, kHttp11};
  proxy_request_.set(http::field::host, authority);
  if (!setup_->proxy->user.empty()) {
    proxy_request_.set(http::field::proxy_authorization,
                       absl::StrCat("Basic ", absl::Base64Escape(setup_->proxy->user)));
  }
  // What follows the head of a 200 is the tunnel's.
  proxy_answer_.skip(true);
  beast::tcp_stream& tcp = stream_.next_layer().next_layer();
  http::async_write(tcp, proxy_request_, [self = shared_from_this()](ErrorCode error, size_t) {
    if (self->ended_) return;
    if (error) return self->NotSent("the proxy hung up", error);
    http::async_read_header(self->stream_.next_layer().next_layer(), self->buffer_,
                            self->proxy_answer_,
                            [self](ErrorCode read, size_t) { self->OnProxyAnswer(read); });
  });
}

void WebSocketConnection::OnProxyAnswer(ErrorCode error) {
  if (ended_) return;
  if (error) return NotSent("the proxy hung up", error);
  const unsigned result = proxy_answer_.get().result_int();
  // Who speaks before it is asked is no API server.
  if (http::to_status_class(result) != http::status_class::successful || buffer_.size() > 0) {
    return End(status::Error(absl::StatusCode::kUnavailable, kNotSent,
                             absl::StrCat("the proxy made no tunnel to the API server: ", result),
                             {{"proxy_status", absl::StrCat(result)}}));
  }
  ShakeHands();
}

void WebSocketConnection::ShakeHands() {
  if (setup_->tls == nullptr) return Upgrade();
  ServerStream& stream = stream_.next_layer();
  stream.StartTls(setup_->tls->get());
  absl::Status good =
      setup_->tls->SetUp(stream.tls()->native_handle(), credential_.certificate_chain_pem,
                         credential_.private_key_pem);
  if (!good.ok()) return End(std::move(good));
  stream.tls()->async_handshake(asio::ssl::stream_base::client,
                                [self = shared_from_this()](ErrorCode error) {
                                  if (self->ended_) return;
                                  if (!error) return self->Upgrade();
                                  self->EndOfTls(error);
                                });
}

void WebSocketConnection::EndOfTls(const ErrorCode& error) {
  // Else the connection broke while hands were shaken, as when a server ends.
  if (error.category() != asio::error::get_ssl_category()) return NotSent("no TLS", error);
  std::string why = error.message();
  ServerStream::Tls* const tls = stream_.next_layer().tls();
  const int64_t verified = SSL_get_verify_result(tls->native_handle());
  if (verified != X509_V_OK) absl::StrAppend(&why, ": ", X509_verify_cert_error_string(verified));
  End(TlsFailed(why));
}

void WebSocketConnection::Upgrade() {
  connected_ = true;
  timer_.cancel();
  stream_.set_option(websocket::stream_base::decorator(
      [self = weak_from_this()](websocket::request_type& request) {
        const auto connection = self.lock();
        if (connection == nullptr) return;
        request.set(http::field::sec_websocket_protocol,
                    absl::StrJoin(connection->request_.subprotocols, ", "));
        for (const HttpHeader& header : connection->setup_->headers) {
          request.insert(header.name, header.value);
        }
        const std::string& token = connection->credential_.bearer_token;
        if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
      }));
  stream_.read_message_max(setup_->options.max_message_bytes);
  stream_.binary(true);
  // Else each message would go out in pieces of 4 KiB, and as a record of TLS each.
  stream_.auto_fragment(false);
  stream_.write_buffer_bytes(kWriteBuffer);
  stream_.control_callback(
      [this](websocket::frame_type frame, beast::string_view) { OnControl(frame); });
  stream_.async_handshake(
      answer_, setup_->endpoint.Authority(), absl::StrCat(setup_->endpoint.prefix, request_.target),
      [self = shared_from_this()](ErrorCode error) { self->OnUpgraded(error); });
}

void WebSocketConnection::OnUpgraded(ErrorCode error) {
  if (ended_) return;
  if (error == websocket::error::upgrade_declined) {
    const int result = static_cast<int>(answer_.result_int());
    if (result == kUnauthorizedStatus && setup_->credentials != nullptr) {
      setup_->credentials->Rejected(credential_);
    }
    if (result < kRedirect) {
      return End(status::Error(absl::StatusCode::kUnimplemented, kUnsupported,
                               absl::StrCat("the API server, or a proxy before it, answered ",
                                            result, " and knows no WebSockets there")));
    }
    std::vector<HttpHeader> headers;
    for (const auto& field : answer_) {
      headers.push_back(
          {std::string(ToAbsl(field.name_string())), std::string(ToAbsl(field.value()))});
    }
    return End(ServerError(result, headers, answer_.body()));
  }
  // TLS 1.3 tells only now that it does not take our certificate.
  if (error.category() == asio::error::get_ssl_category()) return EndOfTls(error);
  if (error) return End(Broken(error.message()));
  open_ = true;
  opening_.cancel();
  Heard();
  const std::string chosen(ToAbsl(answer_[http::field::sec_websocket_protocol]));
  answer_ = {};
  handler_->Open(chosen);
  Tick();
  Read();
}

void WebSocketConnection::Read() {
  if (ended_ || reading_) return;
  reading_ = true;
  stream_.async_read(buffer_,
                     [self = shared_from_this()](ErrorCode error, size_t) { self->OnRead(error); });
}

void WebSocketConnection::OnRead(ErrorCode error) {
  reading_ = false;
  // A close that is under way reads on by itself.
  if (ended_) return error ? Abandon() : void();
  if (!error) {
    Heard();
    const auto bytes = buffer_.cdata();
    const bool more =
        handler_->Message(absl::string_view(static_cast<const char*>(bytes.data()), bytes.size()));
    buffer_.consume(buffer_.size());
    if (more) Read();
    return;
  }
  if (error == websocket::error::closed) {
    FinishInOrder();
    return Abandon();
  }
  if (error == websocket::error::message_too_big || error == websocket::error::buffer_overflow) {
    return End(
        status::Error(absl::StatusCode::kResourceExhausted, kMessageTooLarge,
                      absl::StrCat("the API server sent a message of more than ",
                                   setup_->options.max_message_bytes, " bytes"),
                      {{"max_message_bytes", absl::StrCat(setup_->options.max_message_bytes)}}));
  }
  const ErrorCode& write_error = stream_.next_layer().write_error();
  End(Broken((write_error ? write_error : error).message()));
}

void WebSocketConnection::OnControl(websocket::frame_type frame) {
  Heard();
  if (frame != websocket::frame_type::close) return;
  // Beast reads on until the server has hung up, which may take a while.
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->FinishInOrder(); });
}

void WebSocketConnection::Send(std::string message) {
  if (ended_ || !open_) return;
  sent_ = true;
  outgoing_ = std::move(message);
  stream_.async_write(asio::buffer(outgoing_),
                      [self = shared_from_this()](ErrorCode error, size_t) {
                        // Else reading tells what has become of the connection.
                        const bool whole = !error && !self->stream_.next_layer().write_error();
                        if (!self->ended_ && whole) self->handler_->Sent();
                      });
}

void WebSocketConnection::Resume() {
  if (!open_) return;
  Heard();
  Read();
}

void WebSocketConnection::Heard() {
  heard_ = true;
  sent_ = false;
}

void WebSocketConnection::Tick() {
  if (ended_) return;
  const TransportOptions& options = setup_->options.server;
  absl::Duration next = options.keepalive_idle;
  // Who does not read hears no answer.
  if (std::exchange(heard_, false) || !reading_) {
    waited_ = false;
  } else if (!waited_) {
    waited_ = true;
    next = options.keepalive_timeout;
    // The last one may still wait behind a message that the server does not take.
    if (!std::exchange(pinging_, true)) {
      stream_.async_ping({}, [self = shared_from_this()](ErrorCode) { self->pinging_ = false; });
    }
  } else if (!sent_) {
    return End(Broken("it answers no pings"));
  }
  timer_.expires_after(Nanoseconds(next));
  timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->Tick();
  });
}

void WebSocketConnection::NotSent(absl::string_view what, const ErrorCode& error) {
  End(status::Error(absl::StatusCode::kUnavailable, kNotSent,
                    absl::StrCat("the API server was not reached: ", what, ": ", error.message())));
}

void WebSocketConnection::FinishInOrder() {
  const websocket::close_reason& reason = stream_.reason();
  Finish({absl::OkStatus(), reason.code, std::string(ToAbsl(reason.reason))});
}

void WebSocketConnection::End(absl::Status status) { Finish({std::move(status), 0, ""}); }

void WebSocketConnection::Finish(WebSocketEnd end) {
  if (ended_) return;
  Linger(/*orderly=*/end.status.ok());
  handler_->End(std::move(end));
}

void WebSocketConnection::Leave() {
  if (!ended_) Linger(/*orderly=*/true);
}

void WebSocketConnection::Linger(bool orderly) {
  ended_ = true;
  deadline_.cancel();
  opening_.cancel();
  timer_.cancel();
  resolver_.cancel();
  if (!open_ || !orderly || stream_.next_layer().write_error()) return Abandon();
  timer_.expires_after(Nanoseconds(kCloseWithin));
  timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->Abandon();
  });
  if (!stream_.is_open()) return;
  stream_.async_close(websocket::close_code::normal,
                      [self = shared_from_this()](ErrorCode) { self->Abandon(); });
}

void WebSocketConnection::Abandon() {
  timer_.cancel();
  stream_.next_layer().next_layer().close();
}

void WebSocketConnection::Stop() {
  if (ended_) return;
  ended_ = true;
  handler_->End({status::Error(absl::StatusCode::kCancelled, kStopped,
                               "the dialer is being destroyed; the server may have acted"),
                 0, ""});
}

}  // namespace capstan::kube
