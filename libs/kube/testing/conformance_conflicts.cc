// Who is too late: old versions, other uids, in every verb.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> ConflictCases() {
  return {
      {"UpdateWithVersionAndUidOfNow", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
! uid /metadata/uid
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"${rv}","uid":"${uid}"},"data":{"k":"v"}}
= 200
? /data/k "v"
)script"},
      {"UpdateWithAVersionToComeConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"999999999999"}}
= 409 Conflict
)script"},
      {"UpdateWithOldVersionAndAnotherUid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"v"}}
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"${rv}","uid":"other"}}
= 409 Conflict
)script"},
      {"UpdateOfWhatWasMadeAnewConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
! uid /metadata/uid
> DELETE ${core}/configmaps/a
= 200
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 201
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","resourceVersion":"${rv}"}}
= 409 Conflict
> PUT ${core}/configmaps/a
{"metadata":{"name":"a","uid":"${uid}"}}
= 409 Conflict
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"${uid}"}}
= 409 Conflict
> PATCH ${core}/configmaps/a merge
{"metadata":{"resourceVersion":"${rv}"},"data":{"k":"v"}}
= 409 Conflict
)script"},
      {"StrategicPatchWithOldVersionConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a strategic
{"metadata":{"resourceVersion":"${rv}"},"data":{"k":"1"}}
= 200
> PATCH ${core}/configmaps/a strategic
{"metadata":{"resourceVersion":"${rv}"},"data":{"k":"2"}}
= 409 Conflict
> GET ${core}/configmaps/a
? /data/k "1"
)script"},
      {"StrategicPatchWithAnotherUidIsRefused", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a strategic
{"metadata":{"uid":"other"}}
= 422 Invalid
? /details/causes/0/field "metadata.uid"
)script"},
      {"JsonPatchWithOldVersionConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"0"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/metadata/resourceVersion","value":"${rv}"},
{"op":"replace","path":"/data/k","value":"1"}]
= 200
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/metadata/resourceVersion","value":"${rv}"},
{"op":"replace","path":"/data/k","value":"2"}]
= 409 Conflict
)script"},
      {"JsonPatchThatTestsAnOldVersionIsInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"0"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"1"}}
> PATCH ${core}/configmaps/a json
[{"op":"test","path":"/metadata/resourceVersion","value":"${rv}"},
{"op":"replace","path":"/data/k","value":"2"}]
= 422 Invalid
> GET ${core}/configmaps/a
? /data/k "1"
)script"},
      {"JsonPatchWithAnotherUidIsRefused", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/metadata/uid","value":"other"}]
= 422 Invalid
? /details/causes/0/field "metadata.uid"
)script"},
      {"PatchesOfTwoFieldsBothHold", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"0","l":"0"}}
> PATCH ${core}/configmaps/a?fieldManager=one merge
{"data":{"k":"1"}}
= 200
> PATCH ${core}/configmaps/a?fieldManager=two strategic
{"data":{"l":"1"}}
= 200
? /data {"k":"1","l":"1"}
)script"},
      {"StatusUpdateWithOldVersionConflicts", false, R"script(
> POST ${policy}/poddisruptionbudgets
{"metadata":{"name":"a"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"none":"x"}}}}
! rv /metadata/resourceVersion
> PATCH ${policy}/poddisruptionbudgets/a merge
{"metadata":{"labels":{"x":"y"}}}
= 200
> PUT ${policy}/poddisruptionbudgets/a/status
{"metadata":{"name":"a","resourceVersion":"${rv}"},"status":{"expectedPods":1,"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0}}
= 409 Conflict
)script"},
      {"StatusPatchWithOldVersionConflicts", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
! rv /metadata/resourceVersion
> PATCH ${core}/pods/a/status merge
{"metadata":{"resourceVersion":"${rv}"},"status":{"message":"1"}}
= 200
> PATCH ${core}/pods/a/status merge
{"metadata":{"resourceVersion":"${rv}"},"status":{"message":"2"}}
= 409 Conflict
> GET ${core}/pods/a
? /status/message "1"
)script"},
      {"StatusPatchWithAnotherUidIsRefused", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> PATCH ${core}/pods/a/status merge
{"metadata":{"uid":"other"},"status":{"message":"1"}}
= 422 Invalid
? /details/causes/0/field "metadata.uid"
)script"},
      {"StatusAndSpecOfOneVersionConflict", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
! rv /metadata/resourceVersion
> PATCH ${core}/pods/a merge
{"metadata":{"resourceVersion":"${rv}","labels":{"x":"y"}}}
= 200
> PATCH ${core}/pods/a/status merge
{"metadata":{"resourceVersion":"${rv}"},"status":{"message":"1"}}
= 409 Conflict
)script"},
      {"ScalePatchWithOldVersionConflicts", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}
! rv /metadata/resourceVersion
> PATCH ${apps}/deployments/a merge
{"metadata":{"labels":{"x":"y"}}}
> PATCH ${apps}/deployments/a/scale merge
{"metadata":{"resourceVersion":"${rv}"},"spec":{"replicas":0}}
= 409 Conflict
)script"},
      {"DeleteNeedsBothPreconditions", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! uid /metadata/uid
! old /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"v"}}
! new /metadata/resourceVersion
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"${uid}","resourceVersion":"${old}"}}
= 409 Conflict
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"other","resourceVersion":"${new}"}}
= 409 Conflict
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"${uid}","resourceVersion":"${new}"}}
= 200
)script"},
      {"DeleteOfWhatIsBeingDeletedStillConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
! uid /metadata/uid
! old /metadata/resourceVersion
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"${uid}","resourceVersion":"${old}"}}
= 200
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"other"}}
= 409 Conflict
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"EvictionWithAnotherUidConflicts", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
> POST ${core}/pods/a/eviction
{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"other"}}}
= 409 Conflict
> GET ${core}/pods/a
= 200
)script"},
      {"CreateWhileItIsBeingDeletedConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
= 200
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
= 409 AlreadyExists
? /message ~object is being deleted: configmaps "a" already exists
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"ApplyWithTheVersionOfNow", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"${rv}"},"data":{"k":"w"}}
= 200
? /data/k "w"
)script"},
      {"ForceDoesNotHelpAgainstAnOldVersion", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"w"}}
> PATCH ${core}/configmaps/a?fieldManager=me&force=true apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"${rv}"},"data":{"k":"x"}}
= 409 Conflict
? /message ~the object has been modified
> GET ${core}/configmaps/a
? /data/k "w"
)script"},
      {"ApplyOfAnAbsentObjectDoesNotLookAtItsVersion", false, R"script(
> PATCH ${core}/configmaps/a?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"}}
= 201
> PATCH ${core}/configmaps/b?fieldManager=me apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","uid":"other"}}
= 409 Conflict
> GET ${core}/configmaps/b
= 404
)script"},
      {"LeaseIsTakenOverOnce", false, R"script(
> POST ${coordination}/leases
{"metadata":{"name":"a"},"spec":{"holderIdentity":"one","leaseTransitions":1}}
! rv /metadata/resourceVersion
> PUT ${coordination}/leases/a
{"metadata":{"name":"a","resourceVersion":"${rv}"},"spec":{"holderIdentity":"two","leaseTransitions":2}}
= 200
> PUT ${coordination}/leases/a
{"metadata":{"name":"a","resourceVersion":"${rv}"},"spec":{"holderIdentity":"three","leaseTransitions":2}}
= 409 Conflict
? /details {"name":"a","group":"coordination.k8s.io","kind":"leases"}
> GET ${coordination}/leases/a
? /spec/holderIdentity "two"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
