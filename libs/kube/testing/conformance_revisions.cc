// Lists and watches of the past, across writes, compactions and restarts of the server.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> RevisionCases() {
  return {
      {"PagesStayAtTheirStateWhateverIsWritten", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> POST ${core}/secrets
{"metadata":{"name":"d"}}
> POST ${core}/secrets
{"metadata":{"name":"e"}}
> GET ${core}/secrets?limit=1
? /items/0/metadata/name "b"
? /metadata/remainingItemCount 3
! rv /metadata/resourceVersion
! token /metadata/continue
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> DELETE ${core}/secrets/b
> PATCH ${core}/secrets/d merge
{"metadata":{"labels":{"x":"y"}}}
> POST ${core}/secrets
{"metadata":{"name":"f"}}
> GET ${core}/secrets?limit=2&continue=${token}
? /items #2
? /items/0/metadata/name "c"
? /items/1/metadata/name "d"
? /items/1/metadata/labels absent
? /metadata/resourceVersion "${rv}"
! token /metadata/continue
> DELETE ${core}/secrets/e
> GET ${core}/secrets?limit=2&continue=${token}
? /items #1
? /items/0/metadata/name "e"
? /metadata/continue absent
> GET ${core}/secrets
? /items #4
)script"},
      {"RestOfAListWithoutALimit", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?limit=1
! token /metadata/continue
> GET ${core}/secrets?continue=${token}
= 200
? /items #2
? /metadata/continue absent
)script"},
      {"PagesOfASelection", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"x":"y"}}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"c","labels":{"x":"y"}}}
> GET ${core}/secrets?limit=1&labelSelector=x%3Dy
? /items/0/metadata/name "a"
! token /metadata/continue
> GET ${core}/secrets?limit=1&labelSelector=x%3Dy&continue=${token}
? /items #1
? /items/0/metadata/name "c"
)script"},
      {"FieldsAndLabelsBothSelect", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"x":"y"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"x":"y"}}}
> GET ${core}/secrets?labelSelector=x%3Dy&fieldSelector=metadata.name%3Db
? /items #1
? /items/0/metadata/name "b"
)script"},
      {"BadLimitIsBad", false, R"script(
> GET ${core}/secrets?limit=many
= 400 BadRequest
)script"},
      {"BadVersionIsRefused", false, R"script(
> GET ${core}/secrets?resourceVersion=old
= 400
)script"},
      {"VersionWithoutMatchIsNotOlder", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! last /metadata/resourceVersion
> GET ${core}/secrets?resourceVersion=${last}
= 200
? /items #2
)script"},
      {"VersionWithALimitIsExact", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?resourceVersion=${rv}&limit=10
= 200
? /items #1
? /metadata/resourceVersion "${rv}"
)script"},
      {"NotOlderThanWithALimitIsOfNow", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! last /metadata/resourceVersion
> GET ${core}/secrets?resourceVersion=${last}&resourceVersionMatch=NotOlderThan&limit=1
= 200
? /items #1
? /metadata/continue present
)script"},
      {"ExactInPages", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! rv /metadata/resourceVersion
> DELETE ${core}/secrets/b
> GET ${core}/secrets?resourceVersion=${rv}&resourceVersionMatch=Exact&limit=1
= 200
? /metadata/resourceVersion "${rv}"
! token /metadata/continue
> GET ${core}/secrets?limit=1&continue=${token}
? /items/0/metadata/name "b"
? /metadata/resourceVersion "${rv}"
)script"},
      {"MatchWithATokenIsForbidden", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?limit=1
! token /metadata/continue
> GET ${core}/secrets?limit=1&continue=${token}&resourceVersionMatch=Exact
= 422 Invalid
? /details/causes/0/field "resourceVersionMatch"
)script"},
      {"ZeroOfAGetIsAnyState", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> GET ${core}/secrets?resourceVersion=${rv}&resourceVersionMatch=NotOlderThan
> GET ${core}/secrets/a?resourceVersion=0
= 200
? /metadata/name "a"
)script"},
      {"WatchFromAnotherKindsVersion", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
)script"},
      {"WatchFromTheVersionOfAModification", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":{"x":"1"}}}
! rv /metadata/resourceVersion
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":{"x":"2"}}}
w w ${core}/secrets?watch=true&resourceVersion=${rv}
e w MODIFIED
? /metadata/labels/x "2"
)script"},
      {"WatchFromAPagesVersion", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?limit=1
! rv /metadata/resourceVersion
> DELETE ${core}/secrets/b
w w ${core}/secrets?watch=true&resourceVersion=${rv}
e w DELETED
? /metadata/name "b"
)script"},
      {"WatchFromABadVersionIsRefused", false, R"script(
> GET ${core}/secrets?watch=true&resourceVersion=old
= 500
)script"},
      {"WatchOfNoInitialEvents", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=${rv}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
)script"},
      {"WatchListOfASelection", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"x":"y"}}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"c","labels":{"x":"y"}}}
