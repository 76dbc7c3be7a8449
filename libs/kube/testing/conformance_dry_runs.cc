// Dry runs of every verb, deletions in bulk, and what is refused for several causes at once.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> DryRunCases() {
  return {
      {"DryRunOfAGeneratedNameMakesNothing", false, R"script(
> POST ${core}/secrets?dryRun=All
{"metadata":{"generateName":"gen-"}}
= 201
? /metadata/name ~gen-
> GET ${core}/secrets
? /items #0
)script"},
      {"DryRunOfEveryPatchChangesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a?dryRun=All json
[{"op":"replace","path":"/data/k","value":"1"}]
= 200
? /data/k "1"
> PATCH ${core}/configmaps/a?dryRun=All strategic
{"data":{"k":"2"}}
= 200
? /data/k "2"
? /metadata/resourceVersion "${rv}"
> GET ${core}/configmaps/a
? /data/k "v"
? /metadata/resourceVersion "${rv}"
)script"},
      {"DryRunOfAStaleWriteConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"v"}}
> PUT ${core}/configmaps/a?dryRun=All
{"metadata":{"name":"a","resourceVersion":"${rv}"}}
= 409 Conflict
> DELETE ${core}/configmaps/a?dryRun=All
{"preconditions":{"resourceVersion":"${rv}"}}
= 409 Conflict
)script"},
      {"DryRunOfWhatIsInvalidIsRefused", false, R"script(
> POST ${core}/configmaps?dryRun=All
{"metadata":{"name":"A_B"}}
= 422 Invalid
? /details/causes/0/field "metadata.name"
)script"},
      {"DryRunOfAStatusChangesNothing", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> PATCH ${core}/pods/a/status?dryRun=All merge
{"status":{"message":"m"}}
= 200
? /status/message "m"
> GET ${core}/pods/a
? /status/message absent
)script"},
      {"DryRunOfAScaleChangesNothing", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
> PUT ${apps}/deployments/a/scale?dryRun=All
{"metadata":{"name":"a"},"spec":{"replicas":3}}
= 200
? /spec/replicas 3
> GET ${apps}/deployments/a
? /spec/replicas 0
)script"},
      {"DryRunOfABindingPlacesNothing", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> POST ${core}/pods/a/binding?dryRun=All
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}
= 201
> GET ${core}/pods/a
? /spec/nodeName absent
)script"},
      {"DryRunOfADeletionKeepsFinalizersOut", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a?dryRun=All
= 200
> GET ${core}/configmaps/a
? /metadata/deletionTimestamp absent
> DELETE ${core}/configmaps/a
{"dryRun":["All"]}
= 200
> GET ${core}/configmaps/a
? /metadata/deletionTimestamp absent
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
)script"},
      {"DryRunOfDeleteCollectionDeletesNothing", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> DELETE ${core}/secrets?dryRun=All
= 200
> GET ${core}/secrets
? /items #1
)script"},
      {"DeleteCollectionByFields", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> DELETE ${core}/secrets?fieldSelector=metadata.name!%3Da
= 200
> GET ${core}/secrets
? /items #1
? /items/0/metadata/name "a"
)script"},
      {"DeleteCollectionWaitsForFinalizers", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> DELETE ${core}/secrets
= 200
> GET ${core}/secrets
? /items #1
? /items/0/metadata/name "a"
? /items/0/metadata/deletionTimestamp present
> PATCH ${core}/secrets/a merge
{"metadata":{"finalizers":null}}
= 200
> GET ${core}/secrets
? /items #0
)script"},
      {"DeleteCollectionIsWatched", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> DELETE ${core}/secrets
= 200
e w DELETED
e w DELETED
)script"},
      {"OneFinalizerOfTwoIsNotEnough", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f","example.com/g"]}}
> DELETE ${core}/configmaps/a
= 200
> PATCH ${core}/configmaps/a json
[{"op":"remove","path":"/metadata/finalizers/0"}]
= 200
? /metadata/finalizers ["example.com/g"]
> PATCH ${core}/configmaps/a json
[{"op":"remove","path":"/metadata/finalizers/0"}]
= 200
> GET ${core}/configmaps/a
= 404
)script"},
      {"FinalizerIsGivenUpByApply", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
= 200
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
> GET ${core}/configmaps/a
= 404
)script"},
      {"DeletionCannotBeTakenBack", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
! when /metadata/deletionTimestamp
> PATCH ${core}/configmaps/a merge
{"metadata":{"deletionTimestamp":null,"labels":{"x":"y"}}}
= 200
? /metadata/deletionTimestamp "${when}"
? /metadata/labels/x "y"
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"GraceOnlyGetsShorter", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","terminationGracePeriodSeconds":600,"containers":[{"name":"c","image":"i"}]}}
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"${ns}-node"}}
= 201
> DELETE ${core}/pods/a
= 200
? /metadata/deletionGracePeriodSeconds 600
> DELETE ${core}/pods/a?gracePeriodSeconds=300
= 200
? /metadata/deletionGracePeriodSeconds 300
> DELETE ${core}/pods/a?gracePeriodSeconds=500
= 200
? /metadata/deletionGracePeriodSeconds 300
> DELETE ${core}/pods/a?gracePeriodSeconds=0
= 200
> GET ${core}/pods/a
= 404
)script"},
      {"ForegroundWithoutDependentsEndsByItself", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> DELETE ${core}/configmaps/a?propagationPolicy=Foreground
= 200
? /metadata/finalizers ["foregroundDeletion"]
u 404 ${core}/configmaps/a
)script"},
      {"DependentOfTwoOwnersOutlivesOne", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"o"}}
