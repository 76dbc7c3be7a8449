#include "libs/kube/transport/h2_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/transport/h2_headers.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// Frames are gathered until there is a record's worth, and records until the socket is slow.
constexpr size_t kRecordBytes = size_t{16} << 10;
constexpr size_t kMostUnsent = size_t{256} << 10;
// Read in one turn, so that one connection does not keep up others, timers and cancellations.
constexpr size_t kMostRead = size_t{1} << 20;
// Of all streams together: what may be on the way, since whatever comes is taken at once.
constexpr int32_t kConnectionWindow = 16 << 20;
constexpr int64_t kMostStreamWindow = 4 << 20;
constexpr absl::Duration kIdleLife = absl::Seconds(90);

absl::Status NotSent(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnavailable, kNotSent,
                       absl::StrCat("the API server was not reached: ", why));
}

absl::Status Broken(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnavailable, kBroken,
                       absl::StrCat("the call to the API server broke: ", why));
}

H2Connection& Self(void* user) { return *static_cast<H2Connection*>(user); }

void SetOption(int fd, int level, int option, int value) {
  // Without it the connection is slower, or a dead peer found later.
  (void)::setsockopt(fd, level, option, &value, sizeof(value));
}

const nghttp2_option* SessionOptions() {
  static nghttp2_option* const options = [] {
    nghttp2_option* made = nullptr;
    nghttp2_option_new(&made);
    // Windows are opened as handlers take what came.
    nghttp2_option_set_no_auto_window_update(made, 1);
    // They are only for priorities, of which we make no use.
    nghttp2_option_set_no_closed_streams(made, 1);
    return made;
  }();
  return options;
}

}  // namespace

H2Connection::H2Connection(const H2Setup* setup, H2ConnectionOwner* owner, uint64_t id, int epoll)
    : setup_(setup),
      owner_(owner),
      id_(id),
      epoll_(epoll),
      connect_deadline_(setup->now + setup->options.connect_timeout),
      attempt_deadline_(connect_deadline_) {}

H2Connection::~H2Connection() {
  if (session_ != nullptr) nghttp2_session_del(session_);
  if (connecting_fd_ >= 0) ::close(connecting_fd_);
}

void H2Connection::Lose(absl::Status failure) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  failure_ = std::move(failure);
}

// Connecting.

void H2Connection::Connect(std::unique_ptr<SSL, SslDelete> ssl,
                           std::vector<SocketAddress> addresses) {
  if (state_ != State::kResolving) return;
  state_ = State::kConnecting;
  ssl_ = std::move(ssl);
  addresses_ = std::move(addresses);
  failure_ = NotSent("it has no address");
  TryNextAddress();
}

void H2Connection::TryNextAddress() {
  if (connecting_fd_ >= 0) ::close(std::exchange(connecting_fd_, -1));
  while (next_address_ < addresses_.size()) {
    const auto left = static_cast<int64_t>(addresses_.size() - next_address_);
    const SocketAddress& address = addresses_[next_address_++];
    const int fd =
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      failure_ = NotSent(std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
      continue;
    }
    SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
              static_cast<int>(absl::ToInt64Milliseconds(setup_->options.keepalive_timeout)));
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
        errno != EINPROGRESS) {
      failure_ = NotSent(std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
      ::close(fd);
      continue;
    }
    connecting_fd_ = fd;
    watched_ = 0;
    Watch(EPOLLOUT);
    // An address that does not answer must leave time for the others.
    attempt_deadline_ = setup_->now + (connect_deadline_ - setup_->now) / left;
    return;
  }
  state_ = State::kClosed;
}

void H2Connection::Watch(uint32_t events) {
  if (events == watched_) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id_;
  const int fd = channel_ != nullptr ? channel_->fd() : connecting_fd_;
  if (::epoll_ctl(epoll_, watched_ == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) != 0) {
    Lose(NotSent("epoll takes no more sockets"));
  }
  watched_ = events;
}

void H2Connection::OnEvents(uint32_t events) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kConnecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(connecting_fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      failure_ = NotSent(std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
      TryNextAddress();
      return;
    }
    channel_ = std::make_unique<TlsChannel>(std::move(ssl_), std::exchange(connecting_fd_, -1));
    state_ = State::kShaking;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) channel_->SetReadable();
  if (state_ == State::kShaking) {
    Shake();
  } else if ((events & ~EPOLLOUT) != 0) {
    Pump();
  }
}

void H2Connection::Shake() {
  const absl::StatusOr<bool> shaken = channel_->Handshake();
  if (!shaken.ok()) return Lose(shaken.status());
  if (*shaken) {
    if (channel_->protocol() != "h2") {
      no_http2_ = true;
      return Lose(NotSent("it has no HTTP/2"));
    }
    StartSession();
    Pump();
  }
}

