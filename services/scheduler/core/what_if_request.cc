#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/label/taints.h"
#include "libs/resource/name.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/validate.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::SimulatePlacementRequest;
using AddedNodes = SimulatePlacementRequest::AddedNodes;
using NodeChange = SimulatePlacementRequest::NodeChange;

// The Node that the change names, whose field is added to the path; nullptr if it adds some.
const std::string* NamedNode(const NodeChange& change, std::string* field) {
  switch (change.change_case()) {
    case NodeChange::kRemove:
      *field += ".remove";
      return &change.remove();
    case NodeChange::kCordon:
      *field += ".cordon";
      return &change.cordon();
    case NodeChange::kUncordon:
      *field += ".uncordon";
      return &change.uncordon();
    default:
      return nullptr;
  }
}

void CheckNodeName(const std::string& field, const std::string& name, status::FieldErrors* errors) {
  if (resource::NodeName::Parse(name).ok()) return;
  errors->Add(field, absl::StrCat("is `", name, "`; expected ", resource::NodeName::kPattern));
}

void CheckAmount(const std::string& field, int64_t amount, int64_t most,
                 status::FieldErrors* errors) {
  if (amount >= 1 && amount <= most) return;
  errors->Add(field, absl::StrCat("is ", amount, "; expected 1 to ", most));
}

void CheckAdded(const std::string& field, const AddedNodes& add, status::FieldErrors* errors) {
  CheckAmount(field + ".count", add.count(), kMaxSimulatedNodes, errors);
  if (add.like().empty() == add.cluster().empty()) {
    errors->Add(field + ".like", absl::StrCat(add.like().empty() ? "is empty" : "is given",
                                              ", and so is `cluster`; expected one of them"));
  } else if (!add.like().empty()) {
    CheckNodeName(field + ".like", add.like(), errors);
  } else if (!resource::ClusterName::Parse(add.cluster()).ok()) {
    errors->Add(field + ".cluster", absl::StrCat("is `", add.cluster(), "`; expected ",
                                                 resource::ClusterName::kPattern));
  }
  if (add.has_allocatable() || !add.cluster().empty()) {
    const auto& amounts = add.allocatable();
    CheckAmount(field + ".allocatable.cpu_millis", amounts.cpu_millis(), kMaxCpuMillis, errors);
    CheckAmount(field + ".allocatable.memory_bytes", amounts.memory_bytes(), kMaxMemoryBytes,
                errors);
    for (const auto& [name, count] : std::map<std::string, int64_t>(amounts.accelerators().begin(),
                                                                    amounts.accelerators().end())) {
      CheckAmount(absl::StrCat(field, ".allocatable.accelerators[", name, "]"), count,
                  kMaxAccelerators, errors);
    }
  }
  if (add.labels_size() > kMaxLabels) {
    errors->Add(field + ".labels",
                absl::StrCat("has ", add.labels_size(), " entries; expected at most ", kMaxLabels));
  }
  label::CheckTaints(field + ".taints", add.taints(), errors);
}

}  // namespace

SimulatePlacementRequest WithDefaults(const CoreConfig& config, SimulatePlacementRequest request) {
  for (JobSpec& spec : *request.mutable_jobs()) ApplyDefaults(request.parent(), config, &spec);
  return request;
}

void ValidateSimulatePlacement(const CoreConfig& config, const SimulatePlacementRequest& request,
                               status::FieldErrors* errors) {
  if (request.jobs_size() == 0 && request.node_changes_size() == 0) {
    errors->Add("jobs", "is empty, and so is `node_changes`; expected something to simulate");
  }
  if (request.jobs_size() > kMaxSimulatedJobs) {
    errors->Add("jobs", absl::StrCat("has ", request.jobs_size(), " entries; expected at most ",
                                     kMaxSimulatedJobs));
    return;
  }
  for (int i = 0; i < request.jobs_size(); ++i) {
    ValidateJobSpec(request.parent(), config, request.jobs(i), absl::StrCat("jobs[", i, "]"),
                    errors);
  }
  int64_t changed = 0;
  std::set<std::string> named;
  for (int i = 0; i < request.node_changes_size(); ++i) {
    const NodeChange& change = request.node_changes(i);
    changed += change.has_add() ? std::max(change.add().count(), 1) : 1;
    if (changed > kMaxSimulatedNodes) {
      errors->Add("node_changes",
                  absl::StrCat("changes ", changed, " Nodes or more with its entry ", i,
                               "; expected at most ", kMaxSimulatedNodes, " in all"));
      return;
    }
    std::string field = absl::StrCat("node_changes[", i, "]");
    if (const std::string* const name = NamedNode(change, &field)) {
      CheckNodeName(field, *name, errors);
      if (!named.insert(*name).second) {
        errors->Add(field, absl::StrCat("`", *name, "` is named twice; expected one change of it"));
      }
    } else if (change.has_add()) {
      CheckAdded(field + ".add", change.add(), errors);
    } else {
      errors->Add(field, "is empty; expected `add`, `remove`, `cordon` or `uncordon`");
    }
  }
}

}  // namespace capstan::scheduler
