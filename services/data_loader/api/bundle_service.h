#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_SERVICE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_SERVICE_H_

#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

class BundleService final : public capstan::dataloader::v1::BundleService::CallbackService {
 public:
  // Uploads are written on `disk`, a strand that may block; it and `site` must outlive the server.
  BundleService(const ApiDeps& deps, Site* site, Strand* disk)
      : deps_(deps), site_(site), disk_(disk) {}

  grpc::ServerReadReactor<capstan::dataloader::v1::UploadBundleRequest>* UploadBundle(
      grpc::CallbackServerContext* context, capstan::dataloader::v1::Bundle* response) override;
  grpc::ServerUnaryReactor* GetBundle(grpc::CallbackServerContext* context,
                                      const capstan::dataloader::v1::GetBundleRequest* request,
                                      capstan::dataloader::v1::Bundle* response) override;
  grpc::ServerUnaryReactor* PinBundle(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::PinBundleRequest* request,
      capstan::dataloader::v1::PinVersionResponse* response) override;

 private:
  const ApiDeps deps_;
  Site* const site_;
  Strand* const disk_;
};

class OutputService final : public capstan::dataloader::v1::OutputService::CallbackService {
 public:
  explicit OutputService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* OpenOutput(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::OpenOutputRequest* request,
      capstan::dataloader::v1::OpenOutputResponse* response) override;
  grpc::ServerUnaryReactor* CommitOutput(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::CommitOutputRequest* request,
      capstan::dataloader::v1::CommitOutputResponse* response) override;
  grpc::ServerUnaryReactor* GetOutput(grpc::CallbackServerContext* context,
                                      const capstan::dataloader::v1::GetOutputRequest* request,
                                      capstan::dataloader::v1::Output* response) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_BUNDLE_SERVICE_H_
