#include "services/telemetry/api/stream_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/telemetry/api/writer_sink.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {

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
        const absl::Status placed =
            access_->CheckPlacement(call.caller, {.job = JobOf(request.stream())});
        if (!placed.ok()) return finish(placed);
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
      [this](std::shared_ptr<rpc::ServerStreamWriter<v1::ReadRecordsResponse>> writer,
             const v1::ReadRecordsRequest& request) {
        auto sink =
            std::make_unique<WriterSink<v1::ReadRecordsResponse>>(std::move(writer), strand_);
        strand_->Post(
            [this, request = v1::ReadRecordsRequest(request), sink = std::move(sink)]() mutable {
              streams_->OpenReader(std::move(request), std::move(sink));
            });
      });
}

}  // namespace capstan::telemetry
