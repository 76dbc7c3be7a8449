#ifndef CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_
#define CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "libs/auth/access.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/session_server.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/unary.h"
#include "libs/rpc/upload.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/strand/strand.h"

namespace capstan::rpc::testing {

// Serves EchoService by the helpers under test.
class EchoServer final : public EchoService::CallbackService {
 public:
  using ChatSession = ServerSession<EchoMessage, EchoMessage>;

  EchoServer(auth::Access* access, Strand* strand) : access_(access), strand_(strand) {}

  // Handlers that got past the access check.
  int handled() const { return handled_; }
  // Writes of Count that were refused for the queue's bound.
  int full() const { return full_; }
  // Chats and uploads that are over.
  int closed() const { return closed_; }
  // Uploads that were received to their end.
  int ended() const { return ended_; }
  // Before any chat: each reads its next message only once ReadOn says so.
  void set_paced() { paced_ = true; }
  // Chats that wait for that.
  int held() const { return held_; }
  void ReadOn() {
    strand_->Post([this] {
      held_ = 0;
      for (auto& read_on : std::exchange(read_on_, {})) read_on();
    });
  }
  // Before any upload.
  void set_upload_limits(UploadLimits limits) { upload_limits_ = limits; }

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoMessage* request,
                                 EchoMessage* response) override {
    return HandleUnary(
        context, access_, "/capstan.rpc.testing.EchoService/Echo", request, response, CheckText,
        [this](rpc::Call, const EchoMessage& request, EchoMessage* response, Finish finish) {
          ++handled_;
          strand_->Post([&request, response, finish = std::move(finish)]() mutable {
            *response = request;
            finish(absl::OkStatus());
          });
        });
  }

  // Writes `count` messages of `text`, or until the queue is full. With the text `open` the stream
  // stays open.
  grpc::ServerWriteReactor<EchoMessage>* Count(grpc::CallbackServerContext* context,
                                               const EchoMessage* request) override {
    return HandleServerStream<EchoMessage>(
        context, access_, "/capstan.rpc.testing.EchoService/Count", request, NothingToValidate(),
        [this](std::shared_ptr<ServerStreamWriter<EchoMessage>> writer,
               const EchoMessage& request) {
          ++handled_;
          for (int64_t i = 0; i < request.count(); ++i) {
            EchoMessage message = request;
            message.set_count(i);
            if (const absl::Status status = writer->Write(std::move(message)); !status.ok()) {
              if (absl::IsResourceExhausted(status)) ++full_;
              writer->Finish(absl::AbortedError("too slow"));
              return;
            }
          }
          if (request.text() != "open") return writer->Finish(absl::OkStatus());
          absl::MutexLock lock(&mutex_);
          open_.push_back(std::move(writer));
        });
  }

  // Counts the messages after the first; refuses `bad`. After a first one of `silent` it never
  // answers.
  grpc::ServerReadReactor<EchoMessage>* Collect(grpc::CallbackServerContext* context,
                                                EchoMessage* response) override {
    class Counter final : public UploadReceiver<EchoMessage, EchoMessage> {
     public:
      Counter(EchoServer* server, bool silent) : server_(server), silent_(silent) {}
      ~Counter() override { ++server_->closed_; }
      absl::Status Take(const EchoMessage& message) override {
        total_.set_count(total_.count() + 1);
        return CheckText(message);
      }
      void End(Answer answer) override {
        ++server_->ended_;
        if (!silent_) answer(total_);
      }

     private:
      EchoServer* const server_;
      const bool silent_;
      EchoMessage total_;
    };
    using Receiver = UploadReceiver<EchoMessage, EchoMessage>;
    return HandleUpload<EchoMessage>(
        context, access_, "/capstan.rpc.testing.EchoService/Collect", response, strand_,
        upload_limits_,
        [this](const auth::Caller&,
               const EchoMessage& first) -> absl::StatusOr<std::unique_ptr<Receiver>> {
          ++handled_;
          CAPSTAN_RETURN_IF_ERROR(CheckText(first));
          return std::make_unique<Counter>(this, first.text() == "silent");
        });
  }

  // Echoes; at the text `stop` it ends the session with ABORTED.
  grpc::ServerBidiReactor<EchoMessage, EchoMessage>* Chat(
      grpc::CallbackServerContext* context) override {
    return AcceptSession<EchoMessage, EchoMessage>(
        context, access_, "/capstan.rpc.testing.EchoService/Chat", strand_,
        [this](std::shared_ptr<ChatSession> session) {
          ++handled_;
          SessionCallbacks<EchoMessage> callbacks;
          callbacks.on_message = [session](EchoMessage message) {
            if (message.text() == "stop") {
              session->Finish(absl::AbortedError("stopped"));
            } else {
              session->Send(std::move(message)).IgnoreError();
            }
          };
          callbacks.on_closed = [this](const absl::Status&) { ++closed_; };
          if (!paced_) return callbacks;
          callbacks.pace = [this](absl::AnyInvocable<void()> read_on) {
            read_on_.push_back(std::move(read_on));
            ++held_;
          };
          return callbacks;
        });
  }

 private:
  static absl::Status CheckText(const EchoMessage& message) {
    status::FieldErrors errors;
    if (message.text() == "bad") errors.Add("text", "must not be bad");
    return errors.ToStatus();
  }

  auth::Access* const access_;
  Strand* const strand_;
  std::atomic<int> handled_ = 0;
  std::atomic<int> full_ = 0;
  std::atomic<int> closed_ = 0;
  std::atomic<int> ended_ = 0;
  bool paced_ = false;
  std::atomic<int> held_ = 0;
  std::vector<absl::AnyInvocable<void()>> read_on_;  // on the strand
  UploadLimits upload_limits_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<ServerStreamWriter<EchoMessage>>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::rpc::testing

#endif  // CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_
