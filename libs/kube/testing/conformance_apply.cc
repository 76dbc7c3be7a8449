// Server-side apply: who owns what.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> ApplyCases() {
  return {
      {"ApplyCreates", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}
= 201
? /metadata/managedFields #1
? /metadata/managedFields/0/manager "me"
? /metadata/managedFields/0/operation "Apply"
? /metadata/managedFields/0/fieldsType "FieldsV1"
? /metadata/managedFields/0/fieldsV1 {"f:data":{"f:k":{}},"f:metadata":{"f:labels":{"f:x":{}}}}
)script"},
      {"ApplyNeedsAManager", false, R"script(
> PATCH ${core}/configmaps/a apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 422 Invalid
? /details/causes/0/field "fieldManager"
)script"},
      {"ApplyNeedsAKind", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"metadata":{"name":"a"}}
= 400 BadRequest
)script"},
      {"ApplyRefusesManagedFields", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]}}
= 400 BadRequest
? /message ~metadata.managedFields must be nil
)script"},
      {"ApplyWithAnotherUidIsRefused", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"other"}}
= 422 Invalid
? /details/causes/0/field "metadata.uid"
)script"},
      {"ApplyAgainWritesNothing", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /metadata/resourceVersion "${rv}"
)script"},
      {"ApplyWithoutAFieldRemovesIt", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v","l":"w"}}
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /data {"k":"v"}
? /metadata/labels absent
)script"},
      {"ApplyKeepsWhatOthersSet", false, R"script(
> POST ${core}/configmaps?fieldManager=other
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"l":"w"}}
= 200
? /data {"k":"v","l":"w"}
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data {"k":"v"}
)script"},
      {"ApplyConflictsWithAnotherApply", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /message "Apply failed with 1 conflict: conflict with \"one\": .data.k"
? /details/causes #1
? /details/causes/0/reason "FieldManagerConflict"
? /details/causes/0/message "conflict with \"one\""
? /details/causes/0/field ".data.k"
> GET ${core}/configmaps/a
? /data/k "v"
)script"},
      {"ApplyConflictsWithAnUpdate", false, R"script(
> POST ${core}/configmaps?fieldManager=one
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 409 Conflict
? /details/causes/0/message ~conflict with "one" using v1
? /details/causes/0/field ".data.k"
)script"},
      {"ApplyNamesEveryConflict", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","l":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w","l":"w"}}
= 409 Conflict
? /details/causes #2
? /message ~Apply failed with 2 conflicts: conflicts with "one":
)script"},
      {"ApplyOfTheSameValueShares", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /metadata/managedFields #2
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data/k "v"
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /data absent
)script"},
      {"ForceTakesOwnership", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
? /data/k "w"
? /metadata/managedFields #1
? /metadata/managedFields/0/manager "two"
)script"},
      {"UpdateTakesOwnership", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","l":"w"}}
> PATCH ${core}/configmaps/a?fieldManager=two merge
{"data":{"k":"u"}}
= 200
? /metadata/managedFields #2
? /metadata/managedFields/0/manager "one"
? /metadata/managedFields/0/fieldsV1 {"f:data":{"f:l":{}}}
? /metadata/managedFields/1/manager "two"
? /metadata/managedFields/1/operation "Update"
? /metadata/managedFields/1/fieldsV1 {"f:data":{"f:k":{}}}
)script"},
      {"ApplyTakesBackByForceOnly", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a?fieldManager=two merge
{"data":{"k":"u"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 409 Conflict
> PATCH ${core}/configmaps/a?fieldManager=one&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
= 200
? /data/k "v"
)script"},
      {"ApplyMergesContainersByName", false, R"script(
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
= 201
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}}
= 200
? /spec/template/spec/containers #2
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
= 200
? /spec/template/spec/containers #1
? /spec/template/spec/containers/0/name "c"
)script"},
      {"ApplyConflictInAList", false, R"script(
> PATCH ${apps}/deployments/a?fieldManager=one apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
= 201
> PATCH ${apps}/deployments/a?fieldManager=two apply
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j"}]}}}}
= 409 Conflict
? /details/causes/0/field ".spec.template.spec.containers[name=\"c\"].image"
)script"},
      {"ApplySharesFinalizers", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/f"]}}
= 201
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/g"]}}
= 200
? /metadata/finalizers #2
? /metadata/managedFields #2
> PATCH ${core}/configmaps/a?fieldManager=one apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/finalizers ["example.com/g"]
> PATCH ${core}/configmaps/a?fieldManager=two apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 200
? /metadata/finalizers absent
)script"},
      {"ApplyWithOldVersionConflicts", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"w"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"${rv}"},"data":{"k":"x"}}
= 409 Conflict
)script"},
      {"ApplyWithAnotherNameIsBad", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}
= 400 BadRequest
)script"},
      {"ApplyWithDryRunWritesNothing", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me&dryRun=All apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}
= 201
> GET ${core}/configmaps/a
= 404
)script"},
      {"ApplyOfALeaseMovesTheHolder", false, R"script(
> PATCH ${coordination}/leases/a?fieldManager=one apply
{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"one","leaseDurationSeconds":15}}
= 201
> PATCH ${coordination}/leases/a?fieldManager=two apply
{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"two"}}
= 409 Conflict
? /details/causes/0/field ".spec.holderIdentity"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
