#include "services/scheduler/adapters/load_events.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::dataloader::v1;

// The id of `projects/{p}/datasets/{d}/versions/{v}`; an id alone is itself.
std::string VersionId(const std::string& version) { return version.substr(version.rfind('/') + 1); }

}  // namespace

pb::EnsureDataLoadRequest RequestFor(const EnsureData& wanted, bool is_first) {
  pb::EnsureDataLoadRequest request;
  request.set_dataset(wanted.dataset);
  request.set_version(wanted.version);
  request.set_cluster(wanted.cluster);
  request.set_retry_failed(is_first);
  return request;
}

bool MayPass(const absl::Status& refusal) {
  switch (refusal.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return false;
    default:
      return true;
  }
}

DataFailed FailureOf(const EnsureData& wanted, const absl::Status& refusal) {
  return {wanted.job_uid, wanted.dataset_position,
          absl::IsNotFound(refusal) ? "DATA_NOT_FOUND" : "DATA_LOAD_FAILED",
          std::string(refusal.message())};
}

bool IsFinal(const pb::DataLoad& load) {
  return load.state() == pb::DataLoad::STATE_SUCCEEDED ||
         load.state() == pb::DataLoad::STATE_FAILED;
}

Event EventOf(const EnsureData& wanted, const pb::DataLoad& load) {
  if (load.state() == pb::DataLoad::STATE_SUCCEEDED) {
    return DataReady{wanted.job_uid, wanted.dataset_position, VersionId(load.version())};
  }
  if (load.state() == pb::DataLoad::STATE_FAILED) {
    return DataFailed{wanted.job_uid, wanted.dataset_position,
                      load.reason() == "OBJECT_NOT_FOUND" ? "DATA_NOT_FOUND" : "DATA_LOAD_FAILED",
                      absl::StrCat(wanted.dataset, ": ", load.message())};
  }
  DataProgressed progress;
  progress.job_uid = wanted.job_uid;
  progress.dataset = wanted.dataset_position;
  progress.data_load = load.name();
  progress.loaded_bytes = load.loaded_bytes();
  progress.total_bytes = load.total_bytes();
  progress.bytes_per_second = load.bytes_per_second();
  if (load.has_eta()) progress.eta = ToDuration(load.eta());
  return progress;
}

}  // namespace capstan::scheduler
