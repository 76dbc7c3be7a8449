#include "services/cluster_manager/api/cluster_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "services/cluster_manager/core/health_core.h"
#include "services/cluster_manager/core/records.pb.h"

namespace capstan::cluster_manager {
namespace {

namespace pb = ::capstan::clustermanager::v1;

// Nodes of one Cluster shown at most; the store's own bound.
constexpr int64_t kMaxVerdicts = 10'000;

absl::StatusOr<pb::Cluster> ToCluster(const store::KeyValue& kv) {
  ClusterRecord record;
  CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchemaVersion, &record));
  pb::Cluster cluster;
  cluster.set_name(record.name());
  cluster.set_uid(record.uid());
  *cluster.mutable_create_time() = record.create_time();
  return cluster;
}

// Adds the verdicts as of `revision`.
void AddVerdicts(store::Store* store, pb::Cluster cluster, int64_t revision,
                 absl::AnyInvocable<void(absl::StatusOr<pb::Cluster>)> done) {
  const std::string prefix = VerdictPrefix(cluster.name());
  store::RangeRequest request;
  request.key = prefix;
  request.end = store::PrefixEnd(prefix);
  request.limit = kMaxVerdicts;
  request.revision = revision;
  store->Range(std::move(request), [cluster = std::move(cluster), done = std::move(done)](
                                       absl::StatusOr<store::RangeResult> found) mutable {
    if (!found.ok()) return done(found.status());
    for (const store::KeyValue& kv : found->kvs) {
      VerdictRecord record;
      const absl::Status parsed = store::ParseRecord(kv, kSchemaVersion, &record);
      if (!parsed.ok()) return done(parsed);
      if (record.verdict().health() == pb::NodeVerdict::HEALTH_UNHEALTHY) {
        cluster.set_unhealthy_node_count(cluster.unhealthy_node_count() + 1);
      } else {
        cluster.set_healthy_node_count(cluster.healthy_node_count() + 1);
      }
      *cluster.add_verdicts() = record.verdict();
    }
    done(std::move(cluster));
  });
}

// Adds the verdicts of one Cluster of a page after the other.
void FillPage(store::Store* store, std::shared_ptr<store::RangeResult> page, size_t next,
              size_t count, pb::ListClustersResponse* response, rpc::Finish finish) {
  if (next == count) return finish(absl::OkStatus());
  absl::StatusOr<pb::Cluster> cluster = ToCluster(page->kvs[next]);
  if (!cluster.ok()) return finish(cluster.status());
  AddVerdicts(store, *std::move(cluster), page->revision,
              [store, page, next, count, response,
               finish = std::move(finish)](absl::StatusOr<pb::Cluster> filled) mutable {
                if (!filled.ok()) return finish(filled.status());
                *response->add_clusters() = *std::move(filled);
                FillPage(store, std::move(page), next + 1, count, response, std::move(finish));
              });
}

}  // namespace

grpc::ServerUnaryReactor* ClusterService::GetCluster(grpc::CallbackServerContext* context,
                                                     const pb::GetClusterRequest* request,
                                                     pb::Cluster* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.clustermanager.v1.ClusterService/GetCluster", request, response,
      [](const pb::GetClusterRequest& r) -> absl::Status {
        const absl::Status parsed = resource::ClusterName::Parse(r.name()).status();
        if (parsed.ok()) return parsed;
        status::FieldErrors errors;
        errors.Add("name", parsed.message());
        return errors.ToStatus();
      },
      [this](const rpc::Call&, const pb::GetClusterRequest& request, pb::Cluster* response,
             rpc::Finish finish) {
        store_->Range({.key = ClusterKey(request.name())},
                      [this, name = request.name(), response, finish = std::move(finish)](
                          absl::StatusOr<store::RangeResult> found) mutable {
                        if (!found.ok()) return finish(found.status());
                        if (found->kvs.empty()) return finish(status::NotFound(name));
                        absl::StatusOr<pb::Cluster> cluster = ToCluster(found->kvs.front());
                        if (!cluster.ok()) return finish(cluster.status());
                        AddVerdicts(store_, *std::move(cluster), found->revision,
                                    rpc::RespondWith(response, std::move(finish)));
                      });
      });
}

grpc::ServerUnaryReactor* ClusterService::ListClusters(grpc::CallbackServerContext* context,
                                                       const pb::ListClustersRequest* request,
                                                       pb::ListClustersResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.clustermanager.v1.ClusterService/ListClusters", request, response,
      rpc::NothingToValidate(),
      [this](const rpc::Call&, const pb::ListClustersRequest& request,
             pb::ListClustersResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(request);
        const auto size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const auto after = page_tokens_->Open(request.page_token(), arguments);
        if (!after.ok()) return finish(after.status());
        store::RangeRequest range;
        range.key = after->empty() ? ClusterKey("") : ClusterKey(*after) + '\0';
        range.end = store::PrefixEnd(ClusterKey(""));
        range.limit = *size;
        store_->Range(std::move(range), [this, arguments, response, finish = std::move(finish)](
                                            absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          auto page = std::make_shared<store::RangeResult>(*std::move(found));
          if (page->more) {
            response->set_next_page_token(
                page_tokens_->Seal(page->kvs.back().key.substr(ClusterKey("").size()), arguments));
          }
          const size_t count = page->kvs.size();
          FillPage(store_, std::move(page), 0, count, response, std::move(finish));
        });
      });
}

}  // namespace capstan::cluster_manager
