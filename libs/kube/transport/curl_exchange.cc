#include "libs/kube/transport/curl_exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/kube/transport/curl_error.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

// On a connection of its own a call needs no more than keeps it busy while its handler comes back.
constexpr size_t kHeldBytesAlone = size_t{256} << 10;
constexpr int kUnauthorized = 401;
constexpr int kKeepaliveProbes = 3;

absl::Status Broken(absl::string_view what) {
  return status::Error(absl::StatusCode::kUnavailable, kBroken, what);
}

// Without a copy: `bytes` must live as long as the handle.
curl_blob BlobOf(const std::string& bytes) {
  curl_blob blob;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): libcurl only reads it.
  blob.data = const_cast<char*>(bytes.data());
  blob.len = bytes.size();
  blob.flags = CURL_BLOB_NOCOPY;
  return blob;
}

int Seconds(absl::Duration duration) {
  return static_cast<int>(std::max<int64_t>(1, absl::ToInt64Seconds(duration)));
}

}  // namespace

CurlExchange::CurlExchange(const CurlSetup* setup, uint64_t id, HttpRequest request,
                           std::shared_ptr<Delivery> delivery, BootTime started)
    : setup_(setup),
      id_(id),
      request_(std::move(request)),
      delivery_(std::move(delivery)),
      deadline_(request_, started) {}

CurlExchange::~CurlExchange() { FreeHandle(); }

void CurlExchange::CloseIfAlone() {
  if (easy_ != nullptr) Set(CURLOPT_FORBID_REUSE, 1L);
}

void CurlExchange::FreeHandle() {
  if (easy_ != nullptr) setup_->libcurl->easy_cleanup(easy_);
  easy_ = nullptr;
  stalled_ = false;
  if (lines_ != nullptr) setup_->libcurl->slist_free_all(lines_);
  lines_ = nullptr;
}

absl::Status CurlExchange::Prepare(Credential credential) {
  credential_ = std::move(credential);
  CAPSTAN_RETURN_IF_ERROR(CheckBearerToken(credential_.bearer_token));
  easy_ = setup_->libcurl->easy_init();
  if (easy_ == nullptr) {
    return status::Error(absl::StatusCode::kUnavailable, kNotSent, "libcurl gives no handle");
  }
  Set(CURLOPT_PRIVATE, static_cast<void*>(this));
  Set(CURLOPT_ERRORBUFFER, error_);
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_PROTOCOLS_STR, setup_->endpoint.tls ? "https" : "http");
  Set(CURLOPT_FOLLOWLOCATION, 0L);
  Set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  Set(CURLOPT_PROXY, setup_->proxy.c_str());
  Set(CURLOPT_NOPROXY, "");
  Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  // Without TLS libcurl would wait for an HTTP/2 that never comes.
  Set(CURLOPT_PIPEWAIT, setup_->endpoint.tls ? 1L : 0L);
  Set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(absl::ToInt64Milliseconds(setup_->options.connect_timeout)));
  Set(CURLOPT_OPENSOCKETFUNCTION, SocketCallback);
  Set(CURLOPT_OPENSOCKETDATA, this);
  Set(CURLOPT_HEADERFUNCTION, HeaderCallback);
  Set(CURLOPT_HEADERDATA, this);
  Set(CURLOPT_WRITEFUNCTION, BodyCallback);
  Set(CURLOPT_WRITEDATA, this);
  Set(CURLOPT_PREREQFUNCTION, PrerequisiteCallback);
  Set(CURLOPT_PREREQDATA, this);
  // Nothing else tells that a stream was refused.
  Set(CURLOPT_VERBOSE, 1L);
  Set(CURLOPT_DEBUGFUNCTION, DebugCallback);
  Set(CURLOPT_DEBUGDATA, this);
  SetTls();
  SetRequest();
  return absl::OkStatus();
}

