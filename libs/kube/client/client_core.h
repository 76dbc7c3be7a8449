// What the calls of a client share. Not for others.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_CORE_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_CORE_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/rate_limiter.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/retry.h"
#include "libs/kube/transport/transport.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// A call that the client ends when it goes. For the strand alone.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  // Ends it without a word. Idempotent.
  virtual void Cancel() = 0;
};

class Client::Core {
 public:
  Core(Transport* transport, Strand* strand, Random* random, ClientOptions options)
      : transport(transport),
        strand(strand),
        options(std::move(options)),
        retry(this->options.retry, random) {
    if (this->options.rate_limit.has_value()) limiter.emplace(*this->options.rate_limit);
  }

  HttpRequest MakeHttp(const ApiRequest& request, absl::Duration timeout) const;
  void Warn(const ApiRequest& request, const std::vector<HttpHeader>& headers) const;

  Transport* const transport;
  Strand* const strand;
  const ClientOptions options;
  RetryPolicy retry;
  absl::optional<RateLimiter> limiter;
  std::set<OpenCall*> open;
};

// `GET /api/v1/pods`, before the error of that call.
absl::Status OfCall(const ApiRequest& request, const absl::Status& status);

std::unique_ptr<PendingCall> StartUnary(std::shared_ptr<Client::Core> core, ApiRequest request,
                                        Client::Done done);
std::unique_ptr<PendingStream> StartStream(std::shared_ptr<Client::Core> core, ApiRequest request,
                                           StreamReader* reader);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_CLIENT_CORE_H_
