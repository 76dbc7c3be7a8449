#ifndef CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_ARCHIVE_H_
#define CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_ARCHIVE_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/archive.grpc.pb.h"

namespace capstan::scheduler {

// The archive of ended Jobs, which telemetry keeps. On the strand only, destruction included; a
// call under way then is not answered.
class TelemetryArchive {
 public:
  // `strand` must outlive it.
  TelemetryArchive(const std::shared_ptr<grpc::Channel>& telemetry, Strand* strand);
  TelemetryArchive(const TelemetryArchive&) = delete;
  TelemetryArchive& operator=(const TelemetryArchive&) = delete;

  // OK once all are on disk there. Idempotent by uid.
  void Put(const std::vector<v1::Job>& jobs, absl::AnyInvocable<void(absl::Status)> done);

 private:
  // Lives as long as a call under way.
  const std::shared_ptr<telemetry::v1::ArchiveService::Stub> stub_;
  Strand* const strand_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_ARCHIVE_H_
