#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_SITE_SERVICE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_SITE_SERVICE_H_

#include "proto/capstan/dataloader/v1/site.grpc.pb.h"
#include "services/data_loader/api/dataset_service.h"

namespace capstan::data_loader {

// Tells people where content is.
class SiteService final : public capstan::dataloader::v1::SiteService::CallbackService {
 public:
  explicit SiteService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* ListVersionSites(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ListVersionSitesRequest* request,
      capstan::dataloader::v1::ListVersionSitesResponse* response) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_SITE_SERVICE_H_
