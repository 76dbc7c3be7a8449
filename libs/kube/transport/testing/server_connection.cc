#include "libs/kube/transport/testing/server_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "openssl/err.h"

namespace capstan::kube {
namespace {

ServerConnection& Self(void* user) { return *static_cast<ServerConnection*>(user); }

// Bytes that are taken from nghttp2 at once; more wait there for the socket.
constexpr size_t kOut = size_t{64} << 10;

}  // namespace

ServerConnection::ServerConnection(int fd, SSL* ssl, uint32_t max_streams, ConnectionHooks hooks)
    : fd_(fd), ssl_(ssl), max_streams_(max_streams), hooks_(std::move(hooks)) {}

ServerConnection::~ServerConnection() {
  Lose();
  if (http2_ != nullptr) nghttp2_session_del(http2_);
  if (ssl_ != nullptr) SSL_free(ssl_);
  ::close(fd_);
}

void ServerConnection::Lose() {
  open_ = false;
  const auto streams = std::exchange(streams_, {});
  for (const auto& [id, stream] : streams) hooks_.on_gone(id);
}

long ServerConnection::Read(char* out, size_t size) {
  if (ssl_ == nullptr) {
    const ssize_t got = ::recv(fd_, out, size, MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : std::max<long>(got, 0);
  }
  ERR_clear_error();
  const int got = SSL_read(ssl_, out, static_cast<int>(size));
  if (got > 0) return got;
  const int error = SSL_get_error(ssl_, got);
  if (error == SSL_ERROR_WANT_WRITE) wants_out_ = true;
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? -1 : 0;
}

long ServerConnection::Write(const char* bytes, size_t size) {
  if (ssl_ == nullptr) {
    const ssize_t sent = ::send(fd_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno != EAGAIN && errno != EINTR) return 0;
    wants_out_ = true;
    return -1;
  }
  ERR_clear_error();
  const int sent = SSL_write(ssl_, bytes, static_cast<int>(size));
  if (sent > 0) return sent;
  const int error = SSL_get_error(ssl_, sent);
  if (error == SSL_ERROR_WANT_WRITE) wants_out_ = true;
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? -1 : 0;
}

void ServerConnection::Pump() {
  wants_out_ = false;
  char buffer[16384];
  while (open_) {
    const long got = Read(buffer, sizeof(buffer));
    if (got < 0) break;
    if (got == 0) {
      Lose();
      return;
    }
    Take(buffer, static_cast<size_t>(got));
  }
  if (open_) Flush();
}

void ServerConnection::Take(const char* bytes, size_t size) {
  if (!begun_) {
    begun_ = true;
    const unsigned char* protocol = nullptr;
    unsigned protocol_size = 0;
    if (ssl_ != nullptr) SSL_get0_alpn_selected(ssl_, &protocol, &protocol_size);
    if (protocol_size == 2) StartHttp2();
  }
  if (http2_ != nullptr) {
    const ssize_t taken =
        nghttp2_session_mem_recv(http2_, reinterpret_cast<const uint8_t*>(bytes), size);
    if (taken < 0) Lose();
    return;
  }
  in_.append(bytes, size);
  TakeHttp1();
}

void ServerConnection::Flush() {
  while (open_) {
    while (http2_ != nullptr && out_.size() < kOut) {
      const uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(http2_, &bytes);
      if (size <= 0) break;
      out_.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    }
    if (out_.empty()) {
      if (http2_ != nullptr && nghttp2_session_want_read(http2_) == 0 &&
          nghttp2_session_want_write(http2_) == 0) {
        Lose();
      }
      return;
    }
    const long sent = Write(out_.data() + out_sent_, out_.size() - out_sent_);
    if (sent < 0) return;
    if (sent == 0) {
      Lose();
      return;
    }
    out_sent_ += static_cast<size_t>(sent);
    if (out_sent_ == out_.size()) {
      out_.clear();
      out_sent_ = 0;
    }
  }
}

// HTTP/2.

void ServerConnection::StartHttp2() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
  nghttp2_session_server_new(&http2_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams_}};
  nghttp2_submit_settings(http2_, NGHTTP2_FLAG_NONE, settings, 1);
}

int ServerConnection::OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame,
                                     void* user) {
  const int32_t id = frame->hd.stream_id;
  Stream& stream = Self(user).streams_[id];
  stream.refused = Self(user).hooks_.refuse();
  if (stream.refused) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
  }
  return 0;
}

int ServerConnection::OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                               size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                               void* user) {
  const auto it = Self(user).streams_.find(frame->hd.stream_id);
  if (it == Self(user).streams_.end()) return 0;
  HttpRequest& request = it->second.request;
  const std::string key(reinterpret_cast<const char*>(name), name_size);
  std::string text(reinterpret_cast<const char*>(value), value_size);
  if (key == ":method") {
    request.method = text;
  } else if (key == ":path") {
    request.target = text;
  } else {
    request.headers.push_back({key == ":authority" ? "host" : key, std::move(text)});
  }
  return 0;
}

int ServerConnection::OnData(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data,
                             size_t size, void* user) {
  const auto it = Self(user).streams_.find(stream);
  if (it == Self(user).streams_.end()) return 0;
  it->second.request.body.append(reinterpret_cast<const char*>(data), size);
  return 0;
}

