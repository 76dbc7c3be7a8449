// status, scale, binding, eviction, token.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> SubresourceCases() {
  return {
      {"StatusIsWrittenByItsSubresource", false, R"script(
> POST ${policy}/poddisruptionbudgets
{"metadata":{"name":"a"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"none":"x"}}},"status":{"expectedPods":7}}
= 201
? /metadata/generation 1
> GET ${policy}/poddisruptionbudgets/a/status
= 200
? /kind "PodDisruptionBudget"
)script"},
      {"StatusLeavesTheSpec", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}
= 201
? /status/phase "Pending"
> PATCH ${core}/pods/a/status merge
{"status":{"phase":"Running","message":"m"},"spec":{"nodeName":"n"}}
= 200
? /status/phase "Running"
? /status/message "m"
? /spec/nodeName absent
? /metadata/generation 1
> PATCH ${core}/pods/a merge
{"status":{"message":"other"},"metadata":{"labels":{"x":"y"}}}
= 200
? /status/message "m"
? /metadata/labels/x "y"
)script"},
      {"StatusHasItsOwnManager", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> PATCH ${core}/pods/a/status?fieldManager=kubelet merge
{"status":{"message":"m"}}
= 200
? /metadata/managedFields #2
? /metadata/managedFields/1/subresource "status"
? /metadata/managedFields/1/fieldsV1 {"f:status":{"f:message":{}}}
)script"},
      {"StatusOfWhatHasNone", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> GET ${core}/configmaps/a/status
= 404
)script"},
      {"ScaleIsReadAndWritten", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
= 201
> GET ${apps}/deployments/a/scale
= 200
? /kind "Scale"
? /apiVersion "autoscaling/v1"
? /status/selector "a=b"
? /metadata/name "a"
> PUT ${apps}/deployments/a/scale
{"metadata":{"name":"a"},"spec":{"replicas":2}}
= 200
? /spec/replicas 2
> GET ${apps}/deployments/a
? /spec/replicas 2
? /metadata/generation 2
)script"},
      {"ScaleWithOldVersionConflicts", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
! rv /metadata/resourceVersion
> PATCH ${apps}/deployments/a merge
{"metadata":{"labels":{"x":"y"}}}
> PUT ${apps}/deployments/a/scale
{"metadata":{"name":"a","resourceVersion":"${rv}"},"spec":{"replicas":0}}
= 409 Conflict
)script"},
      {"ScaleByMergePatch", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
> PATCH ${apps}/deployments/a/scale merge
{"spec":{"replicas":1}}
= 200
? /spec/replicas 1
)script"},
      {"BindingPlacesAPod", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"${ns}-node"}}
= 201
? /status "Success"
> GET ${core}/pods/a
? /spec/nodeName "${ns}-node"
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"other"}}
= 409 Conflict
? /message ~is already assigned to node
> DELETE ${core}/pods/a?gracePeriodSeconds=0
= 200
)script"},
      {"BindingOfAbsentIsNotFound", false, R"script(
> POST ${core}/pods/none/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"none"},"target":{"kind":"Node","name":"n"}}
= 404 NotFound
)script"},
      {"BindingWithAnotherUidConflicts", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a","uid":"other"},"target":{"kind":"Node","name":"n"}}
= 409 Conflict
)script"},
      {"PodsByNodeName", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> GET ${core}/pods?fieldSelector=spec.nodeName%3D
? /items #1
> GET ${core}/pods?fieldSelector=spec.nodeName%3Dn
? /items #0
> GET ${core}/pods?fieldSelector=status.phase%3DPending
? /items #1
)script"},
      {"BoundPodIsDeletedWithGrace", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","terminationGracePeriodSeconds":60,"containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"${ns}-node"}}
= 201
> DELETE ${core}/pods/a
= 200
? /metadata/deletionGracePeriodSeconds 60
? /metadata/deletionTimestamp present
> DELETE ${core}/pods/a?gracePeriodSeconds=0
= 200
> GET ${core}/pods/a
= 404
)script"},
      {"EvictionDeletes", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/eviction
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}
= 201
? /status "Success"
> GET ${core}/pods/a
= 404
)script"},
      {"EvictionOfAbsentIsNotFound", false, R"script(
> POST ${core}/pods/none/eviction
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"none"}}
= 404 NotFound
)script"},
      {"EvictionIsRefusedByABudget", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"${ns}-node"}}
> PATCH ${core}/pods/a/status merge
{"status":{"phase":"Running"}}
= 200
> POST ${policy}/poddisruptionbudgets
{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"x":"y"}}}}
= 201
> POST ${core}/pods/a/eviction
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}
= 429 TooManyRequests
? /message "Cannot evict pod as it would violate the pod's disruption budget."
? /details/causes/0/reason "DisruptionBudget"
> DELETE ${core}/pods/a?gracePeriodSeconds=0
= 200
)script"},
      {"EvictionByDryRunDeletesNothing", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> POST ${core}/pods/a/eviction?dryRun=All
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}
= 201
> GET ${core}/pods/a
= 200
)script"},
      {"TokenOfAServiceAccount", false, R"script(
> POST ${core}/serviceaccounts
{"metadata":{"name":"a"}}
= 201
> POST ${core}/serviceaccounts/a/token
{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":600}}
= 201
? /kind "TokenRequest"
? /status/token present
? /status/expirationTimestamp present
)script"},
      {"TokenForTooShortATime", false, R"script(
> POST ${core}/serviceaccounts
{"metadata":{"name":"a"}}
> POST ${core}/serviceaccounts/a/token
{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":60}}
= 422 Invalid
)script"},
      {"TokenOfAbsentAccount", false, R"script(
> POST ${core}/serviceaccounts/none/token
{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}
= 404 NotFound
)script"},
      {"TokenReviewOfNonsense", false, R"script(
> POST /apis/authentication.k8s.io/v1/tokenreviews
{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"nonsense"}}
= 201
? /kind "TokenReview"
)script"},
      {"ReviewsAreNotListed", false, R"script(
> GET /apis/authentication.k8s.io/v1/tokenreviews
= 405 MethodNotAllowed
)script"},
      {"SelfReviewOfARight", false, R"script(
> POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}
= 201
? /status/allowed true
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
