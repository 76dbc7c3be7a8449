#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SCRIPTED_EXCHANGE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SCRIPTED_EXCHANGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// One request as it came to the other end, and the response that a test makes up for it. Methods
// are thread-safe and, but for AwaitGone, never block; after End, Break or the client's going they
// do nothing.
class ScriptedExchange {
 public:
  virtual ~ScriptedExchange() = default;

  // With all headers as they came, their names in lower case, and the whole body.
  virtual const HttpRequest& request() const = 0;
  virtual void Head(int status, std::vector<HttpHeader> headers) = 0;
  virtual void Bytes(std::string bytes) = 0;
  virtual void End() = 0;
  // The call breaks, as if the server had failed at this one.
  virtual void Break() = 0;
  // Whether the client has cancelled the call within `patience`, in real time.
  virtual bool AwaitGone(absl::Duration patience) = 0;

  void Reply(int status, std::string body) {
    Head(status, {});
    if (!body.empty()) Bytes(std::move(body));
    End();
  }
};

// Called once for each request; must not block.
using Script = std::function<void(std::shared_ptr<ScriptedExchange>)>;

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SCRIPTED_EXCHANGE_H_
