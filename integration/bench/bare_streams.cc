#include "integration/bench/bare_streams.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/server_callback.h"
#include "integration/access/raw_call.h"
#include "integration/bench/bench.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::scheduler::v1;

// Writes one message over and over.
class Writer final : public grpc::ServerWriteReactor<pb::WatchJobsResponse> {
 public:
  Writer(const pb::WatchJobsResponse* message, int count) : message_(message), left_(count) {
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) left_ = 0;
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (left_-- > 0) {
      StartWrite(message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  const pb::WatchJobsResponse* const message_;
  int left_;
};

class Service final : public pb::JobService::CallbackService {
 public:
  Service(const pb::WatchJobsResponse* message, int count) : message_(message), count_(count) {}
  grpc::ServerWriteReactor<pb::WatchJobsResponse>* WatchJobs(grpc::CallbackServerContext*,
                                                             const pb::WatchJobsRequest*) override {
    return new Writer(message_, count_);
  }

 private:
  const pb::WatchJobsResponse* const message_;
  const int count_;
};

class Reader final : public grpc::ClientReadReactor<pb::WatchJobsResponse> {
 public:
  Reader(absl::BlockingCounter* open, const std::shared_ptr<grpc::Channel>& channel)
      : open_(open), stub_(pb::JobService::NewStub(channel)) {
    context_.set_wait_for_ready(true);
    stub_->async()->WatchJobs(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  int64_t messages() const { return messages_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++messages_;
    response_.Clear();
    StartRead(&response_);
  }
  void OnDone(const grpc::Status&) override { open_->DecrementCount(); }

 private:
  absl::BlockingCounter* const open_;
  const std::unique_ptr<pb::JobService::Stub> stub_;
  grpc::ClientContext context_;
  const pb::WatchJobsRequest request_;
  pb::WatchJobsResponse response_;
  int64_t messages_ = 0;
};

}  // namespace

absl::StatusOr<double> BareMessagesPerSecond(const Clock* clock, const BareStreams& shape,
                                             const pb::WatchJobsResponse& message) {
  const TemporaryFolder folder;
  const rpc::TestAuthority authority;
  const auto server_identity = authority.MakeIdentity("/svc/scheduler", folder.path() + "/server");
  const auto person = authority.MakeIdentity("/person/1000", folder.path() + "/person");
  Service service(&message, shape.messages);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", rpc::MutualTlsServerCredentials(server_identity, clock),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return absl::UnavailableError("gRPC does not listen");
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < shape.connections; ++i) {
    channels.push_back(
        integration::DialAlone(absl::StrCat("127.0.0.1:", port),
                               rpc::MutualTlsChannelCredentials(person, clock, "/svc/scheduler")));
  }
  const auto run = [&](int streams) {
    absl::BlockingCounter open(streams);
    std::vector<std::unique_ptr<Reader>> readers;
    for (int i = 0; i < streams; ++i) {
      const auto at = static_cast<size_t>(i) % channels.size();
      readers.push_back(std::make_unique<Reader>(&open, channels[at]));
    }
    open.Wait();
    int64_t messages = 0;
    for (const auto& reader : readers) messages += reader->messages();
    return messages;
  };
  // Connects.
  run(shape.connections);
  const Stopwatch watch(clock);
  const int64_t messages = run(shape.streams);
  const double seconds_taken = absl::ToDoubleSeconds(watch.Elapsed());
  server->Shutdown();
  if (messages != int64_t{shape.streams} * shape.messages) {
    return absl::DataLossError(absl::StrCat(messages, " messages have come"));
  }
  return static_cast<double>(messages) / seconds_taken;
}

}  // namespace capstan::bench
