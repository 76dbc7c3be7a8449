#include "services/scheduler/core/maintenance.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/map.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::MaintenanceWindow;

namespace {

using Labels = google::protobuf::Map<std::string, std::string>;

// Whether the window is of the Node, which is of its Cluster. Each Node is asked of each window in
// each round: nothing is copied, and no name made where none is asked for.
bool Concerns(const MaintenanceWindow& window, const NodeId& id, const Labels& labels) {
  if (window.all_nodes()) return true;
  const auto has = [&labels](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  };
  const Labels& wanted = window.node_labels();
  if (!wanted.empty() && std::all_of(wanted.begin(), wanted.end(), has)) return true;
  const auto& named = window.nodes();
  return !named.empty() && std::binary_search(named.begin(), named.end(), id.Name());
}

}  // namespace

void ValidateMaintenanceWindow(absl::string_view cluster, absl::string_view id,
                               const MaintenanceWindow& window, status::FieldErrors* errors) {
  const std::string path = "maintenance_window";
  if (!resource::IsValidId(id)) {
    errors->Add("maintenance_window_id",
                absl::StrCat("is `", id, "`; expected [a-z]([a-z0-9-]{0,61}[a-z0-9])?"));
  }
  if (window.nodes().empty() && window.node_labels().empty() && !window.all_nodes()) {
    errors->Add(path + ".nodes",
                "is empty, and so is `node_labels`, and `all_nodes` is not set; expected Nodes");
  }
  if (window.nodes_size() > kMaxMaintenanceNodes) {
    errors->Add(path + ".nodes",
                absl::StrCat("has ", window.nodes_size(), " entries; expected at most ",
                             kMaxMaintenanceNodes, ". Choose Nodes by `node_labels`"));
    return;
  }
  std::set<std::string> named;
  for (int i = 0; i < window.nodes_size(); ++i) {
    const auto node = resource::NodeName::Parse(window.nodes(i));
    const std::string field = absl::StrCat(path, ".nodes[", i, "]");
    if (!node.ok() || absl::string_view(node->cluster) != cluster) {
      errors->Add(field, absl::StrCat("is `", window.nodes(i), "`; expected clusters/", cluster,
                                      "/nodes/{node}"));
    } else if (!named.insert(window.nodes(i)).second) {
      errors->Add(field, absl::StrCat("`", window.nodes(i), "` is named twice; name it once"));
    }
  }
  if (window.node_labels_size() > kMaxMaintenanceLabels) {
    errors->Add(path + ".node_labels",
                absl::StrCat("has ", window.node_labels_size(), " entries; expected at most ",
                             kMaxMaintenanceLabels));
  }
  for (const auto& [key, value] : std::map<std::string, std::string>(window.node_labels().begin(),
                                                                     window.node_labels().end())) {
    // As Kubernetes bounds them.
    if (key.empty() || key.size() > 317 || value.size() > 63) {
      errors->Add(absl::StrCat(path, ".node_labels[", key, "]"),
                  "expected a key of 1 to 317 and a value of at most 63 bytes");
    }
  }
  if (!window.has_end_time()) {
    errors->Add(path + ".end_time", "is not set; expected when the Nodes are back");
  } else if (window.has_start_time()) {
    const absl::Duration length = ToTime(window.end_time()) - ToTime(window.start_time());
    if (length < absl::Seconds(1) || length > kMaxMaintenanceLength) {
      errors->Add(path + ".end_time", absl::StrCat("is ", absl::FormatDuration(length),
                                                   " after start_time; expected 1s to ",
                                                   absl::FormatDuration(kMaxMaintenanceLength)));
    }
  }
  if (window.reason().size() > kMaxMaintenanceReason) {
    errors->Add(path + ".reason", absl::StrCat("has ", window.reason().size(),
                                               " bytes; expected at most ", kMaxMaintenanceReason));
  }
}

