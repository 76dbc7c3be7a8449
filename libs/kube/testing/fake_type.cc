#include "libs/kube/testing/fake_type.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace capstan::kube::testing {
namespace {

FakeType Type(std::string group, std::string version, std::string kind, std::string plural,
              bool namespaced) {
  FakeType type;
  type.singular = absl::AsciiStrToLower(kind);
  type.list_kind = kind + "List";
  type.resource = {std::move(group), std::move(version), std::move(kind), std::move(plural),
                   namespaced};
  return type;
}

}  // namespace

std::vector<FakeType> BuiltinTypes() {
  std::vector<FakeType> types;
  const auto add = [&](std::string group, std::string kind, std::string plural, bool namespaced,
                       std::vector<std::string> short_names = {}) -> FakeType& {
    types.push_back(Type(std::move(group), "v1", std::move(kind), std::move(plural), namespaced));
    types.back().short_names = std::move(short_names);
    return types.back();
  };
  {
    FakeType& type = add("", "Namespace", "namespaces", false, {"ns"});
    type.status = type.drops_status_on_create = true;
  }
  add("", "Node", "nodes", false, {"no"}).status = true;
  {
    FakeType& type = add("", "Pod", "pods", true, {"po"});
    type.status = type.drops_status_on_create = type.generation = type.returns_deleted = true;
  }
  add("", "Event", "events", true, {"ev"}).create_on_update = true;
  add("", "ConfigMap", "configmaps", true, {"cm"});
  add("", "Secret", "secrets", true);
  add("", "ServiceAccount", "serviceaccounts", true, {"sa"}).returns_deleted = true;
  for (const bool namespaced : {true, false}) {
    FakeType& type = namespaced
                         ? add("", "PersistentVolumeClaim", "persistentvolumeclaims", true, {"pvc"})
                         : add("", "PersistentVolume", "persistentvolumes", false, {"pv"});
    type.status = type.drops_status_on_create = type.returns_deleted = true;
  }
  for (const bool scale : {true, false}) {
    FakeType& type = scale ? add("apps", "Deployment", "deployments", true, {"deploy"})
                           : add("apps", "DaemonSet", "daemonsets", true, {"ds"});
    type.status = type.drops_status_on_create = type.generation = true;
    type.scale = scale;
  }
  {
    FakeType& type = add("coordination.k8s.io", "Lease", "leases", true);
    type.create_on_update = true;
    type.unconditional_update = false;
  }
  {
    FakeType& type = add("policy", "PodDisruptionBudget", "poddisruptionbudgets", true, {"pdb"});
    type.status = type.drops_status_on_create = type.generation = true;
    type.unconditional_update = false;
  }
  add("events.k8s.io", "Event", "events", true, {"ev"}).create_on_update = true;
  add("authentication.k8s.io", "TokenReview", "tokenreviews", false).create_only = true;
  add("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false).create_only =
      true;
  add("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false)
      .create_only = true;
  {
    FakeType& type = add("apiextensions.k8s.io", "CustomResourceDefinition",
                         "customresourcedefinitions", false, {"crd", "crds"});
    type.status = type.drops_status_on_create = type.generation = true;
    type.unconditional_update = false;
  }
  return types;
}

std::vector<FakeType> TypesOfDefinition(const Json& definition) {
  std::vector<FakeType> types;
  const Json& names = Find(definition, {"spec", "names"});
  const std::string kind = Text(Member(names, "kind"));
  for (const Json& version : Find(definition, {"spec", "versions"})) {
    if (Member(version, "served") != Json(true)) continue;
    FakeType type = Type(Text(Find(definition, {"spec", "group"})), Text(Member(version, "name")),
                         kind, Text(Member(names, "plural")),
                         Text(Find(definition, {"spec", "scope"})) == "Namespaced");
    const std::string singular = Text(Member(names, "singular"));
    if (!singular.empty()) type.singular = singular;
    const std::string list_kind = Text(Member(names, "listKind"));
    if (!list_kind.empty()) type.list_kind = list_kind;
    for (const Json& name : Member(names, "shortNames")) type.short_names.push_back(Text(name));
    type.builtin = false;
    type.generation = true;
    type.unconditional_update = false;
    const Json& subresources = Member(version, "subresources");
    type.status = type.drops_status_on_create =
        subresources.is_object() && subresources.contains("status");
    const Json& scale = Member(subresources, "scale");
    if (scale.is_object()) {
      type.scale = true;
      type.spec_replicas_path = Text(Member(scale, "specReplicasPath"));
      type.status_replicas_path = Text(Member(scale, "statusReplicasPath"));
      type.label_selector_path = Text(Member(scale, "labelSelectorPath"));
    }
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace capstan::kube::testing