void H2Connection::StartSession() {
  state_ = State::kGreeting;
  last_read_ = setup_->now;
  idle_since_ = setup_->now;
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
  nghttp2_session_client_new2(&session_, callbacks, this, SessionOptions());
  nghttp2_session_callbacks_del(callbacks);
  // A stream's window is all that a handler can keep us from handing on, and so what is held.
  const int64_t window = std::clamp<int64_t>(static_cast<int64_t>(setup_->options.max_held_bytes),
                                             1, kMostStreamWindow);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, static_cast<uint32_t>(window)},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

// Bytes in and out.

void H2Connection::Pump() {
  more_ = false;
  char buffer[kRecordBytes];
  for (size_t taken = 0; state_ != State::kClosed;) {
    if (taken >= kMostRead) {
      more_ = true;
      return;
    }
    const absl::StatusOr<size_t> got = channel_->Read(buffer, sizeof(buffer));
    if (!got.ok()) return Lose(got.status());
    if (*got == 0) return;
    taken += *got;
    last_read_ = setup_->now;
    pinged_ = false;
    const ssize_t result =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(buffer), *got);
    if (result < 0) return Lose(NotSent(nghttp2_strerror(static_cast<int>(result))));
  }
}

void H2Connection::Flush() {
  if (channel_ == nullptr || state_ == State::kClosed) return;
  while (true) {
    bool wrote = false;
    while (session_ != nullptr && channel_->unsent() < kMostUnsent) {
      plain_.clear();
      while (plain_.size() < kRecordBytes) {
        const uint8_t* bytes = nullptr;
        const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
        if (size < 0) return Lose(NotSent(nghttp2_strerror(static_cast<int>(size))));
        if (size == 0) break;
        plain_.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
      }
      if (plain_.empty()) break;
      wrote = true;
      if (absl::Status written = channel_->Write(plain_); !written.ok()) {
        return Lose(std::move(written));
      }
    }
    if (channel_->unsent() == 0 && !wrote) break;
    if (absl::Status flushed = channel_->Flush(); !flushed.ok()) {
      // What the server has said before it went is worth more.
      channel_->SetReadable();
      if (state_ == State::kShaking) {
        Shake();
      } else {
        Pump();
      }
      return Lose(std::move(flushed));
    }
    if (channel_->unsent() > 0) break;
  }
  if (session_ != nullptr && nghttp2_session_want_read(session_) == 0 &&
      nghttp2_session_want_write(session_) == 0) {
    return Lose(NotSent("the server has closed the connection"));
  }
  Watch(EPOLLIN | (channel_->unsent() > 0 ? EPOLLOUT : 0U));
}

void H2Connection::Close() {
  if (session_ != nullptr && state_ != State::kClosed) {
    nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
    Flush();
  }
  Lose(NotSent("the connection was closed, since nothing was using it"));
}

BootTime H2Connection::Deadline() const {
  switch (state_) {
    case State::kClosed:
      return BootTime::InfiniteFuture();
    case State::kOpen: {
      const BootTime check = pinged_ ? ping_sent_ + setup_->options.keepalive_timeout
                                     : last_read_ + setup_->options.keepalive_idle;
      return streams_ == 0 ? std::min(check, idle_since_ + kIdleLife) : check;
    }
    case State::kConnecting:
      return std::min(attempt_deadline_, connect_deadline_);
    default:
      return connect_deadline_;
  }
}

void H2Connection::OnTime() {
  if (Deadline() > setup_->now) return;
  if (state_ != State::kOpen) {
    if (state_ == State::kConnecting && connect_deadline_ > setup_->now) {
      failure_ = NotSent("an address does not answer");
      TryNextAddress();
      return;
    }
    return Lose(NotSent(absl::StrCat("no connection was made within ",
                                     absl::FormatDuration(setup_->options.connect_timeout))));
  }
  if (streams_ == 0 && idle_since_ + kIdleLife <= setup_->now) return Close();
  if (pinged_) {
    return Lose(NotSent(absl::StrCat("no sign of life came within ",
                                     absl::FormatDuration(setup_->options.keepalive_timeout))));
  }
  pinged_ = true;
  ping_sent_ = setup_->now;
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

// Streams.

bool H2Connection::HasPlace() const {
  if (state_ != State::kOpen || draining_) return false;
  const uint32_t allowed =
      nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return streams_ < setup_->options.max_streams && static_cast<uint32_t>(streams_) < allowed;
}

bool H2Connection::Submit(H2Exchange& exchange) {
  const H2Headers headers(*setup_, exchange);
  nghttp2_data_provider body = {};
  body.read_callback = ReadBody;
  const int32_t stream =
      nghttp2_submit_request(session_, nullptr, headers.pairs().data(), headers.pairs().size(),
                             exchange.request().body.empty() ? nullptr : &body, &exchange);
  if (stream < 0) {
    // The numbers of streams are used up.
    draining_ = true;
    return false;
  }
  ++streams_;
  exchange.connection = this;
  exchange.stream = stream;
  return true;
}

H2Exchange* H2Connection::ExchangeOf(int32_t stream) const {
  return static_cast<H2Exchange*>(nghttp2_session_get_stream_user_data(session_, stream));
}

void H2Connection::Detach(H2Exchange& exchange) {
  const int32_t stream = exchange.stream;
  exchange.connection = nullptr;
  nghttp2_session_set_stream_user_data(session_, stream, nullptr);
  // One that is not open yet is taken back.
  if (nghttp2_session_get_stream_remote_close(session_, stream) != 1 ||
      nghttp2_session_get_stream_local_close(session_, stream) != 1) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  }
}

