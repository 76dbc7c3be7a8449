// JSON, merge and strategic merge patches.
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {

// clang-format off
std::vector<ConformanceCase> PatchCases() {
  return {
      {"MergePatchMerges", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v","l":"w"}}
> PATCH ${core}/configmaps/a merge
{"metadata":{"labels":{"z":"z"}},"data":{"k":null,"m":"n"}}
= 200
? /metadata/labels {"x":"y","z":"z"}
? /data {"l":"w","m":"n"}
)script"},
      {"MergePatchOfAbsentIsNotFound", false, R"script(
> PATCH ${core}/configmaps/none merge
{"data":{}}
= 404 NotFound
)script"},
      {"MergePatchWithOldVersionConflicts", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"metadata":{"resourceVersion":"${rv}"},"data":{"k":"1"}}
= 200
> PATCH ${core}/configmaps/a merge
{"metadata":{"resourceVersion":"${rv}"},"data":{"k":"2"}}
= 409 Conflict
)script"},
      {"MergePatchWithAnotherUidIsRefused", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a merge
{"metadata":{"uid":"other"}}
= 422 Invalid
? /details/causes/0/field "metadata.uid"
? /details/causes/0/message ~field is immutable
)script"},
      {"MergePatchWithoutChangeWritesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
! rv /metadata/resourceVersion
> PATCH ${core}/configmaps/a merge
{"data":{"k":"v"}}
= 200
? /metadata/resourceVersion "${rv}"
)script"},
      {"MergePatchReplacesLists", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":["example.com/g"]}}
? /metadata/finalizers ["example.com/g"]
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":[]}}
? /metadata/finalizers absent
)script"},
      {"JsonPatchDoesItsOperations", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v","l":"w"}}
> PATCH ${core}/configmaps/a json
[{"op":"test","path":"/data/k","value":"v"},
{"op":"replace","path":"/data/k","value":"u"},
{"op":"remove","path":"/data/l"},
{"op":"add","path":"/data/m","value":"n"},
{"op":"copy","from":"/data/m","path":"/data/o"}]
= 200
? /data {"k":"u","m":"n","o":"n"}
)script"},
      {"JsonPatchWithFailedTestChangesNothing", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/data/k","value":"u"},
{"op":"test","path":"/data/k","value":"v"}]
= 422 Invalid
> GET ${core}/configmaps/a
? /data/k "v"
)script"},
      {"JsonPatchOfAMissingPath", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/data/k","value":"u"}]
= 422 Invalid
)script"},
      {"JsonPatchThatIsNoListIsBad", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a json
{"data":{}}
= 400 BadRequest
)script"},
      {"JsonPatchOfAnEscapedPath", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","annotations":{"example.com/x":"1"}}}
> PATCH ${core}/configmaps/a json
[{"op":"replace","path":"/metadata/annotations/example.com~1x","value":"2"}]
= 200
? /metadata/annotations/example.com~1x "2"
)script"},
      {"StrategicPatchMergesContainersByName", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}}}
= 201
> PATCH ${apps}/deployments/a strategic
{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"k"}]}}}}
= 200
? /spec/template/spec/containers #2
? /spec/template/spec/containers/1/image "k"
? /spec/template/spec/containers/0/image "i"
)script"},
      {"StrategicPatchDeletesByKey", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}}}
= 201
> PATCH ${apps}/deployments/a strategic
{"spec":{"template":{"spec":{"containers":[{"name":"d","$patch":"delete"}]}}}}
= 200
? /spec/template/spec/containers #1
? /spec/template/spec/containers/0/name "c"
)script"},
      {"StrategicPatchReplacesAtomicLists", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"tolerations":[{"key":"x","operator":"Exists"}],"containers":[{"name":"c","image":"i","args":["1","2"]}]}}}}
= 201
> PATCH ${apps}/deployments/a strategic
{"spec":{"template":{"spec":{"tolerations":[{"key":"y","operator":"Exists"}],"containers":[{"name":"c","args":["3"]}]}}}}
= 200
? /spec/template/spec/tolerations #1
? /spec/template/spec/containers/0/args ["3"]
? /spec/template/spec/containers/0/image "i"
)script"},
      {"StrategicPatchAddsFinalizers", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a","finalizers":["example.com/f"]}}
> PATCH ${core}/configmaps/a strategic
{"metadata":{"finalizers":["example.com/g"]}}
= 200
? /metadata/finalizers #2
> PATCH ${core}/configmaps/a strategic
{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}
= 200
? /metadata/finalizers ["example.com/g"]
> PATCH ${core}/configmaps/a merge
{"metadata":{"finalizers":null}}
= 200
)script"},
      {"StrategicPatchReplacesAMap", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"},"data":{"k":"v"}}
> PATCH ${core}/configmaps/a strategic
{"data":{"$patch":"replace","l":"w"}}
= 200
? /data {"l":"w"}
)script"},
      {"PatchOfUnknownTypeIsUnsupported", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a application/json
{"data":{}}
= 415 UnsupportedMediaType
)script"},
      {"ForceIsForApplyAlone", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> PATCH ${core}/configmaps/a?force=true merge
{"data":{}}
= 422 Invalid
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
