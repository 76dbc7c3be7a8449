// One request and its response as a transfer of libcurl.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_EXCHANGE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "curl/curl.h"
#include "libs/kube/transport/call_deadline.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/response_head.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/libcurl/libcurl.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// What all exchanges of a transport have in common. Not copied: libcurl keeps addresses in it.
struct CurlSetup {
  TransportOptions options;
  const Libcurl* libcurl = nullptr;
  CredentialSource* credentials = nullptr;
  Endpoint endpoint;
  // Scheme and authority as they are verified, and the prefix.
  std::string base_url;
  // Lines of the head that each request has.
  std::vector<std::string> lines;
  // `::host:port`, if the URL does not name where to connect; else null.
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> connect_to{nullptr, nullptr};
  // As libcurl takes it: empty for none.
  std::string proxy;
  // When the loop has last looked; of its thread.
  BootTime now;
};

// Of the transport's thread, except that the Delivery is shared.
class CurlExchange {
 public:
  CurlExchange(const CurlSetup* setup, uint64_t id, HttpRequest request,
               std::shared_ptr<Delivery> delivery, BootTime started);
  // The handle must be in no multi handle any more.
  ~CurlExchange();
  CurlExchange(const CurlExchange&) = delete;
  CurlExchange& operator=(const CurlExchange&) = delete;

  // Makes the handle. UNAUTHENTICATED (kNoCredential) if the credential is none for a header.
  absl::Status Prepare(Credential credential);
  // How it has ended, as libcurl says by `code`.
  absl::Status EndOf(CURLcode code) const;
  // Before an unfinished transfer is taken from libcurl. 7.88 keeps the RST_STREAM for itself until
  // the connection has something else to send or to read; on one that is left idle, the server
  // would go on with the response. So that is closed.
  void CloseIfAlone();
  void FreeHandle();

  // As of CallDeadline.
  BootTime Deadline() const { return deadline_.When(*delivery_); }
  absl::Status TimedOut() const { return deadline_.Error(setup_->now); }
  // The handler wants bytes again.
  void Resumed() { deadline_.Extend(setup_->now); }

  // libcurl was told to stop the connection, or the stream's part of it.
  bool stalled() const { return stalled_; }
  BootTime stalled_since() const { return stalled_since_; }
  // Whether other calls stop with it.
  bool multiplexed() const { return multiplexed_; }
  // Bytes that may be held before it stalls.
  size_t HeldBound() const;
  // Lets libcurl go on. What it has kept is taken inline.
  CURLcode Unstall();
  // Before an unfinished transfer is taken from libcurl: has it give up the bytes it has kept for a
  // stalled one. 7.88 forgets to free them (multi_done in lib/multi.c) while another transfer uses
  // the connection. Where that connection breaks first, they cannot be had any more.
  void DropKept();

  // libcurl has said that the transfer has ended.
  bool ended() const { return ended_; }
  void set_ended() { ended_ = true; }
  uint64_t id() const { return id_; }
  CURL* easy() const { return easy_; }
  Delivery& delivery() const { return *delivery_; }
  const Credential& credential() const { return credential_; }

 private:
  static size_t HeaderCallback(char* data, size_t, size_t size, void* user);
  static size_t BodyCallback(char* data, size_t, size_t size, void* user);
  static int PrerequisiteCallback(void* user, char*, char*, int, int);
  static int DebugCallback(CURL*, curl_infotype type, char* data, size_t size, void* user);
  static curl_socket_t SocketCallback(void* user, curlsocktype, curl_sockaddr* address);

  bool TakeHeaderLine(absl::string_view line);
  bool TellHead();
  // How much of the request libcurl has given to connections.
  int64_t RequestBytes() const;
  bool Sent() const { return RequestBytes() > refused_bytes_; }
  void SetTls();
  void SetRequest();
  template <typename T>
  void Set(CURLoption option, T value) {
    setup_->libcurl->easy_setopt(easy_, option, value);
  }

  const CurlSetup* const setup_;
  const uint64_t id_;
  HttpRequest request_;
  const std::shared_ptr<Delivery> delivery_;
  CallDeadline deadline_;
  Credential credential_;
  CURL* easy_ = nullptr;
  curl_slist* lines_ = nullptr;
  std::string url_;
  char error_[CURL_ERROR_SIZE] = "";

  // Why we ended it; OK if libcurl did.
  absl::Status failure_;
  ResponseHead head_;
  bool told_ = false;
  bool ended_ = false;
  bool multiplexed_ = false;
  bool stalled_ = false;
  BootTime stalled_since_;
  // What comes is for no one any more.
  bool dropping_ = false;
  int attempts_ = 0;
  // Of RequestBytes, what went to streams that the server has refused.
  int64_t refused_bytes_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_EXCHANGE_H_
