// The resources of which Capstan has messages.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCES_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCES_H_

#include "libs/kube/objects/proto/apps_v1.pb.h"
#include "libs/kube/objects/proto/authentication_v1.pb.h"
#include "libs/kube/objects/proto/authorization_v1.pb.h"
#include "libs/kube/objects/proto/autoscaling_v1.pb.h"
#include "libs/kube/objects/proto/coordination_v1.pb.h"
#include "libs/kube/objects/proto/core_v1_config.pb.h"
#include "libs/kube/objects/proto/core_v1_event.pb.h"
#include "libs/kube/objects/proto/core_v1_node.pb.h"
#include "libs/kube/objects/proto/core_v1_pod.pb.h"
#include "libs/kube/objects/proto/core_v1_storage.pb.h"
#include "libs/kube/objects/proto/events_v1.pb.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"
#include "libs/kube/objects/proto/policy_v1.pb.h"
#include "libs/kube/objects/resource_type.h"

namespace capstan::kube {

namespace apps_v1 = ::k8s::io::api::apps::v1;
namespace authentication_v1 = ::k8s::io::api::authentication::v1;
namespace authorization_v1 = ::k8s::io::api::authorization::v1;
namespace autoscaling_v1 = ::k8s::io::api::autoscaling::v1;
namespace coordination_v1 = ::k8s::io::api::coordination::v1;
namespace core_v1 = ::k8s::io::api::core::v1;
namespace events_v1 = ::k8s::io::api::events::v1;
namespace meta_v1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;
namespace policy_v1 = ::k8s::io::api::policy::v1;

// A ResourceType that needs no construction and knows the C++ type of its objects.
template <typename T>
struct TypedResource {
  using Object = T;

  const char* group;
  const char* version;
  const char* kind;
  const char* plural;
  bool namespaced;

  ResourceType type() const { return {group, version, kind, plural, namespaced}; }
};

inline constexpr TypedResource<core_v1::ConfigMap> kConfigMaps = {"", "v1", "ConfigMap",
                                                                  "configmaps", true};
inline constexpr TypedResource<core_v1::Event> kCoreEvents = {"", "v1", "Event", "events", true};
inline constexpr TypedResource<core_v1::Namespace> kNamespaces = {"", "v1", "Namespace",
                                                                  "namespaces", false};
inline constexpr TypedResource<core_v1::Node> kNodes = {"", "v1", "Node", "nodes", false};
inline constexpr TypedResource<core_v1::PersistentVolume> kPersistentVolumes = {
    "", "v1", "PersistentVolume", "persistentvolumes", false};
inline constexpr TypedResource<core_v1::PersistentVolumeClaim> kPersistentVolumeClaims = {
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true};
inline constexpr TypedResource<core_v1::Pod> kPods = {"", "v1", "Pod", "pods", true};
inline constexpr TypedResource<core_v1::Secret> kSecrets = {"", "v1", "Secret", "secrets", true};
inline constexpr TypedResource<core_v1::ServiceAccount> kServiceAccounts = {
    "", "v1", "ServiceAccount", "serviceaccounts", true};

inline constexpr TypedResource<apps_v1::DaemonSet> kDaemonSets = {"apps", "v1", "DaemonSet",
                                                                  "daemonsets", true};
inline constexpr TypedResource<apps_v1::Deployment> kDeployments = {"apps", "v1", "Deployment",
                                                                    "deployments", true};
inline constexpr TypedResource<coordination_v1::Lease> kLeases = {"coordination.k8s.io", "v1",
                                                                  "Lease", "leases", true};
inline constexpr TypedResource<events_v1::Event> kEvents = {"events.k8s.io", "v1", "Event",
                                                            "events", true};
inline constexpr TypedResource<policy_v1::PodDisruptionBudget> kPodDisruptionBudgets = {
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true};

// Only created; the answer is in what the server gives back.
inline constexpr TypedResource<authentication_v1::TokenReview> kTokenReviews = {
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false};
inline constexpr TypedResource<authorization_v1::SubjectAccessReview> kSubjectAccessReviews = {
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", false};
inline constexpr TypedResource<authorization_v1::SelfSubjectAccessReview>
    kSelfSubjectAccessReviews = {"authorization.k8s.io", "v1", "SelfSubjectAccessReview",
                                 "selfsubjectaccessreviews", false};

// Of subresources alone, hence without a path of their own: what their bodies are.
inline constexpr TypedResource<core_v1::Binding> kBindings = {"", "v1", "Binding", "bindings",
                                                              true};
inline constexpr TypedResource<policy_v1::Eviction> kEvictions = {"policy", "v1", "Eviction",
                                                                  "evictions", true};
inline constexpr TypedResource<authentication_v1::TokenRequest> kTokenRequests = {
    "authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", true};
inline constexpr TypedResource<autoscaling_v1::Scale> kScales = {"autoscaling", "v1", "Scale",
                                                                 "scales", true};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_RESOURCES_H_
