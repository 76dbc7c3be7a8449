#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_API_CLUSTER_SERVICE_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_API_CLUSTER_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/resource/page.h"
#include "libs/store/store.h"
#include "proto/capstan/clustermanager/v1/cluster.grpc.pb.h"

namespace capstan::cluster_manager {

// Shows Clusters from committed records. All pointers must outlive the server.
class ClusterService final : public capstan::clustermanager::v1::ClusterService::CallbackService {
 public:
  ClusterService(auth::Access* access, store::Store* store, const resource::PageTokens* page_tokens)
      : access_(access), store_(store), page_tokens_(page_tokens) {}

  grpc::ServerUnaryReactor* GetCluster(
      grpc::CallbackServerContext* context,
      const capstan::clustermanager::v1::GetClusterRequest* request,
      capstan::clustermanager::v1::Cluster* response) override;
  grpc::ServerUnaryReactor* ListClusters(
      grpc::CallbackServerContext* context,
      const capstan::clustermanager::v1::ListClustersRequest* request,
      capstan::clustermanager::v1::ListClustersResponse* response) override;

 private:
  auth::Access* const access_;
  store::Store* const store_;
  const resource::PageTokens* const page_tokens_;
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_API_CLUSTER_SERVICE_H_
