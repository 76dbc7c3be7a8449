// Server-side apply among several managers: sharing, handing over, letting go.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> OwnershipCases() {
  return {
      {"CoOwnersMayNotChangeItAlone", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /details/causes #1
? /details/causes/0/reason "FieldManagerConflict"
? /details/causes/0/message ~conflict with "two"
? /details/causes/0/field ".data.k"
)script"},
      {"ForceOverTwoManagersTakesFromBoth", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"l":"2"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=three apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"3","l":"3"}}
= 409 Conflict
? /details/causes #2
> PATCH ${core}/configmaps/a?fieldManager=three&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"3","l":"3"}}
= 200
? /metadata/managedFields #1
? /metadata/managedFields/0/manager "three"
? /data {"k":"3","l":"3"}
)script"},
      {"HandingOverLeavesTheValue", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data/k "w"
? /metadata/managedFields #1
? /metadata/managedFields/0/manager "two"
)script"},
      {"LettingGoOfAllGivesUpTheEntry", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data absent
? /metadata/managedFields absent
)script"},
      {"WhatWasCreatedIsSharedByAnApplyOfTheSame", false, R"script(
> POST ${core}/configmaps?fieldManager=maker
{"metadata":{"name":"a"},"data":{"k":"v","l":"w"}}
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /metadata/managedFields #2
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data {"k":"v","l":"w"}
)script"},
      {"ApplyConflictsWithACreator", false, R"script(
> POST ${core}/configmaps?fieldManager=maker
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /details/causes/0/message ~conflict with "maker" using v1
)script"},
      {"UpdateAndApplyOfOneNameAreTwoManagers", false, R"script(
> POST ${core}/configmaps?fieldManager=me
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /details/causes/0/message ~conflict with "me" using v1
> PATCH ${core}/configmaps/a?fieldManager=me&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
? /metadata/managedFields/0/operation "Apply"
? /metadata/managedFields/0/fieldsV1 {"f:data":{"f:k":{}}}
)script"},
      {"UpdateWithoutAFieldTakesItFromItsOwner", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","l":"w"}}
> PUT ${core}/configmaps/a?fieldManager=two
{"metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /data {"k":"v"}
> PATCH ${core}/configmaps/a?fieldManager=three apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"l":"other"}}
= 200
? /data {"k":"v","l":"other"}
)script"},
      {"LabelsAreOwnedOneByOne", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"1"},"annotations":{"p":"1"}}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"y":"2"},"annotations":{"q":"2"}}}
= 200
? /metadata/labels {"x":"1","y":"2"}
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/labels {"y":"2"}
? /metadata/annotations {"q":"2"}
)script"},
      {"FinalizerOfTwoStaysForTheOther", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/f"]}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/f"]}}
= 200
? /metadata/finalizers #1
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/finalizers ["example.com/f"]
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/finalizers absent
)script"},
      {"OwnersMergeByUid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"o"}}
! o /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"p"}}
! p /metadata/uid
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"${o}"}]}}
= 201
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"${p}"}]}}
= 200
? /metadata/ownerReferences #2
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/ownerReferences #1
? /metadata/ownerReferences/0/name "p"
)script"},
      {"EnvironmentMergesByName", false, R"script(
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"X","value":"1"}]}]}}}}
= 201
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"Y","value":"2"}]}]}}}}
= 200
? /spec/template/spec/containers/0/env #2
? /spec/template/spec/containers/0/image "i"
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"X","value":"2"}]}]}}}}
= 409 Conflict
? /details/causes/0/field ".spec.template.spec.containers[name=\"c\"].env[name=\"X\"].value"
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
= 200
? /spec/template/spec/containers/0/env #1
)script"},
      {"ArgumentsAreOwnedAsAWhole", false, R"script(
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","args":["1","2"]}]}}}}
= 201
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","args":["1","3"]}]}}}}
= 409 Conflict
? /details/causes #1
? /details/causes/0/field ".spec.template.spec.containers[name=\"c\"].args"
> PATCH ${apps}/deployments/a?fieldManager=two&force=true apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","args":["3"]}]}}}}
= 200
? /spec/template/spec/containers/0/args ["3"]
)script"},
      {"ReplicasAreHandedToAScaler", false, R"script(
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
= 201
> PATCH ${apps}/deployments/a?fieldManager=scaler merge
{"spec":{"replicas":1}}
= 200
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
= 409 Conflict
? /details/causes/0/field ".spec.replicas"
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
= 200
? /spec/replicas 1
)script"},
      {"ApplyOfAStatusHasItsOwnEntry", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods?fieldManager=maker
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> PATCH ${core}/pods/a/status?fieldManager=one apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"message":"m"}}
= 200
? /status/message "m"
? /metadata/managedFields/0/manager "one"
? /metadata/managedFields/0/operation "Apply"
? /metadata/managedFields/0/subresource "status"
? /metadata/managedFields/0/fieldsV1 {"f:status":{"f:message":{}}}
> PATCH ${core}/pods/a/status?fieldManager=two apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"message":"n"}}
= 409 Conflict
? /details/causes/0/message ~conflict with "one" with subresource "status"
? /details/causes/0/field ".status.message"
)script"},
      {"ApplyOfAnObjectLeavesItsStatus", false, R"script(
u 200 ${core}/serviceaccounts/default
> PATCH ${core}/pods/a?fieldManager=one apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]},"status":{"message":"m"}}
= 201
? /status/message absent
> PATCH ${core}/pods/a/status?fieldManager=two apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"message":"n"}}
= 200
> PATCH ${core}/pods/a?fieldManager=one apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]},"status":{"message":"o"}}
= 200
? /status/message "n"
)script"},
      {"ApplyOfAStatusOfAbsentIsNotFound", false, R"script(
> PATCH ${core}/pods/none/status?fieldManager=one apply
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"none"},"status":{"message":"m"}}
= 404 NotFound
)script"},
      {"DryRunOfAnApplyStillConflicts", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a?fieldManager=two&dryRun=All apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
> PATCH ${core}/configmaps/a?fieldManager=two&dryRun=All&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
? /metadata/managedFields/0/manager "two"
> GET ${core}/configmaps/a
? /data/k "v"
? /metadata/managedFields/0/manager "one"
? /metadata/resourceVersion "${rv}"
)script"},
      {"ManagersAreForgottenByAnEmptyEntry", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a merge
{"metadata":{"managedFields":[{}]}}
= 200
? /metadata/managedFields absent
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /details/causes/0/message ~conflict with "before-first-apply" using v1
> PATCH ${core}/configmaps/a?fieldManager=two&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
? /data/k "w"
)script"},
      {"ManagerOfTooLongANameIsInvalid", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 422 Invalid
? /details/causes/0/field "fieldManager"
)script"},
      {"DeletionForgetsManagers", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> DELETE ${core}/configmaps/a
= 200
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 201
? /metadata/managedFields #1
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
