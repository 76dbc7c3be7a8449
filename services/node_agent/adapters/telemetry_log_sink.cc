#include "services/node_agent/adapters/telemetry_log_sink.h"

#include <utility>

#include "libs/rpc/call.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

namespace capstan::node_agent {
namespace {

namespace tm = capstan::telemetry::v1;

class TelemetryLogSink final : public LogSink {
 public:
  TelemetryLogSink(const std::shared_ptr<grpc::Channel>& channel, Strand* strand,
                   const GrantBook* grants)
      : stub_(tm::StreamService::NewStub(channel)), strand_(strand), grants_(grants) {}

  void Append(const std::string& stream, std::vector<tm::Record> records,
              absl::AnyInvocable<void(absl::Status)> done) override {
    tm::AppendRecordsRequest request;
    request.set_stream(stream);
    for (tm::Record& record : records) *request.add_records() = std::move(record);
    rpc::CallOptions options{.deadline = absl::Seconds(20)};
    if (grants_ != nullptr) {
      options.metadata =
          grants_->OfJob(absl::string_view(stream).substr(0, stream.find("/streams/")));
    }
    rpc::CallUnary(
        stub_.get(), &tm::StreamService::StubInterface::async_interface::AppendRecords,
        std::move(request), options, strand_,
        [done = std::move(done)](absl::StatusOr<tm::AppendRecordsResponse> answer) mutable {
          done(answer.status());
        });
  }

 private:
  const std::unique_ptr<tm::StreamService::Stub> stub_;
  Strand* const strand_;
  const GrantBook* const grants_;
};

}  // namespace

std::unique_ptr<LogSink> MakeTelemetryLogSink(const std::shared_ptr<grpc::Channel>& channel,
                                              Strand* strand, const GrantBook* grants) {
  return std::make_unique<TelemetryLogSink>(channel, strand, grants);
}

}  // namespace capstan::node_agent
