// Watches: from where, what they show, how they end.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> WatchCases() {
  return {
      {"WatchFromAListShowsWhatFollows", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
= 200
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! one /metadata/resourceVersion
e w ADDED
? /metadata/name "b"
? /kind "Secret"
? /apiVersion "v1"
? /metadata/resourceVersion "${one}"
> PATCH ${core}/secrets/b merge
{"metadata":{"labels":{"x":"y"}}}
! two /metadata/resourceVersion
e w MODIFIED
? /metadata/labels/x "y"
? /metadata/resourceVersion "${two}"
> DELETE ${core}/secrets/b
e w DELETED
? /metadata/name "b"
? /metadata/labels/x "y"
)script"},
      {"WatchResumesWithoutLoss", false, R"script(
> GET ${core}/secrets
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! one /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> DELETE ${core}/secrets/a
w w ${core}/secrets?watch=true&resourceVersion=${rv}
e w ADDED
? /metadata/name "a"
e w ADDED
? /metadata/name "b"
e w DELETED
? /metadata/name "a"
c w
w w ${core}/secrets?watch=true&resourceVersion=${one}
e w ADDED
? /metadata/name "b"
e w DELETED
)script"},
      {"DeletedHasTheRevisionOfTheDeletion", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! one /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${one}
> DELETE ${core}/secrets/a
e w DELETED
! gone /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
w v ${core}/secrets?watch=true&resourceVersion=${gone}
e v ADDED
? /metadata/name "b"
)script"},
      {"WatchWithoutVersionBeginsWithWhatIsThere", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
w w ${core}/secrets?watch=true
e w ADDED
? /metadata/name "a"
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
)script"},
      {"WatchFromZeroBeginsWithWhatIsThere", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> GET ${core}/secrets?resourceVersion=${rv}&resourceVersionMatch=NotOlderThan
w w ${core}/secrets?watch=true&resourceVersion=0
e w ADDED
? /metadata/name "a"
)script"},
      {"SelectorTurnsChangesIntoArrivals", false, R"script(
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}&labelSelector=x%3Dy
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":{"x":"y"}}}
e w ADDED
? /metadata/labels/x "y"
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":{"x":"z"}}}
! gone /metadata/resourceVersion
e w DELETED
? /metadata/labels/x "y"
? /metadata/resourceVersion "${gone}"
)script"},
      {"FieldSelectorOfAWatch", false, R"script(
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}&fieldSelector=metadata.name%3Db
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
)script"},
      {"TimeoutEndsWell", false, R"script(
> GET ${core}/secrets
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}&timeoutSeconds=1
x w
)script"},
      {"WatchListEndsItsBeginning", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
w w ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true
e w ADDED
? /metadata/name "a"
e w BOOKMARK
? /metadata/annotations/k8s.io~1initial-events-end "true"
? /metadata/resourceVersion present
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
w v ${core}/secrets?watch=true&resourceVersion=${rv}
e v ADDED
? /metadata/name "b"
)script"},
      {"WatchListOfNothing", false, R"script(
w w ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true
e w BOOKMARK
? /kind "Secret"
? /metadata/annotations/k8s.io~1initial-events-end "true"
)script"},
      {"WatchListAtARevision", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=${rv}
e w ADDED
? /metadata/name "a"
e w BOOKMARK
)script"},
      {"InitialEventsNeedTheMatch", false, R"script(
> GET ${core}/secrets?watch=true&sendInitialEvents=true
= 422 Invalid
)script"},
      {"MatchNeedsInitialEvents", false, R"script(
> GET ${core}/secrets?watch=true&resourceVersionMatch=NotOlderThan
= 422 Invalid
)script"},
      {"ExactIsNoMatchForAWatch", false, R"script(
> GET ${core}/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1
= 422 Invalid
)script"},
      {"WatchByUnknownFieldIsBad", false, R"script(
> GET ${core}/secrets?watch=true&fieldSelector=data%3Dx
= 400 BadRequest
)script"},
      {"FinalizersGoByModifiedThenDeleted", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> DELETE ${core}/secrets/a
e w MODIFIED
? /metadata/deletionTimestamp present
> PATCH ${core}/secrets/a merge
{"metadata":{"finalizers":null}}
e w DELETED
? /metadata/name "a"
)script"},
      {"NoEventForNoChange", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
w w ${core}/secrets?watch=true&resourceVersion=${rv}
> PATCH ${core}/secrets/a merge
{"metadata":{"labels":null}}
= 200
> POST ${core}/secrets
{"metadata":{"name":"b"}}
e w ADDED
? /metadata/name "b"
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
