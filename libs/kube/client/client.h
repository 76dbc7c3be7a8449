// Calls to one Kubernetes API server, without their types.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/client/rate_limiter.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/response.h"
#include "libs/kube/client/retry.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// RESOURCE_EXHAUSTED: a body of more than `max_response_bytes`.
inline constexpr char kResponseTooLarge[] = "KUBE_RESPONSE_TOO_LARGE";
// CANCELLED: the client or its strand went away under a blocking call.
inline constexpr char kClientStopped[] = "KUBE_CLIENT_STOPPED";

// The server's advice about a call that it carried out, or refused.
struct ServerWarning {
  std::string method;
  // Without the query.
  std::string path;
  std::string text;
};

struct ClientOptions {
  // Of one attempt, and of all with the waits between them.
  absl::Duration attempt_timeout = absl::Seconds(30);
  absl::Duration total_timeout = absl::Minutes(1);
  // Of a list that comes whole, mostly.
  size_t max_response_bytes = size_t{256} << 20;
  // Of a stream that is not read.
  size_t max_stream_buffer = size_t{1} << 20;
  RetryOptions retry;
  // Absent: none.
  absl::optional<RateLimit> rate_limit;
  // On the strand; empty: warnings are dropped.
  std::function<void(const ServerWarning&)> on_warning;
};

// A call that is under way, or over. Destroying it cancels: its callback is destroyed unrun.
// Belongs to the client's strand, and may be destroyed in its own callback. It may outlive the
// client.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
};

// Takes a body that comes in pieces, on the strand. May destroy its own PendingStream in any
// method.
class StreamReader {
 public:
  virtual ~StreamReader() = default;

  // Next bytes of a 2xx response, never none. False: no more are wanted until Resume. Until then
  // at most `max_stream_buffer` and what the transport has in hand wait here, and the server is
  // held up.
  virtual bool OnBytes(absl::string_view bytes) = 0;
  // Exactly once, last. OK: the body was whole.
  virtual void OnEnd(absl::Status status) = 0;
};

class PendingStream : public PendingCall {
 public:
  virtual void Resume() = 0;
};

// Failed calls are made again as RetryPolicy says; then the error is that of the last attempt: the
// transport's, of libs/kube/transport/transport_error.h, or the server's, of server_error.h, each
// with the call before it.
//
// All belongs to the strand: methods are called on it, and callbacks run on it, never inline. Only
// Await (await.h) is for other threads.
class Client {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<ApiResponse>)>;

  // The pointers must outlive the client; `random` belongs to the strand.
  Client(Transport* transport, Strand* strand, Random* random, ClientOptions options);
  // On the strand, or after it has stopped. Calls under way are cancelled: their callbacks are
  // destroyed unrun, and readers of streams told nothing.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] std::unique_ptr<PendingCall> Start(ApiRequest request, Done done);
  // One attempt. `request.timeout` bounds the whole stream; absent: it may last. `reader` must live
  // until OnEnd has returned or the stream is destroyed.
  [[nodiscard]] std::unique_ptr<PendingStream> Stream(ApiRequest request, StreamReader* reader);

  Strand* strand() const;

  class Core;

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_H_
