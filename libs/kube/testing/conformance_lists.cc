// Lists: selectors, pages, revisions.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> ListCases() {
  return {
      {"ListIsOfItsNamespaceInOrder", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> GET ${core}/secrets
= 200
? /kind "SecretList"
? /apiVersion "v1"
? /metadata/resourceVersion present
? /metadata/continue absent
? /items #2
? /items/0/metadata/name "a"
? /items/1/metadata/name "b"
? /items/0/kind absent
? /items/0/apiVersion absent
)script"},
      {"ListOfAbsentNamespaceIsEmpty", false, R"script(
> GET /api/v1/namespaces/${ns}-absent/secrets
= 200
? /items #0
)script"},
      {"ListByMetadataName", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?fieldSelector=metadata.name%3Db
? /items #1
? /items/0/metadata/name "b"
> GET ${core}/secrets?fieldSelector=metadata.name!%3Db
? /items #1
? /items/0/metadata/name "a"
)script"},
      {"ListAllNamespacesByNamespace", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> GET /api/v1/secrets?fieldSelector=metadata.namespace%3D${ns}
? /items #1
)script"},
      {"ListSecretsByType", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"},"type":"example.com/x"}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?fieldSelector=type%3Dexample.com/x
? /items #1
? /items/0/metadata/name "a"
)script"},
      {"ListByUnknownFieldIsBad", false, R"script(
> GET ${core}/secrets?fieldSelector=data.k%3Dv
= 400 BadRequest
? /message ~field label not supported
)script"},
      {"ListByBadSelectorIsBad", false, R"script(
> GET ${core}/secrets?labelSelector=a%3D%3D%3D
= 400 BadRequest
)script"},
      {"PagesShowOneState", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?limit=2
? /items #2
? /metadata/remainingItemCount 1
! rv /metadata/resourceVersion
! token /metadata/continue
> POST ${core}/secrets
{"metadata":{"name":"d"}}
> DELETE ${core}/secrets/c
= 200
> GET ${core}/secrets?limit=2&continue=${token}
= 200
? /items #1
? /items/0/metadata/name "c"
? /metadata/resourceVersion "${rv}"
? /metadata/continue absent
)script"},
      {"PagesWithASelectorDoNotCountTheRest", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"x":"y"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"x":"y"}}}
> GET ${core}/secrets?limit=1&labelSelector=x%3Dy
? /items #1
? /metadata/continue present
? /metadata/remainingItemCount absent
)script"},
      {"LimitOfAllHasNoToken", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> GET ${core}/secrets?limit=1
? /items #1
? /metadata/continue absent
)script"},
      {"BadTokenIsBad", false, R"script(
> GET ${core}/secrets?limit=1&continue=nonsense
= 400 BadRequest
)script"},
      {"TokenAndVersionAreBad", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?limit=1
! token /metadata/continue
! rv /metadata/resourceVersion
> GET ${core}/secrets?limit=1&continue=${token}&resourceVersion=${rv}
= 400 BadRequest
)script"},
      {"ExactShowsThePast", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
> GET ${core}/secrets
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
> GET ${core}/secrets?resourceVersion=${rv}&resourceVersionMatch=Exact
= 200
? /items #1
? /metadata/resourceVersion "${rv}"
)script"},
      {"NotOlderThanShowsThePresent", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> POST ${core}/secrets
{"metadata":{"name":"b"}}
! last /metadata/resourceVersion
> GET ${core}/secrets?resourceVersion=${last}&resourceVersionMatch=NotOlderThan
= 200
? /items #2
)script"},
      {"MatchWithoutVersionIsInvalid", false, R"script(
> GET ${core}/secrets?resourceVersionMatch=Exact
= 422 Invalid
? /details/causes/0/field "resourceVersionMatch"
)script"},
      {"ExactOfZeroIsInvalid", false, R"script(
> GET ${core}/secrets?resourceVersion=0&resourceVersionMatch=Exact
= 422 Invalid
)script"},
      {"UnknownMatchIsInvalid", false, R"script(
> GET ${core}/secrets?resourceVersion=1&resourceVersionMatch=About
= 422 Invalid
)script"},
      {"InitialEventsForAListAreInvalid", false, R"script(
> GET ${core}/secrets?sendInitialEvents=true
= 422 Invalid
)script"},
      {"FutureVersionTimesOut", false, R"script(
> GET ${core}/secrets?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan
= 504 Timeout
? /details/causes/0/reason "ResourceVersionTooLarge"
? /details/retryAfterSeconds 1
- Retry-After 1
)script"},
      {"LabelSelectorEquals", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%3D1
= 200
? /items #1
? /items/0/metadata/name "a"
)script"},
      {"LabelSelectorDoubleEquals", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%3D%3D2
= 200
? /items #1
? /items/0/metadata/name "b"
)script"},
      {"LabelSelectorNotEqualsTakesAbsent", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k!%3D1
= 200
? /items #2
? /items/0/metadata/name "b"
)script"},
      {"LabelSelectorIn", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%20in%20(1,2)
= 200
? /items #2
? /items/0/metadata/name "a"
)script"},
      {"LabelSelectorNotInTakesAbsent", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%20notin%20(1)
= 200
? /items #2
? /items/0/metadata/name "b"
)script"},
      {"LabelSelectorExists", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k
= 200
? /items #2
? /items/0/metadata/name "a"
)script"},
      {"LabelSelectorAbsent", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=!k
= 200
? /items #1
? /items/0/metadata/name "c"
)script"},
      {"LabelSelectorAll", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k,l%3Dx
= 200
? /items #1
? /items/0/metadata/name "b"
)script"},
      {"LabelSelectorGreater", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%3E1
= 200
? /items #1
? /items/0/metadata/name "b"
)script"},
      {"LabelSelectorNone", false, R"script(
> POST ${core}/secrets
{"metadata":{"name":"a","labels":{"k":"1"}}}
> POST ${core}/secrets
{"metadata":{"name":"b","labels":{"k":"2","l":"x"}}}
> POST ${core}/secrets
{"metadata":{"name":"c"}}
> GET ${core}/secrets?labelSelector=k%3D3
= 200
? /items #0
? /metadata/resourceVersion present
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
