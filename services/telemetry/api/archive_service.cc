#include "services/telemetry/api/archive_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "services/telemetry/core/archive_query.h"

namespace capstan::telemetry {
namespace {

// `<nanoseconds of create_time> <uid>`.
std::string Render(const JobArchive::Position& position) {
  return absl::StrCat(absl::ToUnixNanos(position.create_time), " ", position.uid);
}

JobArchive::Position ParsePosition(const std::string& text) {
  JobArchive::Position position;
  const size_t space = text.find(' ');
  int64_t nanoseconds = 0;
  if (space == std::string::npos || !absl::SimpleAtoi(text.substr(0, space), &nanoseconds)) {
    return {};
  }
  position.create_time = absl::FromUnixNanos(nanoseconds);
  position.uid = text.substr(space + 1);
  return position;
}

}  // namespace

grpc::ServerUnaryReactor* ArchiveServiceHandler::ArchiveJobs(grpc::CallbackServerContext* context,
                                                             const v1::ArchiveJobsRequest* request,
                                                             v1::ArchiveJobsResponse* response) {
  return rpc::HandleUnary(context, access_, "/capstan.telemetry.v1.ArchiveService/ArchiveJobs",
                          request, response, CheckArchive,
                          [this](const rpc::Call&, const v1::ArchiveJobsRequest& request,
                                 v1::ArchiveJobsResponse*, rpc::Finish finish) {
                            archive_->Put({request.jobs().begin(), request.jobs().end()},
                                          std::move(finish));
                          });
}

grpc::ServerUnaryReactor* ArchiveServiceHandler::GetArchivedJob(
    grpc::CallbackServerContext* context, const v1::GetArchivedJobRequest* request,
    v1::ArchivedJob* response) {
  return rpc::HandleUnary(context, access_, "/capstan.telemetry.v1.ArchiveService/GetArchivedJob",
                          request, response, CheckGet,
                          [this](const rpc::Call&, const v1::GetArchivedJobRequest& request,
                                 v1::ArchivedJob* response, rpc::Finish finish) {
                            archive_->Get(request.name(), request.uid(),
                                          rpc::RespondWith(response, std::move(finish)));
                          });
}

grpc::ServerUnaryReactor* ArchiveServiceHandler::ListArchivedJobs(
    grpc::CallbackServerContext* context, const v1::ListArchivedJobsRequest* request,
    v1::ListArchivedJobsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.ArchiveService/ListArchivedJobs", request, response,
      CheckList,
      [this](const rpc::Call&, const v1::ListArchivedJobsRequest& request,
             v1::ListArchivedJobsResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(request);
        const auto size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = tokens_.Open(request.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        auto filter = ParseArchiveFilter(request.filter());
        if (!filter.ok()) return finish(filter.status());
        archive_->List(
            request.parent(), *std::move(filter), ParsePosition(*position), *size,
            [this, response, arguments,
             finish = std::move(finish)](absl::StatusOr<JobArchive::Page> page) mutable {
              if (!page.ok()) return finish(page.status());
              for (v1::ArchivedJob& job : page->jobs) {
                *response->add_jobs() = std::move(job);
              }
              if (page->next.has_value()) {
                response->set_next_page_token(tokens_.Seal(Render(*page->next), arguments));
              }
              finish(absl::OkStatus());
            });
      });
}

}  // namespace capstan::telemetry