absl::Status CheckMaintenanceWindow(const Model& model, absl::string_view cluster,
                                    const MaintenanceWindow& window, absl::Time now) {
  status::FieldErrors errors;
  if (model.clusters.count(std::string(cluster)) == 0) {
    errors.Add("parent", absl::StrCat("`clusters/", cluster,
                                      "` is not known; `capstan node list` shows the Nodes of "
                                      "those that are"));
  }
  for (int i = 0; i < window.nodes_size(); ++i) {
    const auto node = resource::NodeName::Parse(window.nodes(i));
    if (node.ok() && model.nodes.count({node->cluster, node->node}) > 0) continue;
    errors.Add(absl::StrCat("maintenance_window.nodes[", i, "]"),
               absl::StrCat("`", window.nodes(i),
                            "` does not exist; `capstan node list` shows those that do"));
  }
  const absl::Time start = ToTime(window.start_time());
  const absl::Time end = ToTime(window.end_time());
  if (end <= now) {
    errors.Add(
        "maintenance_window.end_time",
        absl::StrCat("is ", TimeInWords(end), "; expected a time after now, ", TimeInWords(now)));
  } else if (end - start > kMaxMaintenanceLength) {
    errors.Add(
        "maintenance_window.end_time",
        absl::StrCat("is ", absl::FormatDuration(end - start), " after start_time; expected 1s to ",
                     absl::FormatDuration(kMaxMaintenanceLength)));
  }
  if (start > now + kMaxMaintenanceAhead) {
    errors.Add("maintenance_window.start_time",
               absl::StrCat("is ", TimeInWords(start), "; expected at most ",
                            absl::FormatDuration(kMaxMaintenanceAhead), " from now"));
  }
  if (!errors.ok()) return errors.ToStatus();
  if (model.maintenance_windows.size() >= kMaxMaintenanceWindows) {
    return status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_MAINTENANCE_WINDOWS",
                         absl::StrCat("there are ", model.maintenance_windows.size(),
                                      " maintenance windows, the most that are kept; let one name "
                                      "more Nodes, or delete one"));
  }
  return absl::OkStatus();
}

std::vector<const MaintenanceWindow*> WindowsOf(const Model& model, const NodeId& id,
                                                const rec::NodeRecord& node, absl::Time now) {
  std::vector<const MaintenanceWindow*> windows;
  for (auto at = model.maintenance_windows.lower_bound({id.cluster, ""});
       at != model.maintenance_windows.end() && at->first.first == id.cluster; ++at) {
    const MaintenanceWindow& window = at->second.window();
    if (ToTime(window.end_time()) > now && Concerns(window, id, node.observation().labels())) {
      windows.push_back(&window);
    }
  }
  std::stable_sort(windows.begin(), windows.end(), [](const auto* a, const auto* b) {
    return ToTime(a->start_time()) < ToTime(b->start_time());
  });
  return windows;
}

std::vector<Closure> ClosuresOf(const std::vector<const MaintenanceWindow*>& windows,
                                absl::Time now) {
  std::vector<Closure> closures;
  for (const MaintenanceWindow* window : windows) {
    const Closure one = {ToTime(window->start_time()) - now, ToTime(window->end_time()) - now};
    if (!closures.empty() && one.from <= closures.back().until) {
      closures.back().until = std::max(closures.back().until, one.until);
    } else {
      closures.push_back(one);
    }
  }
  return closures;
}

absl::Duration EvictsIn(const std::vector<const MaintenanceWindow*>& windows, absl::Time now) {
  absl::Duration soonest = absl::InfiniteDuration();
  for (const MaintenanceWindow* window : windows) {
    if (!window->evict()) continue;
    soonest = std::min(soonest, std::max(ToTime(window->start_time()) - now, absl::ZeroDuration()));
  }
  return soonest;
}

std::vector<NodeId> NodesOf(const Model& model, const std::string& cluster,
                            const MaintenanceWindow& window) {
  std::vector<NodeId> nodes;
  for (auto node = model.nodes.lower_bound({cluster, ""});
       node != model.nodes.end() && node->first.cluster == cluster; ++node) {
    if (Concerns(window, node->first, node->second.observation().labels())) {
      nodes.push_back(node->first);
    }
  }
  return nodes;
}

MaintenanceWindow RenderMaintenanceWindow(const Model& model, const NodeUsage& usage,
                                          const std::string& cluster, MaintenanceWindow window) {
  std::set<std::string> jobs;
  const std::vector<NodeId> nodes = NodesOf(model, cluster, window);
  for (const NodeId& id : nodes) {
    const std::set<std::string>& there = usage.Get(id).jobs;
    jobs.insert(there.begin(), there.end());
  }
  window.set_node_count(static_cast<int>(nodes.size()));
  window.set_job_count(static_cast<int>(jobs.size()));
  return window;
}

}  // namespace capstan::scheduler
