#include "integration/kube/real_client.h"

#include "absl/status/status.h"
#include "libs/kube/client/await.h"
#include "libs/kube/client/request.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::testing {

RealClient::RealClient(const ClientConfig& config, ClientOptions options)
    : transport_(MakeTransport(config).value()), strand_("client", &transport_->clock) {
  options.on_warning = [this](const ServerWarning& warning) {
    const absl::MutexLock lock(&mutex_);
    warnings_.push_back(warning);
  };
  client_ =
      std::make_unique<Client>(transport_->transport.get(), &strand_, &random_, std::move(options));
}

RealClient::~RealClient() {
  strand_.Stop();
  client_ = nullptr;
}

absl::StatusOr<nlohmann::json> RealClient::Json(const std::string& method,
                                                const std::string& target,
                                                const std::string& body) {
  ApiRequest request;
  request.method = method;
  request.target = target;
  request.headers = {{"Accept", "application/json"}};
  if (!body.empty()) request.headers.push_back({"Content-Type", "application/json"});
  request.body = body;
  if (method == "GET") request.repeat = Repeat::kHarmless;
  CAPSTAN_ASSIGN_OR_RETURN(const ApiResponse response, Await<ApiResponse>(&strand_, [&](auto done) {
                             return client_->Start(std::move(request), std::move(done));
                           }));
  return nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
}

std::vector<ServerWarning> RealClient::TakeWarnings() {
  const absl::MutexLock lock(&mutex_);
  return std::exchange(warnings_, {});
}

ResourceType WidgetType() { return {"test.capstan.dev", "v1", "Widget", "widgets", true}; }

absl::Status ServeWidgets(RealClient* client) {
  const ResourceType crds = {"apiextensions.k8s.io", "v1", "CustomResourceDefinition",
                             "customresourcedefinitions", false};
  const nlohmann::json crd = nlohmann::json::parse(R"({
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.capstan.dev"},
    "spec": {
      "group": "test.capstan.dev", "scope": "Namespaced",
      "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
      "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {
          "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
          "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
        "subresources": {"scale": {"specReplicasPath": ".spec.replicas",
                                   "statusReplicasPath": ".status.replicas"}}}]}})");
  const auto made = client->Of(crds).Create(ObjectOf(crd));
  if (!made.ok() && !absl::IsAlreadyExists(made.status())) return made.status();
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (true) {
    const auto page = client->Of(WidgetType()).List("", {});
    if (page.ok() || absl::Now() > deadline) return page.status();
  }
}

DynamicObject ObjectOf(const nlohmann::json& json) { return DynamicObject::FromJson(json).value(); }

}  // namespace capstan::kube::testing
