// Deletion: options, finalizers, owners, namespaces.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> DeletionCases() {
  return {
      {"DeleteAnswersWithAStatus", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! uid /metadata/uid
> DELETE ${core}/configmaps/a
= 200
? /kind "Status"
? /status "Success"
? /details {"name":"a","kind":"configmaps","uid":"${uid}"}
> GET ${core}/configmaps/a
= 404
)script"},
      {"DeleteOfAbsentIsNotFound", false, R"script(
> DELETE ${core}/configmaps/none
= 404 NotFound
)script"},
      {"DeleteTwiceIsNotFound", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> DELETE ${core}/configmaps/a
= 200
> DELETE ${core}/configmaps/a
= 404 NotFound
)script"},
      {"DeleteOfAServiceAccountAnswersWithIt", false, R"script(
> POST ${core}/serviceaccounts
{"metadata":{"name":"a"}}
= 201
> DELETE ${core}/serviceaccounts/a
= 200
? /kind "ServiceAccount"
? /metadata/name "a"
)script"},
      {"DeleteWithAnotherUidConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! uid /metadata/uid
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"other"}}
= 409 Conflict
? /message ~the UID in the precondition (other)
> DELETE ${core}/configmaps/a
{"preconditions":{"uid":"${uid}"}}
= 200
)script"},
      {"DeleteWithOldVersionConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! old /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"v"}}
! new /metadata/resourceVersion
> DELETE ${core}/configmaps/a
{"preconditions":{"resourceVersion":"${old}"}}
= 409 Conflict
? /message ~the ResourceVersion in the precondition
> DELETE ${core}/configmaps/a
{"preconditions":{"resourceVersion":"${new}"}}
= 200
)script"},
      {"FinalizerKeepsTheObject", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
= 201
> DELETE ${core}/configmaps/a
= 200
? /kind "ConfigMap"
? /metadata/deletionTimestamp present
? /metadata/deletionGracePeriodSeconds 0
? /metadata/finalizers ["example.com/f"]
> GET ${core}/configmaps/a
= 200
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
> GET ${core}/configmaps/a
= 404
)script"},
      {"DeletingTwiceChangesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
! rv /metadata/resourceVersion
> DELETE ${core}/configmaps/a
= 200
? /metadata/resourceVersion "${rv}"
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"NoNewFinalizersWhenDeleting", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
= 200
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":["example.com/f","example.com/g"]}}
= 422 Invalid
? /details/causes/0/reason "FieldValueForbidden"
? /message ~no new finalizers can be added if the object is being deleted
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"FinalizerRemovedByPut", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
> PUT ${core}/configmaps/a
{"metadata":{"name":"a"}}
= 200
> GET ${core}/configmaps/a
= 404
)script"},
      {"FinalizerOfBuiltinNeedsADomain", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["plain"]}}
= 422 Invalid
)script"},
      {"DeletionRaisesGeneration", false, R"script(
> POST ${policy}/poddisruptionbudgets
{"metadata":{"name":"a","finalizers":["example.com/f"]},"spec":{"minAvailable":1,"selector":{}}}
= 201
? /metadata/generation 1
> DELETE ${policy}/poddisruptionbudgets/a
= 200
? /metadata/generation 2
> PATCH ${policy}/poddisruptionbudgets/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"DeleteCollectionTakesASelector", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"x":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"x":"2"}}}
> DELETE ${core}/secrets?labelSelector=x%3D1
= 200
? /kind "SecretList"
> GET ${core}/secrets/a
= 404
> GET ${core}/secrets/b
= 200
)script"},
      {"DeleteCollectionOfNothing", false, R"script(
> DELETE ${core}/secrets?labelSelector=x%3Dnothing
= 200
? /items #0
)script"},
      {"UnknownPropagationIsInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> DELETE ${core}/configmaps/a
{"propagationPolicy":"Sideways"}
= 422 Invalid
> GET ${core}/configmaps/a
= 200
)script"},
      {"OrphanAndPropagationAreInvalid", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> DELETE ${core}/configmaps/a
{"propagationPolicy":"Orphan","orphanDependents":true}
= 422 Invalid
)script"},
      {"BackgroundCollectsDependents", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"owner"}}
! uid /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"${uid}"}]}}
= 201
> DELETE ${core}/configmaps/owner?propagationPolicy=Background
= 200
u 404 ${core}/configmaps/child
)script"},
      {"DefaultPropagationCollectsDependents", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"owner"}}
! uid /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"${uid}"}]}}
> DELETE ${core}/configmaps/owner
= 200
u 404 ${core}/configmaps/child
)script"},
      {"OrphanFreesDependents", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"owner"}}
! uid /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"${uid}"}]}}
> DELETE ${core}/configmaps/owner
{"propagationPolicy":"Orphan"}
= 200
? /metadata/finalizers ["orphan"]
u 404 ${core}/configmaps/owner
> GET ${core}/configmaps/child
= 200
? /metadata/ownerReferences absent
)script"},
      {"NotYetDeletedWithoutOrphansIsAccepted", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> DELETE ${core}/configmaps/a
{"orphanDependents":false}
= 202
? /metadata/deletionTimestamp present
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
> POST ${core}/configmaps
{"metadata":{"name":"b"}}
> DELETE ${core}/configmaps/b
{"orphanDependents":false}
= 200
)script"},
      {"ForegroundWaitsForDependents", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"owner"}}
! uid /metadata/uid
> POST ${core}/configmaps
{"metadata":{"name":"child","finalizers":["example.com/f"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"${uid}","blockOwnerDeletion":true}]}}
> DELETE ${core}/configmaps/owner
{"propagationPolicy":"Foreground"}
= 200
? /metadata/finalizers ["foregroundDeletion"]
> GET ${core}/configmaps/owner
= 200
w w ${core}/configmaps?fieldSelector=metadata.name%3Dchild&watch=true
e w ADDED
> PATCH ${core}/configmaps/child merge
{"metadata":{"finalizers":null}}
= 200
u 404 ${core}/configmaps/owner
)script"},
      {"AbsentOwnerIsCollected", true, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"00000000-0000-4000-8000-000000000000"}]}}
= 201
u 404 ${core}/configmaps/child
)script"},
      {"NamespaceTakesItsObjects", true, R"script(
> POST /api/v1/namespaces
{"metadata":{"name":"${ns}-b"}}
= 201
> POST /api/v1/namespaces/${ns}-b/configmaps
{"metadata":{"name":"a"}}
= 201
> DELETE /api/v1/namespaces/${ns}-b
= 200
? /status/phase "Terminating"
? /metadata/deletionTimestamp present
u 404 /api/v1/namespaces/${ns}-b
)script"},
      {"TerminatingNamespaceRefuses", true, R"script(
> POST /api/v1/namespaces
{"metadata":{"name":"${ns}-b"}}
= 201
> POST /api/v1/namespaces/${ns}-b/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
= 201
> DELETE /api/v1/namespaces/${ns}-b
= 200
> POST /api/v1/namespaces/${ns}-b/secrets
{"metadata":{"name":"late"}}
= 403 Forbidden
? /details/causes/0/reason "NamespaceTerminating"
? /details/causes/0/field "metadata.namespace"
> PATCH /api/v1/namespaces/${ns}-b/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
u 404 /api/v1/namespaces/${ns}-b
)script"},
      {"DefaultNamespaceIsImmortal", false, R"script(
> DELETE /api/v1/namespaces/default
= 403 Forbidden
)script"},
      {"UnscheduledPodGoesAtOnce", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
= 201
> DELETE ${core}/pods/a
= 200
? /kind "Pod"
> GET ${core}/pods/a
= 404
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