void H2Connection::Cancel(H2Exchange& exchange) {
  if (state_ == State::kClosed) {
    exchange.connection = nullptr;
  } else {
    Detach(exchange);
  }
}

void H2Connection::End(H2Exchange& exchange, absl::Status status) {
  Detach(exchange);
  owner_->OnEnded(exchange, std::move(status));
}

void H2Connection::OnConsumed(H2Exchange& exchange) {
  if (state_ == State::kClosed) return;
  const size_t consumed = exchange.TakeConsumed();
  if (consumed > 0) nghttp2_session_consume_stream(session_, exchange.stream, consumed);
}

int H2Connection::OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                           size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                           void* user) {
  H2Connection& self = Self(user);
  H2Exchange* const exchange = self.ExchangeOf(frame->hd.stream_id);
  if (exchange == nullptr) return 0;
  if (!exchange->TakeHeader(absl::string_view(reinterpret_cast<const char*>(name), name_size),
                            absl::string_view(reinterpret_cast<const char*>(value), value_size))) {
    self.End(*exchange, exchange->failure());
  }
  return 0;
}

int H2Connection::OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  H2Connection& self = Self(user);
  switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
      if (self.state_ == State::kGreeting && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        self.state_ = State::kOpen;
        self.opened_ = true;
      }
      return 0;
    case NGHTTP2_GOAWAY:
      self.draining_ = true;
      return 0;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
      break;
    default:
      return 0;
  }
  H2Exchange* const exchange = self.ExchangeOf(frame->hd.stream_id);
  if (exchange == nullptr) return 0;
  if (frame->hd.type == NGHTTP2_HEADERS && !exchange->EndHead()) {
    self.End(*exchange, exchange->failure());
    return 0;
  }
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  self.End(*exchange,
           exchange->told() ? absl::OkStatus() : Broken("the response ended before its head"));
  return 0;
}

int H2Connection::OnData(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* data,
                         size_t size, void* user) {
  H2Connection& self = Self(user);
  nghttp2_session_consume_connection(session, size);
  H2Exchange* const exchange = self.ExchangeOf(stream);
  if (exchange == nullptr) return 0;
  exchange->TakeBytes(absl::string_view(reinterpret_cast<const char*>(data), size));
  self.OnConsumed(*exchange);
  return 0;
}

int H2Connection::OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  H2Exchange* const exchange = Self(user).ExchangeOf(frame->hd.stream_id);
  if (exchange != nullptr) exchange->sent = true;
  return 0;
}

int H2Connection::OnStreamClose(nghttp2_session*, int32_t stream, uint32_t error, void* user) {
  H2Connection& self = Self(user);
  if (--self.streams_ == 0) self.idle_since_ = self.setup_->now;
  H2Exchange* const exchange = self.ExchangeOf(stream);
  if (exchange == nullptr) return 0;
  exchange->connection = nullptr;
  // Of the streams that a GOAWAY does not cover nghttp2 says the same.
  if (!exchange->told() && (error == NGHTTP2_REFUSED_STREAM || !exchange->sent)) {
    self.owner_->OnUntouched(*exchange);
  } else {
    self.owner_->OnEnded(*exchange, Broken(absl::StrCat("its stream was closed with ",
                                                        nghttp2_http2_strerror(error))));
  }
  return 0;
}

ssize_t H2Connection::ReadBody(nghttp2_session*, int32_t stream, uint8_t* out, size_t size,
                               uint32_t* flags, nghttp2_data_source*, void* user) {
  H2Exchange* const exchange = Self(user).ExchangeOf(stream);
  // It was cancelled, and the stream is about to be reset.
  if (exchange == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  bool last = false;
  const size_t count = exchange->TakeBody(out, size, &last);
  if (last) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(count);
}

}  // namespace capstan::kube
