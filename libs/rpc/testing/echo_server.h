#ifndef CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_
#define CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_

#include <atomic>
#include <memory>
#include <utility>

#include "libs/auth/access.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/session_server.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/unary.h"
#include "libs/rpc/upload.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"

namespace capstan::rpc::testing {

// Serves EchoService by the helpers under test.
class EchoServer final : public EchoService::CallbackService {
 public:
  using ChatSession = ServerSession<EchoMessage, EchoMessage>;
  using EchoUpload = rpc::Upload<EchoMessage, EchoMessage>;

  EchoServer(auth::Access* access, Strand* strand) : access_(access), strand_(strand) {}

  // Handlers that got past the access check.
  int handled() const { return handled_; }
  // Writes of Count that were refused for the queue's bound.
  int full() const { return full_; }
  // Chats that ended.
  int closed() const { return closed_; }

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoMessage* request,
                                 EchoMessage* response) override {
    const auto validate = [](const EchoMessage& message) {
      status::FieldErrors errors;
      if (message.text() == "bad") errors.Add("text", "must not be bad");
      return errors.ToStatus();
    };
    return HandleUnary(
        context, access_, "/capstan.rpc.testing.EchoService/Echo", request, response, validate,
        [this](rpc::Call, const EchoMessage& request, EchoMessage* response, Finish finish) {
          ++handled_;
          strand_->Post([&request, response, finish = std::move(finish)]() mutable {
            *response = request;
            finish(absl::OkStatus());
          });
        });
  }

  // Writes `count` messages of `text`, or until the queue is full.
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
          writer->Finish(absl::OkStatus());
        });
  }

  grpc::ServerReadReactor<EchoMessage>* Collect(grpc::CallbackServerContext* context,
                                                EchoMessage* response) override {
    return HandleUpload<EchoMessage>(
        context, access_, "/capstan.rpc.testing.EchoService/Collect", response, strand_,
        [this](std::shared_ptr<EchoUpload> upload) {
          ++handled_;
          auto total = std::make_shared<EchoMessage>();
          UploadCallbacks<EchoMessage> callbacks;
          callbacks.on_message = [total](EchoMessage) { total->set_count(total->count() + 1); };
          callbacks.on_end = [total, upload] { upload->Finish(*total); };
          callbacks.on_closed = [this](const absl::Status&) { ++closed_; };
          return callbacks;
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
          return callbacks;
        });
  }

 private:
  auth::Access* const access_;
  Strand* const strand_;
  std::atomic<int> handled_ = 0;
  std::atomic<int> full_ = 0;
  std::atomic<int> closed_ = 0;
};

}  // namespace capstan::rpc::testing

#endif  // CAPSTAN_LIBS_RPC_TESTING_ECHO_SERVER_H_
