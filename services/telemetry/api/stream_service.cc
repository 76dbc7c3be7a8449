#include "services/telemetry/api/stream_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/ports/record_sink.h"

namespace capstan::telemetry {
namespace {

using Writer = rpc::ServerStreamWriter<v1::ReadRecordsResponse>;

class WriterSink final : public RecordSink {
 public:
  WriterSink(std::shared_ptr<Writer> writer, Strand* strand)
      : writer_(std::move(writer)), strand_(strand) {}

  absl::Status Write(const v1::ReadRecordsResponse& response) override {
    return writer_->Write(response);
  }
  void NotifyDrained(Strand::Task task) override {
    writer_->NotifyDrained(strand_, std::move(task));
  }
  void NotifyClosed(Strand::Task task) override { writer_->NotifyClosed(strand_, std::move(task)); }
  void Finish(const absl::Status& status) override { writer_->Finish(status); }

 private:
  const std::shared_ptr<Writer> writer_;
  Strand* const strand_;
};

}  // namespace

grpc::ServerUnaryReactor* StreamServiceHandler::AppendRecords(
    grpc::CallbackServerContext* context, const v1::AppendRecordsRequest* request,
    v1::AppendRecordsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.StreamService/AppendRecords", request, response,
      CheckAppend,
      [this](const rpc::Call& call, const v1::AppendRecordsRequest& request,
             v1::AppendRecordsResponse* response, rpc::Finish finish) {
        if (!call.caller.id.has_value() || !MayAppend(*call.caller.id, request.stream())) {
          return finish(status::PermissionDenied(call.caller.method, request.stream()));
        }
        const std::string caller = call.caller.id->Path();
        std::vector<v1::Record> records(request.records().begin(), request.records().end());
        for (v1::Record& record : records) {
          record.set_producer(absl::StrCat(caller, ":", record.producer()));
        }
        strand_->Post([this, stream = request.stream(), records = std::move(records), response,
                       finish = std::move(finish)]() mutable {
          streams_->Append(
              std::move(stream), std::move(records),
              [response, finish = std::move(finish)](absl::StatusOr<Appended> result) mutable {
                if (result.ok()) {
                  response->set_last_offset(result->last_offset);
                  response->set_duplicates(result->duplicates);
                }
                finish(result.status());
              });
        });
      });
}

grpc::ServerWriteReactor<v1::ReadRecordsResponse>* StreamServiceHandler::ReadRecords(
    grpc::CallbackServerContext* context, const v1::ReadRecordsRequest* request) {
  return rpc::HandleServerStream<v1::ReadRecordsResponse>(
      context, access_, "/capstan.telemetry.v1.StreamService/ReadRecords", request, CheckRead,
      [this](std::shared_ptr<Writer> writer, const v1::ReadRecordsRequest& request) {
        auto sink = std::make_unique<WriterSink>(writer, strand_);
        strand_->Post(rpc::OrElse(
            [this, request = v1::ReadRecordsRequest(request), sink = std::move(sink)]() mutable {
              streams_->OpenReader(std::move(request), std::move(sink));
            },
            [writer] { writer->Finish(absl::UnavailableError("telemetry is stopping")); }));
      });
}

}  // namespace capstan::telemetry
