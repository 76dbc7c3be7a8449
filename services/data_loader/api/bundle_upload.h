#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_UPLOAD_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_UPLOAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/rpc/upload.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

using BundleReceiver = rpc::UploadReceiver<capstan::dataloader::v1::UploadBundleRequest,
                                           capstan::dataloader::v1::Bundle>;

// More than any Bundle's content with what its messages add.
inline constexpr rpc::UploadLimits kBundleUploadLimits{.max_bytes = int64_t{2} << 30};

// Receives one Bundle after its header, which `header` must be, and which is checked: content is
// written to `site` piece by piece, then published and recorded.
absl::StatusOr<std::unique_ptr<BundleReceiver>> OpenBundleUpload(
    const ApiDeps& deps, Site* site, const capstan::dataloader::v1::UploadBundleRequest& header);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_UPLOAD_H_
