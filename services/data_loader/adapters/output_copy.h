#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OUTPUT_COPY_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OUTPUT_COPY_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::data_loader {

// Copies the regular files below `from` to the new folder `to`, hashing what is written, and makes
// the copy read-only and durable. The files belong to a Task that may still run: links and special
// files are refused, and a file that changes meanwhile is whatever was read, whose digest it has.
absl::StatusOr<capstan::dataloader::v1::Manifest> CopyAndHash(const SafeRoot& site,
                                                              const std::string& from,
                                                              const std::string& to,
                                                              const std::atomic<bool>& stop);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OUTPUT_COPY_H_