! o /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"p"}}
! p /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"${o}"},{"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"${p}"}]}}
> DELETE ${core}/configmaps/o?propagationPolicy=Foreground
= 200
u 404 ${core}/configmaps/o
> GET ${core}/configmaps/child
= 200
> DELETE ${core}/configmaps/p
= 200
u 404 ${core}/configmaps/child
)script"},
      {"TwoBadKeysAreTwoCauses", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"a b":"1","c d":"2"}}
= 422 Invalid
? /details/causes #2
? /details/causes/0/reason "FieldValueInvalid"
)script"},
      {"NameAndLabelsAreTwoCauses", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"A_B","labels":{"-":"1"}}}
= 422 Invalid
? /details/causes #2
? /details/causes/0/field "metadata.name"
? /details/causes/1/field "metadata.labels"
)script"},
      {"ContainerWithoutNameAndImage", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"containers":[{"name":""}]}}
= 422 Invalid
? /details/causes #2
? /details/causes/0/reason "FieldValueRequired"
? /details/causes/0/field "spec.containers[0].name"
? /details/causes/1/field "spec.containers[0].image"
)script"},
      {"LeaseOfNegativeTimes", false, R"script(
> POST ${coordination}/leases
{"metadata":{"name":"a"},"spec":{"holderIdentity":"me","leaseDurationSeconds":-1,"leaseTransitions":-1}}
= 422 Invalid
? /details/causes #2
? /details/causes/0/field "spec.leaseDurationSeconds"
? /details/causes/1/field "spec.leaseTransitions"
)script"},
      {"BudgetOfTwoKindsIsInvalid", false, R"script(
> POST ${policy}/poddisruptionbudgets
{"metadata":{"name":"a"},"spec":{"minAvailable":1,"maxUnavailable":1,"selector":{}}}
= 422 Invalid
? /details/causes/0/field "spec"
)script"},
      {"TemplateHasToFitItsSelector", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
= 422 Invalid
? /details/causes #2
)script"},
      {"OwnerThatLacksAllIsSeveralCauses", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":""}]}}
= 422 Invalid
? /details/causes #4
)script"},
      {"UnknownFieldIsBadWhenStrict", false, R"script(
> POST ${core}/configmaps?fieldValidation=Strict
{"metadata":{"name":"a"},"datum":{"k":"v"}}
= 400 BadRequest
? /message ~unknown field "datum"
> GET ${core}/configmaps/a
= 404
)script"},
      {"UnknownFieldIsLeftOutOtherwise", false, R"script(
> POST ${core}/configmaps?fieldValidation=Ignore
{"metadata":{"name":"a"},"datum":{"k":"v"}}
= 201
? /datum absent
> PATCH ${core}/configmaps/a merge
{"datum":{"k":"v"}}
= 200
? /datum absent
> PUT ${core}/configmaps/a
{"metadata":{"name":"a"},"datum":{"k":"v"},"data":{"k":"v"}}
= 200
? /datum absent
? /data/k "v"
)script"},
      {"ValidationOfAnotherWordIsInvalid", false, R"script(
> POST ${core}/configmaps?fieldValidation=Some
{"metadata":{"name":"a"}}
= 422 Invalid
? /details/causes/0/field "fieldValidation"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
