#include "services/telemetry/adapters/http_sd.h"

#include <utility>

#include "absl/status/statusor.h"
#include "libs/auth/spiffe_id.h"
#include "nlohmann/json.hpp"

namespace capstan::telemetry {
namespace {

// Identities are kept by their paths: any trust domain will do to take one apart.
constexpr char kAnyTrustDomain[] = "any";

}  // namespace

std::string RenderHttpSd(const core::ScrapeTargetList& targets) {
  nlohmann::json list = nlohmann::json::array();
  for (const core::ScrapeTarget& target : targets.targets()) {
    const absl::StatusOr<auth::SpiffeId> id =
        auth::SpiffeId::ParsePath(kAnyTrustDomain, target.identity_path());
    if (!id.ok()) continue;
    nlohmann::json labels = nlohmann::json::object();
    const auto label = [&](const char* name, const std::string& value) {
      if (!value.empty()) labels[name] = value;
    };
    label("__meta_capstan_service", id->kind == auth::SpiffeId::Kind::kNode       ? "node_agent"
                                    : id->kind == auth::SpiffeId::Kind::kExecutor ? "executor"
                                                                                  : id->service);
    label("__meta_capstan_cluster", id->cluster);
    label("__meta_capstan_node", id->node);
    label("__meta_capstan_replica", target.instance());
    list.push_back({{"targets", nlohmann::json::array({target.metrics_address()})},
                    {"labels", std::move(labels)}});
  }
  return list.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace capstan::telemetry
