#include "services/credentials/api/task_fields.h"

#include "absl/status/statusor.h"
#include "libs/resource/name.h"

namespace capstan::credentials {

void CheckTask(const TaskFields& fields, status::FieldErrors* errors) {
  const auto job = resource::JobName::Parse(fields.job);
  const auto account = resource::ServiceAccountName::Parse(fields.service_account);
  if (!job.ok()) errors->Add("job", "expected `projects/{project}/jobs/{job}`");
  if (!account.ok()) {
    errors->Add("service_account", "expected `projects/{project}/serviceAccounts/{account}`");
  }
  if (job.ok() && account.ok() && job->project != account->project) {
    errors->Add("service_account", "belongs to another Project than the Job");
  }
  if (fields.generation < 1) errors->Add("generation", "must be at least 1");
  if (fields.index < 0) errors->Add("index", "must not be negative");
  if (!errors->ok()) return;
  const auth::SpiffeId id = TaskIdOf("x", fields);
  const absl::StatusOr<auth::SpiffeId> parsed = auth::SpiffeId::Parse(id.ToString());
  if (!parsed.ok() || *parsed != id) {
    errors->Add("job_uid", "or `group` cannot be part of a SPIFFE id");
  }
}

auth::SpiffeId TaskIdOf(absl::string_view trust_domain, const TaskFields& fields) {
  const auto account = resource::ServiceAccountName::Parse(fields.service_account);
  return auth::SpiffeId::Task(trust_domain, account->project, account->account, fields.job_uid,
                              fields.generation, fields.group, fields.index);
}

}  // namespace capstan::credentials
