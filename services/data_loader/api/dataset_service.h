#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_DATASET_SERVICE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_DATASET_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/resource/page.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/data_loader/api/committed_state.h"
#include "services/data_loader/engine.h"

namespace capstan::data_loader {

// What the handlers need; all must outlive the server.
struct ApiDeps {
  auth::Access* access = nullptr;
  Strand* strand = nullptr;
  Engine* engine = nullptr;
  const CommittedState* state = nullptr;
  const resource::PageTokens* page_tokens = nullptr;
};

class DatasetService final : public capstan::dataloader::v1::DatasetService::CallbackService {
 public:
  explicit DatasetService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* CreateDataset(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::CreateDatasetRequest* request,
      capstan::dataloader::v1::Dataset* response) override;
  grpc::ServerUnaryReactor* GetDataset(grpc::CallbackServerContext* context,
                                       const capstan::dataloader::v1::GetDatasetRequest* request,
                                       capstan::dataloader::v1::Dataset* response) override;
  grpc::ServerUnaryReactor* ListDatasets(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ListDatasetsRequest* request,
      capstan::dataloader::v1::ListDatasetsResponse* response) override;

 private:
  const ApiDeps deps_;
};

class DataLoadService final : public capstan::dataloader::v1::DataLoadService::CallbackService {
 public:
  explicit DataLoadService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* EnsureDataLoad(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::EnsureDataLoadRequest* request,
      capstan::dataloader::v1::DataLoad* response) override;
  grpc::ServerUnaryReactor* GetDataLoad(grpc::CallbackServerContext* context,
                                        const capstan::dataloader::v1::GetDataLoadRequest* request,
                                        capstan::dataloader::v1::DataLoad* response) override;
  grpc::ServerUnaryReactor* ListDataLoads(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ListDataLoadsRequest* request,
      capstan::dataloader::v1::ListDataLoadsResponse* response) override;
  grpc::ServerWriteReactor<capstan::dataloader::v1::DataLoad>* WatchDataLoad(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::GetDataLoadRequest* request) override;
  grpc::ServerUnaryReactor* PinVersion(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::PinVersionRequest* request,
      capstan::dataloader::v1::PinVersionResponse* response) override;
  grpc::ServerUnaryReactor* ReleasePins(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ReleasePinsRequest* request,
      capstan::dataloader::v1::ReleasePinsResponse* response) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_DATASET_SERVICE_H_
