#ifndef CAPSTAN_SERVICES_TELEMETRY_API_SCRAPE_TARGET_SERVICE_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_SCRAPE_TARGET_SERVICE_H_

#include <functional>

#include "absl/status/status.h"
#include "libs/auth/access.h"
#include "libs/auth/spiffe_id.h"
#include "proto/capstan/telemetry/v1/scrape_target.grpc.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"

namespace capstan::telemetry {

// capstan.telemetry.v1.ScrapeTargetService.
class ScrapeTargetServiceHandler final : public v1::ScrapeTargetService::CallbackService {
 public:
  using Report =
      std::function<absl::Status(const auth::SpiffeId&, const v1::ReportScrapeTargetRequest&)>;

  // `access` must outlive it; `report` takes a checked report on any thread, without blocking.
  ScrapeTargetServiceHandler(auth::Access* access, Report report)
      : access_(access), report_(std::move(report)) {}

  grpc::ServerUnaryReactor* ReportScrapeTarget(grpc::CallbackServerContext* context,
                                               const v1::ReportScrapeTargetRequest* request,
                                               v1::ReportScrapeTargetResponse* response) override;

 private:
  auth::Access* const access_;
  const Report report_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_SCRAPE_TARGET_SERVICE_H_
