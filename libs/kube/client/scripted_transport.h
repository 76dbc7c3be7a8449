// A server in a test, as a function.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_SCRIPTED_TRANSPORT_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_SCRIPTED_TRANSPORT_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

struct ScriptedReply {
  int status = 200;
  std::string body = {};
  std::vector<HttpHeader> headers = {};
  // How it ends. No head comes if `status` is 0.
  absl::Status end = {};
};

// Answers calls in the order of their start, when stepped. For one thread.
class ScriptedTransport final : public Transport {
 public:
  using Server = std::function<ScriptedReply(const HttpRequest&)>;

  explicit ScriptedTransport(Server server = nullptr) : server_(std::move(server)) {}

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    requests.push_back(request);
    open_.push_back({std::move(request), handler});
    return std::make_unique<ScriptedCall>(this, handler);
  }

  // Answers the first open call. False: there is none.
  bool Step() {
    if (open_.empty()) return false;
    Answer(server_(open_.front().request));
    return true;
  }
  void Answer(const ScriptedReply& reply) {
    Open& open = open_.front();
    open.ended = true;
    ResponseHandler* const handler = open.handler;
    if (reply.status != 0) handler->OnHead({reply.status, reply.headers});
    // In pieces, as bytes come.
    for (size_t at = 0; at < reply.body.size(); at += 7) {
      handler->OnBytes(absl::string_view(reply.body).substr(at, 7));
    }
    handler->OnEnd(reply.end);
    open_.pop_front();
  }

  // The first open call's, to be driven by hand.
  ResponseHandler* handler() { return open_.front().handler; }
  size_t open() const { return open_.size(); }

  std::vector<HttpRequest> requests;
  int resumed = 0;

 private:
  struct Open {
    HttpRequest request;
    ResponseHandler* handler;
    bool ended = false;
  };
  struct ScriptedCall final : Call {
    ScriptedCall(ScriptedTransport* transport, ResponseHandler* handler)
        : transport(transport), handler(handler) {}
    ~ScriptedCall() override {
      transport->open_.remove_if(
          [this](const Open& open) { return open.handler == handler && !open.ended; });
    }
    void Resume() override { ++transport->resumed; }

    ScriptedTransport* const transport;
    ResponseHandler* const handler;
  };

  Server server_;
  std::list<Open> open_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_SCRIPTED_TRANSPORT_H_
