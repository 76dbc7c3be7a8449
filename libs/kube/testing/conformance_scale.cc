// The scale of custom resources, and more of that of built-in ones.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/kube/testing/conformance_cases.h"

namespace capstan::kube::testing {
namespace {

// Defines `${gadgets}`, of which there is one named `a`, and takes the definition away in the end.
std::string WithGadgets(absl::string_view script) {
  constexpr char kBegin[] = R"script(
> POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions
{"metadata":{"name":"gadgets.${ns}.test.capstan.dev"},"spec":{"group":"${ns}.test.capstan.dev","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size","labelSelectorPath":".status.selector"}}}]}}
= 201
s ${gadgets}
> POST ${gadgets}
{"apiVersion":"${ns}.test.capstan.dev/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"size":1,"other":"x"}}
= 201
! rv /metadata/resourceVersion
! uid /metadata/uid
)script";
  constexpr char kEnd[] = R"script(
> DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.${ns}.test.capstan.dev
= 200
)script";
  return absl::StrReplaceAll(
      absl::StrCat(kBegin, script, kEnd),
      {{"${gadgets}", "/apis/${ns}.test.capstan.dev/v1/namespaces/${ns}/gadgets"}});
}

}  // namespace

// clang-format off
std::vector<ConformanceCase> ScaleCases() {
  return {
      {"ScaleOfACustomResource", false, WithGadgets(R"script(
> PATCH ${gadgets}/a/status merge
{"status":{"size":3,"selector":"a=b"}}
= 200
> GET ${gadgets}/a/scale
= 200
? /apiVersion "autoscaling/v1"
? /kind "Scale"
? /metadata/name "a"
? /metadata/namespace "${ns}"
? /metadata/uid "${uid}"
? /metadata/resourceVersion present
? /metadata/generation absent
? /spec {"replicas":1}
? /status {"replicas":3,"selector":"a=b"}
! now /metadata/resourceVersion
> PUT ${gadgets}/a/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"${ns}","resourceVersion":"${now}"},"spec":{"replicas":5}}
= 200
? /kind "Scale"
? /spec/replicas 5
? /status/replicas 3
> GET ${gadgets}/a
? /spec {"size":5,"other":"x"}
? /status/size 3
? /metadata/generation 2
)script")},
      {"ScaleOfACustomResourceConflicts", false, WithGadgets(R"script(
> PATCH ${gadgets}/a merge
{"metadata":{"labels":{"x":"y"}}}
= 200
> PUT ${gadgets}/a/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"${ns}","resourceVersion":"${rv}"},"spec":{"replicas":5}}
= 409 Conflict
# Without a version: whatever is there.
> PUT ${gadgets}/a/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"${ns}"},"spec":{"replicas":5}}
= 200
> PUT ${gadgets}/none/scale
{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"none","namespace":"${ns}"},"spec":{"replicas":5}}
= 404 NotFound
> GET ${gadgets}/none/scale
= 404 NotFound
)script")},
      {"ScaleOfACustomResourceIsPatched", false, WithGadgets(R"script(
> PATCH ${gadgets}/a/scale merge
{"spec":{"replicas":2}}
= 200
? /kind "Scale"
? /spec/replicas 2
> PATCH ${gadgets}/a/scale json
[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":4}]
= 200
? /spec/replicas 4
> PATCH ${gadgets}/a/scale json
[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":9}]
= 422
> PATCH ${gadgets}/a/scale merge
{"metadata":{"resourceVersion":"${rv}"},"spec":{"replicas":7}}
= 409 Conflict
> PATCH ${gadgets}/a/scale strategic
{"spec":{"replicas":7}}
= 415 UnsupportedMediaType
> PATCH ${gadgets}/a/scale?dryRun=All merge
{"spec":{"replicas":7}}
= 200
? /spec/replicas 7
> GET ${gadgets}/a
? /spec/size 4
? /metadata/generation 3
)script")},
      {"ScaleOfACustomResourceWithoutReplicas", false, WithGadgets(R"script(
> PATCH ${gadgets}/a merge
{"spec":{"size":null}}
= 200
> GET ${gadgets}/a/scale
= 500 InternalError
? /message ~the spec replicas field ".spec.size" does not exist
> PATCH ${gadgets}/a/scale merge
{"spec":{"replicas":2}}
= 200
> GET ${gadgets}/a/scale
= 200
? /spec/replicas 2
? /status {"replicas":0}
)script")},
      {"ScaleOfACustomResourceIsNotNegative", false, WithGadgets(R"script(
> PATCH ${gadgets}/a/scale merge
{"spec":{"replicas":-1}}
= 422 Invalid
? /details/kind "Gadget"
? /details/causes #1
? /details/causes/0/message ~should be a non-negative integer
)script")},
      {"ScaleByJsonPatch", false, R"script(
> POST ${apps}/deployments
{"metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}}}
= 201
> PATCH ${apps}/deployments/a/scale json
[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":3}]
= 200
? /spec/replicas 3
> PATCH ${apps}/deployments/a/scale strategic
{"spec":{"replicas":2}}
= 200
? /spec/replicas 2
> PATCH ${apps}/deployments/a/scale merge
{"spec":{"replicas":-1}}
= 422 Invalid
? /details/kind "Scale"
)script"},
      {"ScaleOfWhatHasNone", false, R"script(
> POST ${core}/configmaps
{"metadata":{"name":"a"}}
> GET ${core}/configmaps/a/scale
= 404
)script"},
  };
}
// clang-format on

}  // namespace capstan::kube::testing