w w ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x%3Dy
e w ADDED
? /metadata/name "a"
e w ADDED
? /metadata/name "c"
e w BOOKMARK
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":null}}
e w DELETED
? /metadata/name "a"
> PATCH ${core}/secrets/b merge
{"metadata":{"labels":{"x":"y"}}}
e w ADDED
? /metadata/name "b"
)script"},
      {"WatchListOfAField", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
w w ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Db
e w ADDED
? /metadata/name "b"
e w BOOKMARK
> DELETE ${core}/secrets/a
> DELETE ${core}/secrets/b
e w DELETED
? /metadata/name "b"
)script"},
      {"FieldThatChangesTurnsIntoADeletion", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}
! rv /metadata/resourceVersion
w w ${core}/pods?watch=true&resourceVersion=${rv}&fieldSelector=status.phase%3DPending
> PATCH ${core}/pods/a/status merge
{"status":{"phase":"Running"}}
! left /metadata/resourceVersion
e w DELETED
? /status/phase "Pending"
? /metadata/resourceVersion "${left}"
)script"},
      {"DeletionOfWhatIsNotSelectedIsNotSeen", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}&labelSelector=x%3Dy
> DELETE ${core}/secrets/a
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"x":"y"}}}
e w ADDED
? /metadata/name "b"
)script"},
      {"WatchOfAllNamespacesByOne", false, R"script(
> GET /api/v1/secrets?limit=1
! rv /metadata/resourceVersion
w w /api/v1/secrets?watch=true&resourceVersion=${rv}&fieldSelector=metadata.namespace%3D${ns}
> POST ${core}/secrets
{"metadata":{"name":"a"}}
e w ADDED
? /metadata/namespace "${ns}"
)script"},
      {"GraceIsSeenBeforeTheEnd", false, R"script(
u 200 ${core}/serviceaccounts/default
> POST ${core}/pods
{"metadata":{"name":"a"},"spec":{"schedulerName":"nobody","terminationGracePeriodSeconds":60,"containers":[{"name":"c","image":"i"}]}}
> POST ${core}/pods/a/binding
{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"${ns}-node"}}
> GET ${core}/pods/a
! rv /metadata/resourceVersion
w w ${core}/pods?watch=true&resourceVersion=${rv}
> DELETE ${core}/pods/a
e w MODIFIED
? /metadata/deletionGracePeriodSeconds 60
> DELETE ${core}/pods/a?gracePeriodSeconds=0
e w MODIFIED
? /metadata/deletionGracePeriodSeconds 0
e w DELETED
)script"},
      {"WatchOfAnEventlessTimeEndsWithABookmark", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}&allowWatchBookmarks=true&timeoutSeconds=4
e w BOOKMARK
? /kind "Secret"
? /metadata/resourceVersion present
x w
)script"},
      {"CompactionExpiresPages", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?limit=1
! token /metadata/continue
> POST ${core}/secrets
{"metadata":{"name":"c"}}
k compact
> GET ${core}/secrets?limit=1&continue=${token}
= 410 Expired
? /message ~The provided continue parameter is too old
? /metadata/continue present
! token /metadata/continue
> GET ${core}/secrets?limit=10&continue=${token}
= 200
? /items #2
? /items/0/metadata/name "b"
? /items/1/metadata/name "c"
)script"},
      {"CompactionExpiresThePast", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
k compact
> GET ${core}/secrets?resourceVersion=${rv}&resourceVersionMatch=Exact
= 410 Expired
> GET ${core}/secrets
= 200
? /items #2
)script"},
      {"CompactionExpiresWatches", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
k compact
w w ${core}/secrets?watch=true&resourceVersion=${rv}
= 200
e w ERROR
? /code 410
? /reason "Expired"
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
e w ADDED
? /metadata/name "c"
)script"},
      {"RestartEndsWatchesAndKeepsWhatWasWritten", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
! uid /metadata/uid
w w ${core}/secrets?watch=true&resourceVersion=${rv}
k restart
b w
> GET ${core}/secrets/a
= 200
? /metadata/uid "${uid}"
? /metadata/resourceVersion "${rv}"
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> DELETE ${core}/secrets/a
e w DELETED
)script"},
      {"RestartKeepsPages", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?limit=1
! token /metadata/continue
! rv /metadata/resourceVersion
> DELETE ${core}/secrets/b
k restart
> GET ${core}/secrets?limit=1&continue=${token}
= 200
? /items/0/metadata/name "b"
? /metadata/resourceVersion "${rv}"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
