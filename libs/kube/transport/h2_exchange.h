// One request and its response on a stream of HTTP/2.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_EXCHANGE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/call_deadline.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/response_head.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/time/clock.h"

namespace capstan::kube {

class H2Connection;

// What all exchanges and connections of a transport have in common.
struct H2Setup {
  TransportOptions options;
  CredentialSource* credentials = nullptr;
  Endpoint endpoint;
  // `:authority` of each request.
  std::string authority;
  // That each request has, their names in lower case.
  std::vector<HttpHeader> headers;
  // When the loop has last looked; of its thread.
  BootTime now;
};

// Of the transport's thread, except that the Delivery is shared.
class H2Exchange {
 public:
  H2Exchange(const H2Setup* setup, uint64_t id, HttpRequest request,
             std::shared_ptr<Delivery> delivery, BootTime started);
  H2Exchange(const H2Exchange&) = delete;
  H2Exchange& operator=(const H2Exchange&) = delete;

  uint64_t id() const { return id_; }
  const HttpRequest& request() const { return request_; }
  Delivery& delivery() const { return *delivery_; }
  const Credential& credential() const { return credential_; }
  // UNAUTHENTICATED (kNoCredential) if it is none for a header.
  absl::Status SetCredential(Credential credential);

  // As of CallDeadline.
  BootTime Deadline() const { return deadline_.When(*delivery_); }
  absl::Status TimedOut() const { return deadline_.Error(setup_->now); }
  // The handler wants bytes again.
  void Resumed() { deadline_.Extend(setup_->now); }

  // Body bytes that have yet to be sent, at most `size`, copied to `out`; and whether those were
  // the last.
  size_t TakeBody(uint8_t* out, size_t size, bool* last);

  // Of the response. False: the call has failed by failure().
  bool TakeHeader(absl::string_view name, absl::string_view value);
  bool EndHead();
  void TakeBytes(absl::string_view bytes);
  // How many of the bytes taken the handler has got since this was last asked.
  size_t TakeConsumed();
  bool told() const { return told_; }
  const absl::Status& failure() const { return failure_; }

  // What was said of the request so far is forgotten, since the server has not looked at it. False:
  // that has happened too often.
  bool StartOver();
  // As another transport would have to start it now.
  HttpRequest HandOver();
  const std::shared_ptr<Delivery>& shared_delivery() const { return delivery_; }

  // Where it is carried out, if it is; whether something of it has gone out there.
  H2Connection* connection = nullptr;
  int32_t stream = 0;
  bool sent = false;

 private:
  const H2Setup* const setup_;
  const uint64_t id_;
  HttpRequest request_;
  const std::shared_ptr<Delivery> delivery_;
  CallDeadline deadline_;
  Credential credential_;
  size_t body_sent_ = 0;
  int attempts_ = 1;

  absl::Status failure_;
  ResponseHead head_;
  bool told_ = false;
  // Bytes that came and that the stream's window was not yet opened for again.
  size_t taken_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_EXCHANGE_H_
