#ifndef CAPSTAN_SERVICES_TELEMETRY_API_ARCHIVE_SERVICE_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_ARCHIVE_SERVICE_H_

#include <string>

#include "libs/auth/access.h"
#include "libs/resource/page.h"
#include "proto/capstan/telemetry/v1/archive.grpc.pb.h"
#include "services/telemetry/ports/job_archive.h"

namespace capstan::telemetry {

// capstan.telemetry.v1.ArchiveService over the archive.
class ArchiveServiceHandler final : public v1::ArchiveService::CallbackService {
 public:
  // All must outlive it.
  ArchiveServiceHandler(auth::Access* access, JobArchive* archive,
                        const std::string& page_token_key)
      : access_(access), archive_(archive), tokens_(page_token_key) {}

  grpc::ServerUnaryReactor* ArchiveJobs(grpc::CallbackServerContext* context,
                                        const v1::ArchiveJobsRequest* request,
                                        v1::ArchiveJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetArchivedJob(grpc::CallbackServerContext* context,
                                           const v1::GetArchivedJobRequest* request,
                                           v1::ArchivedJob* response) override;
  grpc::ServerUnaryReactor* ListArchivedJobs(grpc::CallbackServerContext* context,
                                             const v1::ListArchivedJobsRequest* request,
                                             v1::ListArchivedJobsResponse* response) override;

 private:
  auth::Access* const access_;
  JobArchive* const archive_;
  const resource::PageTokens tokens_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_ARCHIVE_SERVICE_H_
