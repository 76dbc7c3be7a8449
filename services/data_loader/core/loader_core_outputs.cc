// Outputs: generations that only rise, and commits by compare-and-set on them.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/core/dataset_request.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

// Records hold absolute folders, `<site root>/outputs/…`, for those who read them; the Site is told
// the part below its root.
std::string OutputFolder(const std::string& directory) {
  return directory.substr(directory.rfind("/outputs/") + 1);
}

absl::Status Superseded(const std::string& name, int64_t asked, int64_t open) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "GENERATION_SUPERSEDED",
                       absl::StrCat("generation ", asked, " of '", name, "' is closed: generation ",
                                    open, " is open"),
                       {{"generation", absl::StrCat(asked)}, {"open", absl::StrCat(open)}});
}

}  // namespace

DecisionOr<pb::OpenOutputResponse> LoaderCore::OpenOutput(const pb::OpenOutputRequest& request) {
  CAPSTAN_RETURN_IF_ERROR(CheckOpenOutput(request));
  const auto [it, added] = outputs_.emplace(request.name(), OutputRecord());
  pb::Output& output = *it->second.mutable_output();
  if (added) {
    it->second.set_schema_version(kSchemaVersion);
    output.set_name(request.name());
    output.set_job_uid(request.job_uid());
  }
  if (output.job_uid() != request.job_uid()) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "OUTPUT_OF_ANOTHER_JOB",
                         absl::StrCat("'", request.name(), "' belongs to another Job"));
  }
  if (request.generation() < output.generation()) {
    return Superseded(request.name(), request.generation(), output.generation());
  }
  Decision<pb::OpenOutputResponse> decision;
  if (request.generation() > output.generation()) {
    output.set_generation(request.generation());
    decision.step.puts.push_back({OutputKey(request.name()), it->second.SerializeAsString()});
  }
  const pb::Checkpoint* newest = nullptr;
  for (const pb::Checkpoint& checkpoint : output.checkpoints()) {
    if (newest == nullptr || checkpoint.step() > newest->step()) newest = &checkpoint;
  }
  if (newest != nullptr) *decision.response.mutable_resume_from() = *newest;
  return decision;
}

absl::StatusOr<absl::optional<pb::CommitOutputResponse>> LoaderCore::CheckCommit(
    const pb::CommitOutputRequest& request) const {
  const auto found = outputs_.find(request.name());
  if (found == outputs_.end() || found->second.output().job_uid() != request.job_uid()) {
    return status::NotFound(request.name());
  }
  const pb::Output& output = found->second.output();
  pb::CommitOutputResponse response;
  if (request.what_case() == pb::CommitOutputRequest::kCheckpointStep) {
    for (const pb::Checkpoint& checkpoint : output.checkpoints()) {
      if (checkpoint.step() != request.checkpoint_step() ||
          checkpoint.generation() != request.generation()) {
        continue;
      }
      response.set_manifest_digest(checkpoint.manifest_digest());
      response.set_directory(checkpoint.directory());
      return absl::optional<pb::CommitOutputResponse>(response);
    }
  } else {
    for (const pb::TaskOutput& done : output.task_outputs()) {
      if (done.rank() != request.rank() || done.generation() != request.generation()) continue;
      response.set_manifest_digest(done.manifest_digest());
      response.set_directory(done.directory());
      return absl::optional<pb::CommitOutputResponse>(response);
    }
  }
  if (request.generation() != output.generation()) {
    return Superseded(request.name(), request.generation(), output.generation());
  }
  return absl::optional<pb::CommitOutputResponse>();
}

DecisionOr<pb::CommitOutputResponse> LoaderCore::CommitOutput(const StagedOutput& staged, Now now) {
  const pb::CommitOutputRequest& request = staged.request;
  CAPSTAN_ASSIGN_OR_RETURN(const auto before, CheckCommit(request));
  Decision<pb::CommitOutputResponse> decision;
  if (before.has_value()) {
    // A twin of this call won: its copy stands, this one goes.
    decision.response = *before;
    if (before->directory() != staged.directory) {
      decision.step.after.push_back(RemoveFolder{staged.folder});
    }
    return decision;
  }
  OutputRecord& record = outputs_.at(request.name());
  pb::Output& output = *record.mutable_output();
  if (request.what_case() == pb::CommitOutputRequest::kCheckpointStep) {
    // A step trained again after a restart replaces what an older generation committed for it and
    // for later steps: history is what the resumed run continues from.
    auto& checkpoints = *output.mutable_checkpoints();
    for (int i = checkpoints.size() - 1; i >= 0; --i) {
      if (checkpoints[i].step() < request.checkpoint_step()) continue;
      decision.step.after.push_back(RemoveFolder{OutputFolder(checkpoints[i].directory())});
      checkpoints.DeleteSubrange(i, 1);
    }
    while (checkpoints.size() >= config_.kept_checkpoints) {
      decision.step.after.push_back(RemoveFolder{OutputFolder(checkpoints[0].directory())});
      checkpoints.DeleteSubrange(0, 1);
    }
    pb::Checkpoint& checkpoint = *output.add_checkpoints();
    checkpoint.set_step(request.checkpoint_step());
    checkpoint.set_generation(request.generation());
    checkpoint.set_directory(staged.directory);
    checkpoint.set_manifest_digest(staged.manifest_digest);
    checkpoint.set_total_bytes(staged.total_bytes);
    *checkpoint.mutable_commit_time() = ToProto(now.wall);
  } else {
    auto& task_outputs = *output.mutable_task_outputs();
    for (int i = task_outputs.size() - 1; i >= 0; --i) {
      if (task_outputs[i].rank() != request.rank()) continue;
      decision.step.after.push_back(RemoveFolder{OutputFolder(task_outputs[i].directory())});
      task_outputs.DeleteSubrange(i, 1);
    }
    pb::TaskOutput& done = *output.add_task_outputs();
    done.set_rank(request.rank());
    done.set_generation(request.generation());
    done.set_directory(staged.directory);
    done.set_manifest_digest(staged.manifest_digest);
    done.set_total_bytes(staged.total_bytes);
    *done.mutable_commit_time() = ToProto(now.wall);
  }
  decision.step.puts.push_back({OutputKey(request.name()), record.SerializeAsString()});
  decision.response.set_manifest_digest(staged.manifest_digest);
  decision.response.set_directory(staged.directory);
  return decision;
}

std::set<std::string> LoaderCore::OutputFolders() const {
  std::set<std::string> folders;
  for (const auto& [name, record] : outputs_) {
    for (const pb::Checkpoint& checkpoint : record.output().checkpoints()) {
      folders.insert(OutputFolder(checkpoint.directory()));
    }
    for (const pb::TaskOutput& done : record.output().task_outputs()) {
      folders.insert(OutputFolder(done.directory()));
    }
  }
  return folders;
}

}  // namespace capstan::data_loader
