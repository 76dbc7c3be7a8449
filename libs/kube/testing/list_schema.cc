#include "libs/kube/testing/list_schema.h"

#include <map>
#include <set>

namespace capstan::kube::testing {

ListRule RuleOfList(const std::vector<std::string>& path, bool builtin) {
  const std::string& name = path.back();
  if (path.size() >= 2 && path[path.size() - 2] == "metadata") {
    if (name == "finalizers") return {Merge::kSet, {}, "="};
    if (name == "ownerReferences") return {Merge::kMap, {"uid"}, "uid"};
  }
  if (!builtin) return {};
  // By the last name, which in the types known here is never used in two ways.
  static const auto* const rules = new std::map<std::string, ListRule>{
      {"containers", {Merge::kMap, {"name"}, "name"}},
      {"initContainers", {Merge::kMap, {"name"}, "name"}},
      {"ephemeralContainers", {Merge::kMap, {"name"}, "name"}},
      {"env", {Merge::kMap, {"name"}, "name"}},
      {"volumeMounts", {Merge::kMap, {"mountPath"}, "mountPath"}},
      {"volumes", {Merge::kMap, {"name"}, "name"}},
      {"imagePullSecrets", {Merge::kMap, {"name"}, "name"}},
      {"secrets", {Merge::kMap, {"name"}, "name"}},
      {"conditions", {Merge::kMap, {"type"}, "type"}},
      {"addresses", {Merge::kMap, {"type"}, "type"}},
      {"podIPs", {Merge::kMap, {"ip"}, "ip"}},
      {"topologySpreadConstraints",
       {Merge::kMap, {"topologyKey", "whenUnsatisfiable"}, "topologyKey"}},
      {"podCIDRs", {Merge::kSet, {}, "="}},
      {"schedulingGates", {Merge::kMap, {"name"}, "name"}},
      {"resourceClaims", {Merge::kMap, {"name"}, "name"}},
      // Atomic for apply, merged by key in strategic merge patches.
      {"taints", {Merge::kAtomic, {}, "key"}},
  };
  // Container ports; a strategic patch knows no protocol.
  if (name == "ports") return {Merge::kMap, {"containerPort", "protocol"}, "containerPort"};
  const auto found = rules->find(name);
  return found == rules->end() ? ListRule{} : found->second;
}

bool IsAtomicMap(const std::vector<std::string>& path, bool builtin) {
  static const auto* const names = new std::set<std::string>{
      "ownerReferences",   "nodeSelector",   "selector", "matchLabels",          "secretRef",
      "configMapKeyRef",   "secretKeyRef",   "fieldRef", "resourceFieldRef",     "configMapRef",
      "nodeSelectorTerms", "involvedObject", "claimRef", "localObjectReference", "labelSelector"};
  if (path.empty()) return false;
  if (path.back() == "ownerReferences") return true;
  return builtin && names->count(path.back()) > 0;
}

bool IsAlwaysThere(const std::vector<std::string>& path, bool builtin) {
  if (path.empty() || (path.size() == 1 && path[0] == "metadata")) return true;
  if (!builtin) return false;
  const std::string& name = path.back();
  if (path.size() == 1) return name == "spec" || name == "status";
  if (name == "containers") return true;
  return (path[0] == "spec" && path.size() == 2 && (name == "template" || name == "strategy")) ||
         (path.size() == 3 && path[1] == "template" && (name == "metadata" || name == "spec"));
}

}  // namespace capstan::kube::testing
