#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_FOLLOW_STREAM_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_FOLLOW_STREAM_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/rpc/backoff.h"
#include "libs/rpc/client_stream.h"
#include "tools/capstan/cli/command_loop.h"

namespace capstan::cli {

// A platform that was silent for so long is not being restarted: it is down.
inline constexpr absl::Duration kGiveUp = absl::Minutes(1);

// All on the loop's strand.
template <typename Request, typename T>
struct FollowCallbacks {
  // Gets each message, and may change the request with which a lost stream is opened again. False
  // ends the following, without on_over.
  std::function<bool(const T&, Request*)> on_message;
  // The stream was refused, or ended for good, or could not be had back within kGiveUp.
  std::function<void(const absl::Status&)> on_over;
  // Whether a stream that was refused should be opened again with the request as changed here. May
  // be empty.
  std::function<bool(const absl::Status&, Request*)> mend;
  // Whether a stream that the server ended with OK is to be opened again.
  bool reopen_ended = true;
};

// One server-streaming call, opened again with back-off each time it is lost.
template <typename Stub, typename Async, typename Request, typename T>
class StreamFollower final
    : public CommandLoop::Stream,
      public std::enable_shared_from_this<StreamFollower<Stub, Async, Request, T>> {
 public:
  using Method = void (Async::*)(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<T>*);

  StreamFollower(CommandLoop* loop, std::shared_ptr<Stub> stub, Method method, Request request,
                 FollowCallbacks<Request, T> callbacks)
      : loop_(loop),
        stub_(std::move(stub)),
        method_(method),
        request_(std::move(request)),
        callbacks_(std::move(callbacks)),
        heard_(loop->clock()->Read().boot),
        retry_(loop->strand(), loop->random(), [this] { Open(); },
               {.initial = absl::Milliseconds(100), .max = absl::Seconds(2)}) {}

  void Start() { retry_.Start(); }

  void Stop() override {
    stopped_ = true;
    retry_.Stop();
    if (reader_ != nullptr) reader_->Cancel();
  }

 private:
  void Open() {
    auto self = this->shared_from_this();
    rpc::SessionCallbacks<T> callbacks;
    callbacks.on_message = [self](const T& message) { self->OnMessage(message); };
    callbacks.on_closed = [self](const absl::Status& status) { self->OnClosed(status); };
    loop_->CallOpened();
    reader_ =
        rpc::OpenStream(stub_.get(), method_, request_, loop_->strand(), std::move(callbacks));
  }

  void OnMessage(const T& message) {
    if (stopped_) return;
    heard_ = loop_->clock()->Read().boot;
    retry_.Succeeded();
    if (!callbacks_.on_message(message, &request_)) Stop();
  }

  void OnClosed(const absl::Status& status) {
    reader_.reset();
    loop_->CallClosed();
    if (stopped_) return;
    const bool again = absl::IsUnavailable(status) || absl::IsAborted(status) ||
                       (status.ok() && callbacks_.reopen_ended) ||
                       (!status.ok() && callbacks_.mend && callbacks_.mend(status, &request_));
    if (again && loop_->clock()->Read().boot - heard_ < kGiveUp) return retry_.Lost();
    stopped_ = true;
    callbacks_.on_over(again && status.ok() ? absl::UnavailableError("the stream ended") : status);
  }

  CommandLoop* const loop_;
  const std::shared_ptr<Stub> stub_;
  const Method method_;
  Request request_;
  const FollowCallbacks<Request, T> callbacks_;
  BootTime heard_;
  rpc::Reconnect retry_;
  std::shared_ptr<rpc::StreamReader<Request, T>> reader_;
  bool stopped_ = false;
};

// Begins to follow; the loop keeps the stream until it is done. On the loop's strand.
template <typename Stub, typename Async, typename Request, typename T>
void FollowStream(CommandLoop* loop, std::shared_ptr<Stub> stub,
                  void (Async::*method)(grpc::ClientContext*, const Request*,
                                        grpc::ClientReadReactor<T>*),
                  Request request, FollowCallbacks<Request, T> callbacks) {
  if (loop->done()) return;
  auto follower = std::make_shared<StreamFollower<Stub, Async, Request, T>>(
      loop, std::move(stub), method, std::move(request), std::move(callbacks));
  loop->Keep(follower);
  follower->Start();
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_FOLLOW_STREAM_H_
