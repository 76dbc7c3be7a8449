#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_COMMIT_REQUEST_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_COMMIT_REQUEST_H_

#include "absl/status/status.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"

namespace capstan::data_loader {

// Where the files of a commit are.
enum class Staging {
  // In a folder of the Site that the request names.
  kAtTheSite,
  // They follow the request.
  kUploaded,
};

// INVALID_ARGUMENT with every wrong field.
absl::Status CheckCommit(const capstan::dataloader::v1::CommitOutputRequest& request,
                         Staging staging);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_COMMIT_REQUEST_H_