void CurlExchange::SetTls() {
  const TransportOptions& options = setup_->options;
  Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  Set(CURLOPT_SSL_VERIFYPEER, options.insecure_skip_verify ? 0L : 1L);
  Set(CURLOPT_SSL_VERIFYHOST, options.insecure_skip_verify ? 0L : 2L);
  if (!options.ca_pem.empty()) {
    const curl_blob blob = BlobOf(options.ca_pem);
    Set(CURLOPT_CAINFO_BLOB, &blob);
    // Else the system's folder of authorities would be trusted besides.
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  if (!credential_.certificate_chain_pem.empty()) {
    // Connections with another certificate are no match for this request.
    const curl_blob chain = BlobOf(credential_.certificate_chain_pem);
    const curl_blob key = BlobOf(credential_.private_key_pem);
    Set(CURLOPT_SSLCERT_BLOB, &chain);
    Set(CURLOPT_SSLKEY_BLOB, &key);
  }
}

void CurlExchange::SetRequest() {
  const Libcurl& libcurl = *setup_->libcurl;
  url_ = absl::StrCat(setup_->base_url, request_.target);
  Set(CURLOPT_URL, url_.c_str());
  Set(CURLOPT_PATH_AS_IS, 1L);
  if (setup_->connect_to != nullptr) Set(CURLOPT_CONNECT_TO, setup_->connect_to.get());
  if (setup_->options.gzip) Set(CURLOPT_ACCEPT_ENCODING, "gzip");

  const auto add = [this, &libcurl](const std::string& line) {
    lines_ = libcurl.slist_append(lines_, line.c_str());
  };
  for (const std::string& line : setup_->lines) add(line);
  if (!FindHeader(request_.headers, "User-Agent").has_value()) {
    add(absl::StrCat("User-Agent: ", setup_->options.user_agent));
  }
  for (const HttpHeader& header : request_.headers) {
    // `;` is libcurl's sign for a header without a value, `:` for none.
    const bool empty = absl::StripAsciiWhitespace(header.value).empty();
    add(empty ? absl::StrCat(header.name, ";") : absl::StrCat(header.name, ": ", header.value));
  }
  if (!credential_.bearer_token.empty()) {
    add(absl::StrCat("Authorization: Bearer ", credential_.bearer_token));
  }

  const std::string& method = request_.method;
  if (method == "HEAD") {
    Set(CURLOPT_NOBODY, 1L);
    request_.body.clear();
  } else if (!request_.body.empty() || method == "POST" || method == "PUT" || method == "PATCH") {
    if (!FindHeader(request_.headers, "Content-Type").has_value()) add("Content-Type:");
    Set(CURLOPT_POST, 1L);
    Set(CURLOPT_POSTFIELDS, request_.body.data());
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    Set(CURLOPT_CUSTOMREQUEST, method.c_str());
  } else {
    Set(CURLOPT_HTTPGET, 1L);
    Set(CURLOPT_CUSTOMREQUEST, method.c_str());
  }
  Set(CURLOPT_HTTPHEADER, lines_);
}

absl::Status CurlExchange::EndOf(CURLcode code) const {
  if (!failure_.ok()) return failure_;
  if (code == CURLE_OK) {
    return told_ ? absl::OkStatus() : Broken("the response ended before its head");
  }
  CurlOutcome outcome;
  outcome.code = code;
  outcome.text = setup_->libcurl->easy_strerror(code);
  outcome.detail = error_;
  outcome.sent = Sent();
  outcome.answered = told_;
  return StatusOf(outcome);
}

CURLcode CurlExchange::Unstall() {
  if (!stalled_) return CURLE_OK;
  stalled_ = false;
  return setup_->libcurl->easy_pause(easy_, CURLPAUSE_CONT);
}

void CurlExchange::DropKept() {
  dropping_ = true;
  (void)Unstall();
}

size_t CurlExchange::HeldBound() const {
  const size_t bound = setup_->options.max_held_bytes;
  return multiplexed_ ? bound : std::min(bound, kHeldBytesAlone);
}

int64_t CurlExchange::RequestBytes() const {
  long bytes = 0;
  if (easy_ != nullptr) setup_->libcurl->easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &bytes);
  return bytes;
}