int ServerConnection::OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  const bool of_request = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
  if (!of_request || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  ServerConnection& self = Self(user);
  const auto it = self.streams_.find(frame->hd.stream_id);
  if (it == self.streams_.end() || it->second.refused) return 0;
  if (!self.hooks_.on_request(it->first, it->second.request)) {
    self.Lose();
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  return 0;
}

int ServerConnection::OnStreamClose(nghttp2_session*, int32_t stream, uint32_t, void* user) {
  ServerConnection& self = Self(user);
  const auto it = self.streams_.find(stream);
  if (it == self.streams_.end()) return 0;
  self.streams_.erase(it);
  self.hooks_.on_gone(stream);
  return 0;
}

ssize_t ServerConnection::ReadBody(nghttp2_session*, int32_t id, uint8_t* out, size_t size,
                                   uint32_t* flags, nghttp2_data_source*, void* user) {
  const auto it = Self(user).streams_.find(id);
  if (it == Self(user).streams_.end()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  Stream& stream = it->second;
  const size_t count = std::min(size, stream.body.size() - stream.sent);
  std::memcpy(out, stream.body.data() + stream.sent, count);
  stream.sent += count;
  if (stream.sent == stream.body.size()) {
    stream.body.clear();
    stream.sent = 0;
    if (stream.ended) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (count == 0) {
      stream.waits = true;
      return NGHTTP2_ERR_DEFERRED;
    }
  }
  return static_cast<ssize_t>(count);
}

// Responses, of both.

void ServerConnection::Head(int32_t id, int status, const std::vector<HttpHeader>& headers) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || it->second.headed) return;
  constexpr int kLowestFinal = 200;
  const bool final_head = status >= kLowestFinal;
  it->second.headed = final_head;
  if (http2_ == nullptr) {
    absl::StrAppend(&out_, "HTTP/1.1 ", status, " Status\r\n");
    promised_ = 0;
    chunked_ = final_head;
    for (const HttpHeader& header : headers) {
      absl::StrAppend(&out_, header.name, ": ", header.value, "\r\n");
      if (absl::EqualsIgnoreCase(header.name, "content-length")) {
        chunked_ = !absl::SimpleAtoi(header.value, &promised_);
      }
    }
    absl::StrAppend(&out_, chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    Flush();
    return;
  }
  std::vector<HttpHeader> lower = {{":status", absl::StrCat(status)}};
  for (const HttpHeader& header : headers) {
    lower.push_back({absl::AsciiStrToLower(header.name), header.value});
  }
  std::vector<nghttp2_nv> pairs;
  for (HttpHeader& header : lower) {
    pairs.push_back({reinterpret_cast<uint8_t*>(header.name.data()),
                     reinterpret_cast<uint8_t*>(header.value.data()), header.name.size(),
                     header.value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  if (final_head) {
    nghttp2_data_provider provider = {};
    provider.read_callback = ReadBody;
    nghttp2_submit_response(http2_, id, pairs.data(), pairs.size(), &provider);
  } else {
    nghttp2_submit_headers(http2_, NGHTTP2_FLAG_NONE, id, nullptr, pairs.data(), pairs.size(),
                           nullptr);
  }
  Flush();
}

void ServerConnection::Bytes(int32_t id, const std::string& bytes) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || it->second.ended) return;
  if (http2_ == nullptr) {
    promised_ -= static_cast<int64_t>(bytes.size());
    if (chunked_) absl::StrAppend(&out_, absl::Hex(bytes.size()), "\r\n");
    absl::StrAppend(&out_, bytes, chunked_ ? "\r\n" : "");
  } else {
    it->second.body += bytes;
    if (std::exchange(it->second.waits, false)) nghttp2_session_resume_data(http2_, id);
  }
  Flush();
}

void ServerConnection::End(int32_t id) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || it->second.ended) return;
  it->second.ended = true;
  if (http2_ != nullptr) {
    if (std::exchange(it->second.waits, false)) nghttp2_session_resume_data(http2_, id);
    Flush();
    return;
  }
  if (chunked_) out_ += "0\r\n\r\n";
  Flush();
  streams_.erase(id);
  hooks_.on_gone(id);
  if (!chunked_ && promised_ > 0) Lose();
}

void ServerConnection::Break(int32_t id) {
  if (streams_.find(id) == streams_.end()) return;
  if (http2_ == nullptr) {
    Lose();
    return;
  }
  nghttp2_submit_rst_stream(http2_, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
  Flush();
}

void ServerConnection::GoAway() {
  if (http2_ == nullptr) return;
  nghttp2_submit_goaway(http2_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(http2_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  Flush();
}

// HTTP/1.1: one request at a time.
void ServerConnection::TakeHttp1() {
  const size_t end = in_.find("\r\n\r\n");
  if (end == std::string::npos) return;
  HttpRequest request;
  const std::vector<std::string> lines = absl::StrSplit(in_.substr(0, end), "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  if (first.size() != 3) return Lose();
  request.method = first[0];
  request.target = first[1];
  size_t length = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string::npos) return Lose();
    request.headers.push_back(
        {absl::AsciiStrToLower(lines[i].substr(0, colon)),
         std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)))});
    if (request.headers.back().name == "content-length" &&
        !absl::SimpleAtoi(request.headers.back().value, &length)) {
      return Lose();
    }
  }
  const size_t body = end + 4;
  if (in_.size() < body + length) return;
  request.body = in_.substr(body, length);
  in_.erase(0, body + length);
  const int32_t id = ++request_;
  streams_[id].request = request;
  if (!hooks_.on_request(id, std::move(request))) Lose();
}

}  // namespace capstan::kube
