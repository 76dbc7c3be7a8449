#include "services/data_loader/api/site_service.h"

#include <utility>

#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "services/data_loader/api/check_name.h"

namespace capstan::data_loader {

namespace pb = ::capstan::dataloader::v1;

grpc::ServerUnaryReactor* SiteService::ListVersionSites(grpc::CallbackServerContext* context,
                                                        const pb::ListVersionSitesRequest* request,
                                                        pb::ListVersionSitesResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.SiteService/ListVersionSites", request,
      response,
      [](const pb::ListVersionSitesRequest& r) {
        return CheckName<resource::DatasetVersionName>("version", r.version());
      },
      [this](const rpc::Call&, const pb::ListVersionSitesRequest& request,
             pb::ListVersionSitesResponse* response, rpc::Finish finish) {
        deps_.strand->Post([this, &request, response, finish = std::move(finish)]() mutable {
          rpc::RespondWith(response,
                           std::move(finish))(deps_.engine->ListVersionSites(request.version()));
        });
      });
}

}  // namespace capstan::data_loader
