#include "services/data_loader/api/commit_request.h"

#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/core/dataset_request.h"

namespace capstan::data_loader {

namespace pb = ::capstan::dataloader::v1;

absl::Status CheckCommit(const pb::CommitOutputRequest& request, Staging staging) {
  pb::OpenOutputRequest open;
  open.set_name(request.name());
  open.set_job_uid(request.job_uid());
  open.set_generation(request.generation());
  CAPSTAN_RETURN_IF_ERROR(CheckOpenOutput(open));
  status::FieldErrors errors;
  if (request.rank() < 0) errors.Add("rank", "is negative");
  if (request.what_case() == pb::CommitOutputRequest::WHAT_NOT_SET) {
    errors.Add("what", "is absent; expected checkpoint_step or final");
  }
  if (request.checkpoint_step() < 0) errors.Add("checkpoint_step", "is negative");
  if (staging == Staging::kAtTheSite && request.staging_directory().empty()) {
    errors.Add("staging_directory", "is empty");
  }
  if (staging == Staging::kUploaded && !request.staging_directory().empty()) {
    errors.Add("staging_directory", "is set; the files come with the upload");
  }
  return errors.ToStatus();
}

}  // namespace capstan::data_loader
