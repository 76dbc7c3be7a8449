#ifndef CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_H_
#define CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {

// A client with its strand and transport, for tests that wait for each answer. Thread-safe.
class RealClient {
 public:
  // As in the class that owns the process' cluster: dies if no transport can be made.
  explicit RealClient(const ClientConfig& config, ClientOptions options = {});
  ~RealClient();

  Client* client() { return client_.get(); }
  Transport* transport() { return transport_->transport.get(); }
  CredentialSource* credentials() { return transport_->credentials.get(); }
  const Clock* clock() const { return &transport_->clock; }
  ThreadStrand* strand() { return &strand_; }

  template <typename T>
  BlockingResource<T> Of(const TypedResource<T>& resource) {
    return BlockingResource<T>(Resource<T>(client_.get(), resource));
  }
  BlockingResource<DynamicObject> Of(const ResourceType& type) {
    return BlockingResource<DynamicObject>(Resource<DynamicObject>(client_.get(), type));
  }
  // One request as it is, with JSON for an answer.
  absl::StatusOr<nlohmann::json> Json(const std::string& method, const std::string& target,
                                      const std::string& body = "");

  // Warnings that have come and were not taken yet.
  std::vector<ServerWarning> TakeWarnings();

 private:
  const std::unique_ptr<RealTransport> transport_;
  ThreadStrand strand_;
  Random random_{1};
  absl::Mutex mutex_;
  std::vector<ServerWarning> warnings_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Client> client_;
};

// Of custom resources of the group `test.capstan.dev`: namespaced, with `spec` of any fields, and
// a scale of spec.replicas.
ResourceType WidgetType();
// Makes that type, and waits until it is served.
absl::Status ServeWidgets(RealClient* client);

DynamicObject ObjectOf(const nlohmann::json& json);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_H_
