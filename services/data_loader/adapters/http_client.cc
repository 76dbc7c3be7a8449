#include "services/data_loader/adapters/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "curl/curl.h"
#include "libs/libcurl/libcurl.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

std::string AddressOf(const curl_sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.addr);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
  } else if (address.family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&address.addr);
    inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
  }
  return text;
}

// One request, for libcurl's callbacks.
struct Request {
  const Libcurl* libcurl = nullptr;
  const HttpOptions* options = nullptr;
  const std::atomic<bool>* stop = nullptr;
  const absl::FunctionRef<absl::StatusOr<bool>(const HttpAnswer&)>* on_headers = nullptr;
  const absl::FunctionRef<absl::Status(absl::string_view)>* body = nullptr;
  HttpAnswerReader head;
  bool headers_told = false;
  bool body_wanted = false;
  // Why we ended it; OK if libcurl did.
  absl::Status status;
  std::string refused_address;

  absl::Status TellHeaders() {
    if (headers_told) return absl::OkStatus();
    headers_told = true;
    absl::StatusOr<bool> wanted = (*on_headers)(head.answer());
    if (!wanted.ok()) return wanted.status();
    body_wanted = *wanted;
    return absl::OkStatus();
  }
};

size_t OnHeader(char* data, size_t, size_t size, void* user) {
  Request& request = *static_cast<Request*>(user);
  request.status = request.head.Take(absl::string_view(data, size));
  return request.status.ok() ? size : 0;
}

size_t OnBody(char* data, size_t, size_t size, void* user) {
  Request& request = *static_cast<Request*>(user);
  request.status = request.TellHeaders();
  if (!request.status.ok()) return 0;
  // Ends the transfer: what follows is for nobody.
  if (!request.body_wanted) return 0;
  request.status = (*request.body)(absl::string_view(data, size));
  return request.status.ok() ? size : 0;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const Request& request = *static_cast<Request*>(user);
  return *request.stop ? 1 : 0;
}

curl_socket_t OnOpenSocket(void* user, curlsocktype, curl_sockaddr* address) {
  Request& request = *static_cast<Request*>(user);
  const std::string text = AddressOf(*address);
  const auto& allowed = request.options->allowed_addresses;
  if (IsSpecialAddress(text) && std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
    request.refused_address = text;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

absl::Status TransportError(const Request& request, const HttpUrl& url, CURLcode code) {
  if (*request.stop) return absl::CancelledError("stopped");
  if (!request.refused_address.empty()) {
    return status::Error(
        absl::StatusCode::kPermissionDenied, "ADDRESS_NOT_ALLOWED",
        absl::StrCat("'", url.Shown(), "' is at ", request.refused_address,
                     ", an address of this machine or of its cloud; an operator can allow it by "
                     "data_loader.http.allowed_addresses"));
  }
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "TLS_FAILED",
          absl::StrCat("the certificate of '", url.Shown(),
                       "' can't be verified: ", request.libcurl->easy_strerror(code)));
    default:
      return status::Error(
          absl::StatusCode::kUnavailable, "HTTP_TRANSPORT",
          absl::StrCat("'", url.Shown(), "': ", request.libcurl->easy_strerror(code)));
  }
}

}  // namespace

HttpClient::HttpClient(const HttpOptions* options, const std::atomic<bool>* stop)
    : options_(options), stop_(stop) {}

HttpClient::~HttpClient() {
  absl::MutexLock lock(&mutex_);
  if (idle_.empty()) return;
  const absl::StatusOr<const Libcurl*> libcurl = LoadLibcurl();
  for (void* handle : idle_) (*libcurl)->easy_cleanup(handle);
}

absl::StatusOr<HttpAnswer> HttpClient::Get(
    const HttpUrl& url, const HttpHeaders& headers,
    absl::FunctionRef<absl::StatusOr<bool>(const HttpAnswer&)> on_headers,
    absl::FunctionRef<absl::Status(absl::string_view)> body) {
  const absl::StatusOr<const Libcurl*> loaded = LoadLibcurl();
  if (!loaded.ok()) return loaded.status();
  const Libcurl& libcurl = **loaded;
  CURL* curl = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      curl = idle_.back();
      idle_.pop_back();
    }
  }
  if (curl == nullptr) curl = libcurl.easy_init();
  if (curl == nullptr) return absl::InternalError("libcurl gives no handle");
  libcurl.easy_reset(curl);
  Request request;
  request.libcurl = &libcurl;
  request.options = options_;
  request.stop = stop_;
  request.on_headers = &on_headers;
  request.body = &body;
  curl_slist* list = nullptr;
  for (const auto& [name, value] : headers) {
    list = libcurl.slist_append(list, absl::StrCat(name, ": ", value).c_str());
  }
  const absl::Cleanup free_list = [&libcurl, &list] { libcurl.slist_free_all(list); };
  const std::string text = url.ToString();
  libcurl.easy_setopt(curl, CURLOPT_URL, text.c_str());
  libcurl.easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  libcurl.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  libcurl.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  libcurl.easy_setopt(curl, CURLOPT_PROXY, "");
  libcurl.easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  libcurl.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  libcurl.easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  libcurl.easy_setopt(curl, CURLOPT_USERAGENT, "capstan-data-loader");
  libcurl.easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  libcurl.easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  libcurl.easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options_->ca_file.empty()) {
    libcurl.easy_setopt(curl, CURLOPT_CAINFO, options_->ca_file.c_str());
    libcurl.easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  libcurl.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                      static_cast<long>(absl::ToInt64Milliseconds(options_->connect_timeout)));
  libcurl.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  libcurl.easy_setopt(
      curl, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(absl::ToInt64Seconds(options_->idle_timeout))));
  libcurl.easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  libcurl.easy_setopt(curl, CURLOPT_HEADERDATA, &request);
  libcurl.easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  libcurl.easy_setopt(curl, CURLOPT_WRITEDATA, &request);
  libcurl.easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  libcurl.easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  libcurl.easy_setopt(curl, CURLOPT_XFERINFODATA, &request);
  libcurl.easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, OnOpenSocket);
  libcurl.easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &request);
  const CURLcode code = libcurl.easy_perform(curl);
  {
    // It keeps its connections, if they are still good.
    absl::MutexLock lock(&mutex_);
    idle_.push_back(curl);
  }
  if (!request.status.ok()) return request.status;
  const bool unwanted = code == CURLE_WRITE_ERROR && request.headers_told && !request.body_wanted;
  if (code != CURLE_OK && !unwanted) return TransportError(request, url, code);
  if (*stop_) return absl::CancelledError("stopped");
  // An answer without a body.
  absl::Status told = request.TellHeaders();
  if (!told.ok()) return told;
  return std::move(request.head.answer());
}

}  // namespace capstan::data_loader
