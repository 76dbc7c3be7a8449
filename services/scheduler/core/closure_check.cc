#include "services/scheduler/core/closure_check.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::MaintenanceWindow;

absl::Duration LongestStay(const capstan::scheduler::v1::JobSpec& spec) {
  if (!spec.has_time_limit()) return absl::InfiniteDuration();
  return absl::Minutes(1) + ToDuration(spec.time_limit()) + ToDuration(spec.stop_grace());
}

bool IsOf(const MaintenanceWindow& window, const NodeId& id, const rec::NodeRecord& node) {
  const std::string cluster = absl::StrCat("clusters/", id.cluster, "/");
  if (!absl::StartsWith(window.name(), cluster)) return false;
  bool is_of = window.all_nodes();
  for (const std::string& name : window.nodes()) {
    is_of = is_of || name == absl::StrCat(cluster, "nodes/", id.node);
  }
  const auto& labels = node.observation().labels();
  bool labelled = !window.node_labels().empty();
  for (const auto& [key, value] : window.node_labels()) {
    labelled = labelled && labels.count(key) > 0 && labels.at(key) == value;
  }
  return is_of || labelled;
}

std::vector<Closure> ClosuresBy(
    const std::map<std::pair<std::string, std::string>, rec::MaintenanceWindowRecord>& windows,
    const NodeId& id, const rec::NodeRecord& node, absl::Time now) {
  std::vector<Closure> closures;
  for (const auto& [of, record] : windows) {
    const MaintenanceWindow& window = record.window();
    if (ToTime(window.end_time()) <= now || !IsOf(window, id, node)) continue;
    closures.push_back({ToTime(window.start_time()) - now, ToTime(window.end_time()) - now});
  }
  return closures;
}

absl::Status CheckStay(absl::Span<const Closure> closures, absl::Duration start,
                       absl::Duration stay) {
  for (const Closure& closure : closures) {
    if (start >= closure.until) continue;
    if (start >= closure.from) {
      return absl::FailedPreconditionError(
          absl::StrCat("begins ", absl::FormatDuration(start - closure.from),
                       " after the beginning of a closure that lasts ",
                       absl::FormatDuration(closure.until - start), " more"));
    }
    if (closure.from - start < stay) {
      return absl::FailedPreconditionError(absl::StrCat(
          "may stay ", absl::FormatDuration(stay), " and would run into a closure that begins ",
          absl::FormatDuration(closure.from - start), " after it"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStays(absl::Span<const NodeCapacity> nodes, absl::Span<const int> placed,
                        absl::Duration start, absl::Duration stay) {
  for (size_t rank = 0; rank < placed.size(); ++rank) {
    const NodeCapacity& node = nodes[placed[rank]];
    const absl::Status good = CheckStay(node.closures, start, stay);
    if (good.ok()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " on ", node.id.Name(), " ", good.message()));
  }
  return absl::OkStatus();
}

}  // namespace capstan::scheduler
