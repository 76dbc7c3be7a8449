#ifndef CAPSTAN_LIBS_CONTENT_PUBLISH_H_
#define CAPSTAN_LIBS_CONTENT_PUBLISH_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {

// Reads every file below `folder` of the site and makes its manifest; CANCELLED once `stop` is set.
absl::StatusOr<capstan::dataloader::v1::Manifest> HashFolder(const SafeRoot& site,
                                                             const std::string& folder,
                                                             const std::atomic<bool>& stop);

// Makes what lies below `folder` readable by all, writable by none and durable, stores its manifest
// as `<target>.manifest`, and renames the folder to `target`, whose parent must exist. If that is
// there already, `folder` is removed instead.
absl::Status PublishAs(const SafeRoot& site, const std::string& folder, const std::string& target,
                       const capstan::dataloader::v1::Manifest& manifest);

// As above, with `<collection>/<digest hex>` as the target: equal content is stored once.
absl::Status PublishFolder(const SafeRoot& site, const std::string& folder,
                           const std::string& collection,
                           const capstan::dataloader::v1::Manifest& manifest);

// The manifest stored beside `target`: NOT_FOUND if there is none, DATA_LOSS (MANIFEST_CORRUPT) if
// it is not what was stored.
absl::StatusOr<capstan::dataloader::v1::Manifest> ReadManifest(const SafeRoot& site,
                                                               const std::string& target);

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_PUBLISH_H_
