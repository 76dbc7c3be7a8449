// Creating, reading and replacing objects, and what is refused.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> ObjectCases() {
  return {
      {"CreateFillsMetadata", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}
= 201
? /kind "ConfigMap"
? /apiVersion "v1"
? /metadata/uid present
? /metadata/resourceVersion present
? /metadata/creationTimestamp ~Z
? /metadata/namespace "${ns}"
? /metadata/labels/x "y"
? /metadata/generation absent
? /data {"k":"v"}
)script"},
      {"CreateRecordsTheManager", false, R"script(
> POST ${core}/configmaps?fieldManager=me
{"metadata":{"name":"a"},"data":{"k":"v"}}
= 201
? /metadata/managedFields #1
? /metadata/managedFields/0/manager "me"
? /metadata/managedFields/0/operation "Update"
? /metadata/managedFields/0/fieldsV1/f:data {".":{},"f:k":{}}
)script"},
      {"CreateTakesTheManagerFromTheUserAgent", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
= 201
? /metadata/managedFields/0/manager "conformance"
)script"},
      {"CreateIgnoresUidAndTimestamp", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z"}}
= 201
! uid /metadata/uid
> GET ${core}/configmaps/a
? /metadata/uid "${uid}"
? /metadata/creationTimestamp ~20
)script"},
      {"CreateRefusesResourceVersion", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","resourceVersion":"7"}}
= 500
? /message ~resourceVersion should not be set
)script"},
      {"CreateTwiceIsAlreadyExists", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 201
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 409 AlreadyExists
? /kind "Status"
? /status "Failure"
? /code 409
? /message "configmaps \"a\" already exists"
? /details {"name":"a","kind":"configmaps"}
)script"},
      {"CreateTwiceNamesTheGroup", false, R"script(
> POST ${coordination}/leases
{"metadata":{"name":"a"}}
= 201
> POST ${coordination}/leases
{"metadata":{"name":"a"}}
= 409 AlreadyExists
? /details {"name":"a","group":"coordination.k8s.io","kind":"leases"}
? /message "leases.coordination.k8s.io \"a\" already exists"
)script"},
      {"GenerateNameAddsFiveLetters", false, R"script(
> POST ${core}/configmaps
{"metadata":{"generateName":"gen-"}}
= 201
! name /metadata/name
? /metadata/name ~gen-
? /metadata/generateName "gen-"
> GET ${core}/configmaps/${name}
= 200
)script"},
      {"NameWinsOverGenerateName", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"given","generateName":"gen-"}}
= 201
? /metadata/name "given"
)script"},
      {"CreateWithoutNameIsInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{}}
= 422 Invalid
? /details/kind "ConfigMap"
? /details/causes/0/reason "FieldValueRequired"
? /details/causes/0/field "metadata.name"
)script"},
      {"CreateWithBadNameIsInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"A_B"}}
= 422 Invalid
? /details/causes/0/reason "FieldValueInvalid"
? /details/causes/0/field "metadata.name"
? /details/name "A_B"
)script"},
      {"CreateOfAnotherKindIsBad", false, R"script(
> POST ${core}/configmaps
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
= 400 BadRequest
)script"},
      {"CreateOfAnotherVersionIsBad", false, R"script(
> POST ${coordination}/leases
{"apiVersion":"coordination.k8s.io/v7","kind":"Lease","metadata":{"name":"a"}}
= 400 BadRequest
)script"},
      {"CreateInAnotherNamespaceIsBad", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","namespace":"another"}}
= 400 BadRequest
? /message ~namespace
)script"},
      {"CreateOfNoJsonIsBad", false, R"script(
> POST ${core}/configmaps
{"metadata":
= 400 BadRequest
)script"},
      {"CreateWithWrongTypeIsBad", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":7}}
= 400 BadRequest
)script"},
      {"CreateInAbsentNamespace", false, R"script(
> POST /api/v1/namespaces/${ns}-absent/configmaps
{"metadata":{"name":"a"}}
= 404 NotFound
? /details {"name":"${ns}-absent","kind":"namespaces"}
)script"},
      {"CreateWithTwoControllersIsInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","ownerReferences":[
{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1","controller":true},
{"apiVersion":"v1","kind":"Pod","name":"y","uid":"2","controller":true}]}}
= 422 Invalid
? /details/causes/0/field "metadata.ownerReferences"
)script"},
      {"GetOfAbsentIsNotFound", false, R"script(
> GET ${core}/configmaps/none
= 404 NotFound
? /message "configmaps \"none\" not found"
? /details {"name":"none","kind":"configmaps"}
? /apiVersion "v1"
? /metadata {}
)script"},
      {"UnknownResourceIsNotFound", false, R"script(
> GET ${core}/gadgets
= 404
)script"},
      {"UnknownGroupIsNotFound", false, R"script(
> GET /apis/nothing.example.com/v1/gadgets
= 404
)script"},
      {"MethodOfACollection", false, R"script(
> PUT ${core}/configmaps
{"metadata":{"name":"a"}}
= 405 MethodNotAllowed
)script"},
      {"MethodOfAnObject", false, R"script(
> POST ${core}/configmaps/a
{"metadata":{"name":"a"}}
= 405 MethodNotAllowed
)script"},
      {"UpdateReplacesAll", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}
