#include "services/telemetry/api/scrape_target_service.h"

#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/telemetry/core/scrape_targets.h"

namespace capstan::telemetry {
namespace {

constexpr int kRepeatAfterSeconds = 30;

}  // namespace

grpc::ServerUnaryReactor* ScrapeTargetServiceHandler::ReportScrapeTarget(
    grpc::CallbackServerContext* context, const v1::ReportScrapeTargetRequest* request,
    v1::ReportScrapeTargetResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.ScrapeTargetService/ReportScrapeTarget", request,
      response, CheckReport,
      [this](const rpc::Call& call, const v1::ReportScrapeTargetRequest& request,
             v1::ReportScrapeTargetResponse* response, rpc::Finish finish) {
        if (!call.caller.id.has_value()) {
          return finish(status::PermissionDenied(call.caller.method, ""));
        }
        response->mutable_repeat_after()->set_seconds(kRepeatAfterSeconds);
        finish(report_(*call.caller.id, request));
      });
}

}  // namespace capstan::telemetry
