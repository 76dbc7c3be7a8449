// HTTP as the Kubernetes client needs it: many calls at once to one API server, whose responses
// come in pieces and may never end.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace capstan::kube {

struct HttpHeader {
  std::string name;
  std::string value;

  friend bool operator==(const HttpHeader&, const HttpHeader&) = default;
};

struct HttpRequest {
  std::string method = "GET";
  // Path and query, `/api/v1/pods?limit=500`, escaped already; begins with `/`.
  std::string target;
  // Without Host, Authorization and Content-Length, which the transport sets.
  std::vector<HttpHeader> headers;
  std::string body;
  // From Start to the last byte, with what the transport does before it sends (a credential that it
  // fetches, a place on a connection). InfiniteDuration for watches.
  absl::Duration timeout = absl::Seconds(30);
  // Without a byte of the response, from Start. Time in which the handler wants no more counts not.
  absl::Duration idle_timeout = absl::InfiniteDuration();
};

struct HttpHead {
  // 200 to 599: informational ones (1xx) are not told.
  int status = 0;
  std::vector<HttpHeader> headers;
};

// The value of the first header of that name, in any case.
absl::optional<absl::string_view> FindHeader(const std::vector<HttpHeader>& headers,
                                             absl::string_view name);

// Takes one response. Called from a thread of the transport, never two methods of one handler at
// once; must not block. Any method may destroy its own call, after which no other is called, and
// may start and destroy others.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;

  // At most once, before OnBytes. Any status: what is no 2xx has its body too.
  virtual void OnHead(HttpHead head) = 0;
  // The next bytes of the body, which are the handler's until it returns; never none. False: they
  // are taken, but no more are wanted until Call::Resume.
  virtual bool OnBytes(absl::string_view bytes) = 0;
  // Exactly once, last. OK: the response is whole. Else, with a reason (status::Reason) of those in
  // libs/kube/transport/transport_error.h, how it ended: DEADLINE_EXCEEDED, UNAVAILABLE,
  // CANCELLED (the transport is being destroyed), UNAUTHENTICATED (no credential could be had),
  // FAILED_PRECONDITION (TLS).
  virtual void OnEnd(absl::Status status) = 0;
};

// A call under way, or one that has ended.
class Call {
 public:
  // Cancels. No method of the handler runs once it has returned; it waits for one that does, unless
  // it is that one who destroys the call. So the caller must hold no lock that the handler takes.
  virtual ~Call() = default;

  // The handler, which has returned false from OnBytes, wants bytes again. From any thread, also
  // from the handler; without effect if it had not, or the call has ended. In OnBytes it cancels
  // out with the false that is then returned.
  virtual void Resume() = 0;
};

// Thread-safe. Destroying it ends the calls under way: each handler's OnEnd has run (CANCELLED)
// when the destructor returns. Calls may be destroyed afterwards; none may be started meanwhile. It
// must not be destroyed in a handler.
class Transport {
 public:
  virtual ~Transport() = default;

  // Never blocks, and calls no method of the handler inline. The handler must live until OnEnd has
  // returned or the call is destroyed.
  virtual std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_H_
