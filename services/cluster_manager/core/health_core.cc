#include "services/cluster_manager/core/health_core.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/store/record.h"
#include "libs/time/proto_time.h"

namespace capstan::cluster_manager {
namespace {

namespace pb = ::capstan::clustermanager::v1;
using ::capstan::scheduler::v1::Node;
using ::capstan::type::v1::NodeObservation;

}  // namespace

std::string ClusterKey(const std::string& name) {
  return absl::StrCat(kKeyPrefix, "cluster/", name);
}
std::string VerdictKey(const std::string& name) {
  return absl::StrCat(kKeyPrefix, "verdict/", name);
}
std::string VerdictPrefix(const std::string& cluster) {
  return absl::StrCat(kKeyPrefix, "verdict/", cluster, "/nodes/");
}

std::string ClusterOf(const std::string& node) { return node.substr(0, node.find("/nodes/")); }

std::string ClusterOfKey(absl::string_view key) {
  for (const std::string& prefix : {ClusterKey(""), VerdictKey("")}) {
    if (absl::ConsumePrefix(&key, prefix)) return ClusterOf(std::string(key));
  }
  return "";
}

std::set<std::string> Findings(const Node& node) {
  std::set<std::string> findings;
  if (node.state() == Node::STATE_SILENT || node.state() == Node::STATE_GIVEN_UP) {
    findings.insert("NODE_SILENT");
  }
  for (const int limitation : node.limitations()) {
    if (limitation == NodeObservation::LIMITATION_DISK_FULL) findings.insert("DISK_FULL");
    if (limitation == NodeObservation::LIMITATION_PREFLIGHT_FAILED) {
      findings.insert("PREFLIGHT_FAILED");
    }
  }
  return findings;
}

absl::Status HealthCore::Load(const store::KeyValue& kv) {
  if (absl::StartsWith(kv.key, ClusterKey(""))) {
    ClusterRecord record;
    const absl::Status parsed = store::ParseRecord(kv, kSchemaVersion, &record);
    if (parsed.ok()) clusters_[record.name()] = record;
    return parsed;
  }
  if (absl::StartsWith(kv.key, VerdictKey(""))) {
    NodeState state;
    const absl::Status parsed = store::ParseRecord(kv, kSchemaVersion, &state.record);
    if (parsed.ok()) nodes_[state.record.verdict().node()] = state;
    return parsed;
  }
  return absl::OkStatus();
}

void HealthCore::Put(const std::string& name, const NodeState& state, Step& step) const {
  step.puts.push_back({VerdictKey(name), state.record.SerializeAsString()});
}

Step HealthCore::NodeSeen(const Node& node, const std::string& uid, Now now) {
  Step step;
  const std::string cluster = ClusterOf(node.name());
  if (clusters_.count(cluster) == 0) {
    ClusterRecord record;
    record.set_schema_version(kSchemaVersion);
    record.set_name(cluster);
    record.set_uid(uid);
    *record.mutable_create_time() = ToProto(now.wall);
    step.puts.push_back({ClusterKey(cluster), record.SerializeAsString()});
    clusters_[cluster] = std::move(record);
  }
  const auto [it, added] = nodes_.emplace(node.name(), NodeState());
  NodeState& state = it->second;
  if (added) {
    state.record.set_schema_version(kSchemaVersion);
    state.record.mutable_verdict()->set_node(node.name());
    state.record.mutable_verdict()->set_health(pb::NodeVerdict::HEALTH_HEALTHY);
    *state.record.mutable_verdict()->mutable_transition_time() = ToProto(now.wall);
    Put(node.name(), state, step);
  }
  state.seen_in_snapshot = true;
  state.findings = Findings(node);
  state.cordoned =
      std::any_of(node.cordons().begin(), node.cordons().end(),
                  [this](const auto& cordon) { return cordon.owner() == config_.owner; });
  Judge(node.name(), state, now, step);
  return step;
}

Step HealthCore::NodeGone(const std::string& name) {
  Step step;
  if (nodes_.erase(name) != 0) step.deletes.push_back({VerdictKey(name), ""});
  return step;
}

Step HealthCore::Synced(Now now) {
  Step step;
  watching_ = true;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    if (it->second.seen_in_snapshot) {
      Judge(it->first, it->second, now, step);
      ++it;
      continue;
    }
    step.deletes.push_back({VerdictKey(it->first), ""});
    it = nodes_.erase(it);
  }
  return step;
}

