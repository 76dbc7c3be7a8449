#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PUBLISH_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PUBLISH_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::data_loader {

// Reads every file below `folder` of the site and makes its manifest; CANCELLED once `stop` is set.
absl::StatusOr<capstan::dataloader::v1::Manifest> HashFolder(const SafeRoot& site,
                                                             const std::string& folder,
                                                             const std::atomic<bool>& stop);

// Makes what lies below `folder` readable by all, writable by none and durable, stores its manifest
// as `<collection>/<digest hex>.manifest`, and renames the folder to `<collection>/<digest hex>`.
// If that is there already, `folder` is removed instead.
absl::Status PublishFolder(const SafeRoot& site, const std::string& folder,
                           const std::string& collection,
                           const capstan::dataloader::v1::Manifest& manifest);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PUBLISH_H_
