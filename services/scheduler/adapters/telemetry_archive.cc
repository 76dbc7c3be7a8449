#include "services/scheduler/adapters/telemetry_archive.h"

#include <utility>

#include "absl/time/time.h"
#include "libs/rpc/call.h"

namespace capstan::scheduler {
namespace {

using telemetry::v1::ArchiveJobsRequest;
using telemetry::v1::ArchiveJobsResponse;
using telemetry::v1::ArchiveService;

constexpr absl::Duration kDeadline = absl::Seconds(30);

}  // namespace

TelemetryArchive::TelemetryArchive(const std::shared_ptr<grpc::Channel>& telemetry, Strand* strand)
    : stub_(ArchiveService::NewStub(telemetry)), strand_(strand) {}

void TelemetryArchive::Put(const std::vector<v1::Job>& jobs,
                           absl::AnyInvocable<void(absl::Status)> done) {
  ArchiveJobsRequest request;
  for (const v1::Job& job : jobs) *request.add_jobs() = job;
  rpc::CallUnary(stub_.get(), &ArchiveService::StubInterface::async_interface::ArchiveJobs, request,
                 {.deadline = kDeadline}, strand_,
                 [alive = std::weak_ptr<char>(alive_), stub = stub_,
                  done = std::move(done)](absl::StatusOr<ArchiveJobsResponse> response) mutable {
                   if (alive.lock()) done(response.status());
                 });
}

}  // namespace capstan::scheduler
