#ifndef CAPSTAN_LIBS_KUBE_EXEC_HANDLER_GATE_H_
#define CAPSTAN_LIBS_KUBE_EXEC_HANDLER_GATE_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

// Calls a handler by the rules of web_socket.h. Shared by the connection and the WebSocket.
class HandlerGate {
 public:
  // `handler` must live until OnEnd has returned or Cancel has.
  explicit HandlerGate(WebSocketHandler* handler) : handler_(handler) {}
  HandlerGate(const HandlerGate&) = delete;
  HandlerGate& operator=(const HandlerGate&) = delete;

  // Of one thread at a time. Once ended or cancelled, they do nothing.
  void Open(absl::string_view subprotocol);
  // Whether more messages are wanted.
  bool Message(absl::string_view message);
  void Sent();
  void End(WebSocketEnd end);

  // From any thread. True: the handler had wanted no more, and does now.
  bool Resume();
  // No method of the handler runs once it has returned, unless it is the handler who calls it.
  void Cancel();

 private:
  // False: the handler is not to be called.
  bool Enter();
  void Leave();

  WebSocketHandler* const handler_;
  absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // In OnMessage; and Resume was called in it.
  bool giving_ ABSL_GUARDED_BY(mutex_) = false;
  bool resumed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_HANDLER_GATE_H_