= 201
! uid /metadata/uid
! rv /metadata/resourceVersion
> PUT ${core}/configmaps/a
{"metadata":{"name":"a"},"data":{"l":"w"}}
= 200
? /data {"l":"w"}
? /metadata/labels absent
? /metadata/uid "${uid}"
? /metadata/creationTimestamp present
)script"},
      {"UpdateWithOldVersionConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"${rv}"},"data":{"k":"1"}}
= 200
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"${rv}"},"data":{"k":"2"}}
= 409 Conflict
? /message "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
? /details {"name":"a","kind":"configmaps"}
> GET ${core}/configmaps/a
? /data/k "1"
)script"},
      {"UpdateOfLeaseWithoutVersionIsInvalid", false, R"script(
> POST ${coordination}/leases
{"metadata":{"name":"a"},"spec":{"holderIdentity":"me"}}
= 201
> PUT ${coordination}/leases/a
{"metadata":{"name":"a"},"spec":{"holderIdentity":"you"}}
= 422 Invalid
? /details/causes/0/field "metadata.resourceVersion"
? /message ~must be specified for an update
)script"},
      {"UpdateWithAnotherUidConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 201
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","uid":"other"}}
= 409 Conflict
? /message ~Precondition failed: UID in precondition: other
)script"},
      {"UpdateOfAbsentIsNotFound", false, R"script(
> PUT ${core}/configmaps/none
{"metadata":{"name":"none"}}
= 404 NotFound
)script"},
      {"UpdateOfAbsentLeaseCreates", false, R"script(
> PUT ${coordination}/leases/a
{"metadata":{"name":"a"},"spec":{"holderIdentity":"me"}}
= 201
? /spec/holderIdentity "me"
)script"},
      {"UpdateWithAnotherNameIsBad", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 201
> PUT ${core}/configmaps/a
{"metadata":{"name":"b"}}
= 400 BadRequest
? /message ~does not match the name on the URL
)script"},
      {"UpdateWithoutChangeWritesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PUT ${core}/configmaps/a
{"metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /metadata/resourceVersion "${rv}"
)script"},
      {"ImmutableConfigMapStays", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"},"immutable":true}
= 201
> PUT ${core}/configmaps/a
{"metadata":{"name":"a"},"data":{"k":"w"},"immutable":true}
= 422 Invalid
)script"},
      {"SecretTypeIsImmutable", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"},"type":"example.com/a"}
= 201
> PUT ${core}/secrets/a
{"metadata":{"name":"a"},"type":"example.com/b"}
= 422 Invalid
)script"},
      {"SecretStringDataBecomesData", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"},"stringData":{"k":"v"}}
= 201
? /data/k "dg=="
? /stringData absent
? /type "Opaque"
)script"},
      {"GenerationCountsSpecs", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
= 201
? /metadata/generation 1
> PATCH ${apps}/deployments/a merge
{"metadata":{"labels":{"x":"y"}}}
= 200
? /metadata/generation 1
> PATCH ${apps}/deployments/a merge
{"spec":{"minReadySeconds":3}}
= 200
? /metadata/generation 2
)script"},
      {"SelectorOfADeploymentIsImmutable", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","c":"d"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
= 201
> PATCH ${apps}/deployments/a merge
{"spec":{"selector":{"matchLabels":{"a":null,"c":"d"}}}}
= 422 Invalid
)script"},
      {"DryRunCreatesNothing", false, R"script(
> POST ${core}/configmaps?dryRun=All
{"metadata":{"name":"a"}}
= 201
? /metadata/uid present
> GET ${core}/configmaps/a
= 404
)script"},
      {"DryRunChangesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PUT ${core}/configmaps/a?dryRun=All
{"metadata":{"name":"a"},"data":{"k":"w"}}
= 200
? /data/k "w"
> PATCH ${core}/configmaps/a?dryRun=All merge
{"data":{"k":"x"}}
= 200
? /data/k "x"
> DELETE ${core}/configmaps/a?dryRun=All
= 200
> GET ${core}/configmaps/a
= 200
? /data/k "v"
? /metadata/resourceVersion "${rv}"
)script"},
      {"DryRunStillRefuses", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> POST ${core}/configmaps?dryRun=All
{"metadata":{"name":"a"}}
= 409 AlreadyExists
)script"},
      {"DryRunOfAnotherWordIsInvalid", false, R"script(
> POST ${core}/configmaps?dryRun=Some
{"metadata":{"name":"a"}}
= 422 Invalid
)script"},
      {"UnknownMediaType", false, R"script(
> POST ${core}/configmaps text/csv
{"metadata":{"name":"a"}}
= 415 UnsupportedMediaType
)script"},
      {"PodGetsDefaults", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
? /spec/restartPolicy "Always"
? /spec/terminationGracePeriodSeconds 30
? /spec/dnsPolicy "ClusterFirst"
? /status/phase "Pending"
? /metadata/generation 1
)script"},
      {"PodWithoutContainersIsInvalid", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"containers":[]}}
= 422 Invalid
)script"},
      {"PodSpecIsImmutable", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> PATCH ${core}/pods/a merge
{"spec":{"hostNetwork":true}}
= 422 Invalid
)script"},
      {"NamespaceHasLabelAndFinalizer", false, R"script(
> GET /api/v1/namespaces/${ns}
= 200
? /metadata/labels/kubernetes.io~1metadata.name "${ns}"
? /spec/finalizers ["kubernetes"]
? /status/phase "Active"
)script"},
      {"VersionSaysItself", false, R"script(
> GET /version
= 200
? /major "1"
? /gitVersion ~v1.
)script"},
      {"DiscoveryOfTheCore", false, R"script(
> GET /api/v1
= 200
? /kind "APIResourceList"
? /groupVersion "v1"
)script"},
      {"DiscoveryOfAGroup", false, R"script(
> GET /apis/coordination.k8s.io/v1
= 200
? /kind "APIResourceList"
? /groupVersion "coordination.k8s.io/v1"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
