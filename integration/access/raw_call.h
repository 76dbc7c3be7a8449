#ifndef CAPSTAN_INTEGRATION_ACCESS_RAW_CALL_H_
#define CAPSTAN_INTEGRATION_ACCESS_RAW_CALL_H_

#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/status.h"

namespace capstan::integration {

// A connection of its own, shared with no other channel. Connects on first use, and then once.
std::shared_ptr<grpc::Channel> DialAlone(const std::string& address,
                                         std::shared_ptr<grpc::ChannelCredentials> credentials);
// Credentials that show nothing and look at nothing: what a stranger on the network has.
std::shared_ptr<grpc::ChannelCredentials> StrangersCredentials();

struct CallMetadata {
  // 32 hex digits, under which the server's access log names the call; empty for none.
  std::string trace_id{};
  // Serialised PlacementGrant that the caller shows; empty for none.
  std::string grant{};
  // Token that the caller shows as `authorization: Bearer`; empty for none.
  std::string bearer{};
};

// Calls a method of any kind with one request and ends it at the first answer, which counts as OK,
// or with the status that the server gave. A stream that is open and silent for `patience` counts
// as DEADLINE_EXCEEDED.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                     const google::protobuf::Message& request, absl::Duration patience,
                     const CallMetadata& metadata = {});
// The same, and parses the first answer into `answer`, which is left alone if there is none.
grpc::Status RawAnswer(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                       const google::protobuf::Message& request, absl::Duration patience,
                       google::protobuf::Message* answer, const CallMetadata& metadata = {});

// A call of any kind that stays open until somebody ends it. Every step blocks, for as long as
// `patience` is not over since it was made. One thread.
class OpenCall {
 public:
  OpenCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
           absl::Duration patience);
  // Cancels it.
  ~OpenCall();
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  // False if the call is over. `last`: the client says that nothing more comes from it.
  bool Send(const google::protobuf::Message& message, bool last);
  // Waits for a message. False if none comes any more.
  bool Receive();
  void Cancel();
  // Waits until it is over, passing over what still comes, and says how it ended.
  grpc::Status AwaitEnd();

 private:
  bool Step();

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool begun_ = false;
  bool over_ = false;
};

// Full names of what the server says it serves; empty if it does not say.
std::set<std::string> ServedBy(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_ACCESS_RAW_CALL_H_
