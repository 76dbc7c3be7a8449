#ifndef CAPSTAN_LIBS_PROCESS_TARGET_REPORTER_H_
#define CAPSTAN_LIBS_PROCESS_TARGET_REPORTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/scrape_target.grpc.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"

namespace capstan::process {

// Tells every replica of telemetry where this process' metrics are, again and again. That it cannot
// is counted, and logged once for each new reason; nothing else depends on it. On its strand only,
// destruction included, unless the strand has stopped.
class TargetReporter {
 public:
  // A channel for each replica. The pointers must outlive it.
  TargetReporter(const std::vector<std::shared_ptr<grpc::Channel>>& replicas,
                 telemetry::v1::ReportScrapeTargetRequest request, Strand* strand, Random* random,
                 const log::Logger* logger, metrics::Registry* registry);
  ~TargetReporter();
  TargetReporter(const TargetReporter&) = delete;
  TargetReporter& operator=(const TargetReporter&) = delete;

  // Reports at once, and then as telemetry says.
  void Start();

 private:
  struct Replica {
    std::unique_ptr<telemetry::v1::ScrapeTargetService::Stub> stub;
    Strand::TimerId timer = 0;
    // The last one that was logged.
    absl::Status failure;
  };

  void Report(size_t replica);
  void OnAnswer(size_t replica,
                const absl::StatusOr<telemetry::v1::ReportScrapeTargetResponse>& answer);

  const telemetry::v1::ReportScrapeTargetRequest request_;
  Strand* const strand_;
  Random* const random_;
  const log::Logger* const logger_;
  metrics::Counter taken_;
  metrics::Counter failed_;
  std::vector<Replica> replicas_;
  // Expires with this object, for answers that come later.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_TARGET_REPORTER_H_
