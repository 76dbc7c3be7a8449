#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_UPLOAD_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_UPLOAD_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/auth/principal.h"
#include "libs/rpc/upload.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

using OutputReceiver = rpc::UploadReceiver<capstan::dataloader::v1::UploadOutputRequest,
                                           capstan::dataloader::v1::CommitOutputResponse>;

// A checkpoint of a large model; within the time that an agent waits for a commit.
inline constexpr rpc::UploadLimits kOutputUploadLimits{
    .max_bytes = int64_t{16} << 40, .per_message = absl::Seconds(30), .total = absl::Hours(1)};

// Receives what a Task has written, after its header, which `header` must be, and which is checked:
// the generation must be open now, and is compared again when the content has come. Blocks for the
// engine's strand. The caller must hold a Placement of the Job.
absl::StatusOr<std::unique_ptr<OutputReceiver>> OpenOutputUpload(
    const ApiDeps& deps, Site* site, const auth::Caller& caller,
    const capstan::dataloader::v1::UploadOutputRequest& header);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_OUTPUT_UPLOAD_H_
