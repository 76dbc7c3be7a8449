#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_CONTENT_RECEIVER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_CONTENT_RECEIVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// Receives a Bundle into `staging/bundles/<id>`, checks each file against its digest as it comes,
// and publishes it as `bundles/<digest>`. `site` must outlive the writer; `id` must be unused.
absl::StatusOr<std::unique_ptr<BundleWriter>> ReceiveBundle(
    const SafeRoot* site, const std::string& id, const capstan::dataloader::v1::Manifest& manifest);

// Receives what a Task has written into `staging/outputs/<id>`, in the same way, and makes of it
// `folder` of the Site, read-only, with its manifest beside it. What no one commits is for the
// caller to remove. The writer holds `claim`.
absl::StatusOr<std::unique_ptr<OutputWriter>> ReceiveOutput(
    const SafeRoot* site, const std::string& id, const std::string& folder,
    std::shared_ptr<const char> claim, const capstan::dataloader::v1::CommitOutputRequest& request,
    const capstan::dataloader::v1::Manifest& manifest);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_CONTENT_RECEIVER_H_