void HealthCore::WatchLost() {
  watching_ = false;
  for (auto& [name, state] : nodes_) {
    state.seen_in_snapshot = false;
    state.since.reset();
    state.next_attempt.reset();
  }
}

Step HealthCore::Tick(Now now) {
  Step step;
  for (auto& [name, state] : nodes_) Judge(name, state, now, step);
  return step;
}

// 1. The verdict moves HEALTHY → SUSPECT at once, SUSPECT → UNHEALTHY when a finding has lasted,
// and
//    back to HEALTHY when none has been there for long enough.
// 2. UNHEALTHY means that our cordon is there, HEALTHY that it is not; SUSPECT leaves it as it is.
void HealthCore::Judge(const std::string& name, NodeState& state, Now now, Step& step) {
  if (!watching_) return;
  pb::NodeVerdict& verdict = *state.record.mutable_verdict();
  const pb::NodeVerdict before = verdict;
  const bool sick = !state.findings.empty();
  const bool agrees = sick ? before.health() == pb::NodeVerdict::HEALTH_UNHEALTHY
                           : before.health() == pb::NodeVerdict::HEALTH_HEALTHY;
  // SUSPECT is a Node on its way; whether it began sick or well shows in what was counted so far.
  const std::vector<std::string> shown(state.findings.begin(), state.findings.end());
  const bool was_sick = verdict.findings_size() != 0;
  if (agrees) {
    state.since.reset();
  } else if (!state.since.has_value() || was_sick != sick) {
    state.since = now.boot;
  }
  verdict.clear_findings();
  for (const std::string& finding : shown) verdict.add_findings(finding);
  if (!agrees) {
    const absl::Duration wait = sick ? config_.raise_after : config_.clear_after;
    if (now.boot - *state.since >= wait) {
      verdict.set_health(sick ? pb::NodeVerdict::HEALTH_UNHEALTHY
                              : pb::NodeVerdict::HEALTH_HEALTHY);
      state.since.reset();
    } else if (sick && before.health() == pb::NodeVerdict::HEALTH_HEALTHY) {
      verdict.set_health(pb::NodeVerdict::HEALTH_SUSPECT);
    } else if (!sick && before.health() == pb::NodeVerdict::HEALTH_UNHEALTHY) {
      verdict.set_health(pb::NodeVerdict::HEALTH_SUSPECT);
    }
  }
  if (verdict.health() != before.health()) *verdict.mutable_transition_time() = ToProto(now.wall);
  if (verdict.SerializeAsString() != before.SerializeAsString()) Put(name, state, step);

  const bool want = verdict.health() == pb::NodeVerdict::HEALTH_UNHEALTHY;
  const bool settled = verdict.health() != pb::NodeVerdict::HEALTH_SUSPECT;
  if (!settled || want == state.cordoned) {
    state.next_attempt.reset();
    return;
  }
  if (state.next_attempt.has_value() && now.boot < *state.next_attempt) return;
  state.next_attempt = now.boot + config_.retry_after;
  if (want) {
    step.after.push_back(CordonNode{name, absl::StrCat("unhealthy: ", absl::StrJoin(shown, ", "))});
  } else {
    step.after.push_back(UncordonNode{name});
  }
}

absl::optional<BootTime> HealthCore::Deadline(const NodeState& state) const {
  absl::optional<BootTime> deadline = state.next_attempt;
  if (state.since.has_value()) {
    const BootTime judged =
        *state.since + (state.findings.empty() ? config_.clear_after : config_.raise_after);
    if (!deadline.has_value() || judged < *deadline) deadline = judged;
  }
  return deadline;
}

absl::optional<BootTime> HealthCore::NextDeadline() const {
  absl::optional<BootTime> next;
  if (!watching_) return next;
  for (const auto& [name, state] : nodes_) {
    const absl::optional<BootTime> deadline = Deadline(state);
    if (deadline.has_value() && (!next.has_value() || *deadline < *next)) next = deadline;
  }
  return next;
}

}  // namespace capstan::cluster_manager
