#include "services/telemetry/api/stream_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/telemetry/api/writer_sink.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

// As it is stored: the producer behind its caller.
StreamAppend AppendBy(const auth::SpiffeId& caller, const v1::AppendRecordsRequest& request) {
  const std::string path = caller.Path();
  StreamAppend append{request.stream(), {request.records().begin(), request.records().end()}};
  for (v1::Record& record : append.records) {
    record.set_producer(absl::StrCat(path, ":", record.producer()));
  }
  return append;
}

v1::AppendRecordsResponse ResponseOf(const Appended& appended) {
  v1::AppendRecordsResponse response;
  response.set_last_offset(appended.last_offset);
  response.set_duplicates(appended.duplicates);
  return response;
}

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
        const absl::Status placed =
            access_->CheckPlacement(call.caller, {.job = JobOf(request.stream())});
        if (!placed.ok()) return finish(placed);
        std::vector<StreamAppend> appends;
        appends.push_back(AppendBy(*call.caller.id, request));
        strand_->Post([this, appends = std::move(appends), response,
                       finish = std::move(finish)]() mutable {
          streams_->Append(std::move(appends),
                           [response, finish = std::move(finish)](AppendResults results) mutable {
                             if (results.front().ok()) *response = ResponseOf(*results.front());
                             finish(results.front().status());
                           });
        });
      });
}

grpc::ServerUnaryReactor* StreamServiceHandler::AppendToStreams(
    grpc::CallbackServerContext* context, const v1::AppendToStreamsRequest* request,
    v1::AppendToStreamsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.StreamService/AppendToStreams", request, response,
      CheckAppendToStreams,
      [this](const rpc::Call& call, const v1::AppendToStreamsRequest& request,
             v1::AppendToStreamsResponse* response, rpc::Finish finish) {
        std::vector<StreamAppend> appends;
        // Where the answer to each of them goes.
        std::vector<v1::AppendToStreamsResponse::Result*> results;
        for (const v1::AppendRecordsRequest& append : request.appends()) {
          v1::AppendToStreamsResponse::Result* result = response->add_results();
          absl::Status refusal = CheckAppend(append);
          if (refusal.ok() &&
              (!call.caller.id.has_value() || !MayAppend(*call.caller.id, append.stream()))) {
            refusal = status::PermissionDenied(call.caller.method, append.stream());
          }
          if (!refusal.ok()) {
            *result->mutable_error() = rpc::ToStatusProto(refusal);
            continue;
          }
          appends.push_back(AppendBy(*call.caller.id, append));
          results.push_back(result);
        }
        strand_->Post([this, appends = std::move(appends), results = std::move(results),
                       finish = std::move(finish)]() mutable {
          // All at once, so that they are written and synced together.
          streams_->Append(
              std::move(appends), [results = std::move(results),
                                   finish = std::move(finish)](AppendResults appended) mutable {
                for (size_t i = 0; i < results.size(); ++i) {
                  if (appended[i].ok()) {
                    *results[i]->mutable_appended() = ResponseOf(*appended[i]);
                  } else {
                    *results[i]->mutable_error() = rpc::ToStatusProto(appended[i].status());
                  }
                }
                finish(absl::OkStatus());
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
