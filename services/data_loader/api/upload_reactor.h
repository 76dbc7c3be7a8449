#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_UPLOAD_REACTOR_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_UPLOAD_REACTOR_H_

#include "grpcpp/support/server_callback.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// Receives one Bundle: header, then content, written piece by piece on the disk strand; the next
// message is read once the last is written, so a slow disk slows the sender. Deletes itself.
grpc::ServerReadReactor<capstan::dataloader::v1::UploadBundleRequest>* MakeUploadReactor(
    const ApiDeps& deps, Site* site, Strand* disk, grpc::CallbackServerContext* context,
    capstan::dataloader::v1::Bundle* response);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_UPLOAD_REACTOR_H_