bool CurlExchange::TellHead() {
  told_ = true;
  long version = 0;
  setup_->libcurl->easy_getinfo(easy_, CURLINFO_HTTP_VERSION, &version);
  multiplexed_ = version == CURL_HTTP_VERSION_2_0;
  HttpHead& head = head_.head();
  if (head.status == kUnauthorized && setup_->credentials != nullptr) {
    setup_->credentials->Rejected(credential_);
  }
  const absl::optional<absl::string_view> encoding = FindHeader(head.headers, "Content-Encoding");
  if (setup_->options.gzip && encoding.has_value()) {
    // They are those of the packed bytes.
    const auto packed = [](const HttpHeader& header) {
      return absl::EqualsIgnoreCase(header.name, "Content-Encoding") ||
             absl::EqualsIgnoreCase(header.name, "Content-Length");
    };
    head.headers.erase(std::remove_if(head.headers.begin(), head.headers.end(), packed),
                       head.headers.end());
  }
  delivery_->Head(std::move(head));
  return true;
}

bool CurlExchange::TakeHeaderLine(absl::string_view line) {
  failure_ = head_.Count(line.size());
  if (!failure_.ok()) return false;
  // Trailers are for no one.
  if (told_) return true;
  line = absl::StripSuffix(absl::StripSuffix(line, "\n"), "\r");
  if (absl::StartsWith(line, "HTTP/")) {
    const size_t space = line.find(' ');
    const absl::string_view rest = space == absl::string_view::npos ? "" : line.substr(space + 1);
    head_.Begin(rest.substr(0, 3));
    return true;
  }
  if (line.empty()) {
    const absl::StatusOr<bool> whole = head_.End();
    failure_ = whole.status();
    return whole.ok() && (!*whole || TellHead());
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return true;
  head_.Add(line.substr(0, colon), absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return true;
}

size_t CurlExchange::HeaderCallback(char* data, size_t, size_t size, void* user) {
  CurlExchange& self = *static_cast<CurlExchange*>(user);
  self.deadline_.Extend(self.setup_->now);
  return self.TakeHeaderLine(absl::string_view(data, size)) ? size : 0;
}

size_t CurlExchange::BodyCallback(char* data, size_t, size_t size, void* user) {
  CurlExchange& self = *static_cast<CurlExchange*>(user);
  if (self.dropping_) return size;
  Delivery& delivery = *self.delivery_;
  self.deadline_.Extend(self.setup_->now);
  if (delivery.paused() && delivery.held() + size > self.HeldBound()) {
    self.stalled_ = true;
    self.stalled_since_ = self.setup_->now;
    return CURL_WRITEFUNC_PAUSE;
  }
  delivery.Bytes(absl::string_view(data, size));
  return size;
}

int CurlExchange::PrerequisiteCallback(void* user, char*, char*, int, int) {
  CurlExchange& self = *static_cast<CurlExchange*>(user);
  const bool reads = self.request_.method == "GET" || self.request_.method == "HEAD";
  // libcurl sends anew whatever it sent on a kept connection that died without an answer. Whether
  // the server has acted on the first is not known: what changes something is not sent twice.
  if (++self.attempts_ > 1 && !reads && self.Sent()) return CURL_PREREQFUNC_ABORT;
  return CURL_PREREQFUNC_OK;
}

int CurlExchange::DebugCallback(CURL*, curl_infotype type, char* data, size_t size, void* user) {
  CurlExchange& self = *static_cast<CurlExchange*>(user);
  // As lib/transfer.c of libcurl 7.88 says it.
  if (type == CURLINFO_TEXT &&
      absl::StartsWith(absl::string_view(data, size), "REFUSED_STREAM, retrying") &&
      self.attempts_ <= 1) {
    self.refused_bytes_ = self.RequestBytes();
    self.attempts_ = 0;
  }
  return 0;
}

curl_socket_t CurlExchange::SocketCallback(void* user, curlsocktype, curl_sockaddr* address) {
  const TransportOptions& options = static_cast<CurlExchange*>(user)->setup_->options;
  const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0 || (address->family != AF_INET && address->family != AF_INET6)) return fd;
  const auto set = [fd](int level, int option, int value) {
    // Without it a dead peer is only found later.
    (void)::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, Seconds(options.keepalive_idle));
  set(IPPROTO_TCP, TCP_KEEPINTVL, Seconds(options.keepalive_timeout / kKeepaliveProbes));
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
  return fd;
}

}  // namespace capstan::kube
