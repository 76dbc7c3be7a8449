#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

constexpr int kSchemaVersion = 1;

// Sets or erases `map[id]`.
template <typename Map, typename Key>
absl::Status ApplyTo(Map* map, const Key& id, absl::string_view key,
                     absl::optional<absl::string_view> value) {
  if (!value) {
    map->erase(id);
    return absl::OkStatus();
  }
  typename Map::mapped_type record;
  CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(key, *value, kSchemaVersion, &record));
  (*map)[id] = std::move(record);
  return absl::OkStatus();
}

template <typename Message>
absl::Status ApplyTo(absl::optional<Message>* field, absl::string_view key,
                     absl::optional<absl::string_view> value) {
  if (!value) {
    field->reset();
    return absl::OkStatus();
  }
  return store::ParseRecord(key, *value, kSchemaVersion, &field->emplace());
}

}  // namespace

absl::Status ModelBuilder::Apply(absl::string_view key, absl::optional<absl::string_view> value) {
  const std::vector<std::string> parts = KeyParts(key);
  const size_t n = parts.size();
  if (n < 2) return absl::OkStatus();
  const std::string& kind = parts[0];
  if (kind == "jobs" || kind == "gangs" || kind == "tasks") return ApplyJob(parts, value);
  if (kind == "nodes" && n == 3) {
    touched_nodes_.insert({parts[1], parts[2]});
    return ApplyTo(&model_.nodes, NodeId{parts[1], parts[2]}, key, value);
  }
  if (kind == "clusters" && n == 2) return ApplyTo(&model_.clusters, parts[1], key, value);
  if (kind == "queues" && n == 2) return ApplyTo(&model_.queues, parts[1], key, value);
  if (kind == "queue_usage" && n == 2) return ApplyTo(&model_.queue_usage, parts[1], key, value);
  if (kind == "requests" && n == 4) {
    return ApplyTo(&model_.requests, std::string(key), key, value);
  }
  if (kind == "pin_releases" && n == 3) {
    return ApplyTo(&model_.pin_releases, std::make_pair(parts[1], ParseKeyNumber(parts[2])), key,
                   value);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::ApplyJob(const std::vector<std::string>& parts,
                                    absl::optional<absl::string_view> value) {
  const std::string key = absl::StrCat(parts[0], "/", parts[1]);
  const bool is_task = parts[0] == "tasks";
  if (parts.size() < 3) return absl::OkStatus();
  const std::string& uid = is_task ? parts[1] : parts[2];
  RawJob& raw = raw_[uid];
  touched_.insert(uid);
  if (parts.size() == 3 && key == "jobs/spec") return ApplyTo(&raw.spec, key, value);
  if (parts.size() == 3 && key == "jobs/state") return ApplyTo(&raw.state, key, value);
  if (parts.size() == 3 && key == "gangs/head") return ApplyTo(&raw.head, key, value);
  if (parts.size() == 5 && key == "gangs/placement") {
    return ApplyTo(&raw.placements,
                   std::make_pair(ParseKeyNumber(parts[3]), ParseKeyNumber(parts[4])), key, value);
  }
  if (parts.size() == 4 && is_task) {
    return ApplyTo(&raw.tasks, std::make_pair(ParseKeyNumber(parts[2]), ParseKeyNumber(parts[3])),
                   key, value);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::Resolve() {
  while (!touched_.empty()) {
    const std::string uid = *touched_.begin();
    touched_.erase(touched_.begin());
    touched_report_.insert(uid);
    CAPSTAN_RETURN_IF_ERROR(ResolveJob(uid));
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::ResolveJob(const std::string& uid) {
  auto it = raw_.find(uid);
  const RawJob& raw = it->second;
  auto old = model_.jobs.find(uid);
  if (!raw.spec || !raw.state) {
    if (old != model_.jobs.end()) {
      // Its name may be another's by now.
      const auto named = model_.job_uids.find(old->second.spec.name());
      if (named != model_.job_uids.end() && named->second == uid) model_.job_uids.erase(named);
      model_.jobs.erase(old);
    }
    if (raw.empty()) raw_.erase(it);
    return absl::OkStatus();
  }
  JobEntry& job = model_.jobs[uid];
  job.spec = *raw.spec;
  job.state = *raw.state;
  job.gang.reset();
  model_.job_uids[job.spec.name()] = uid;
  if (!raw.head) return absl::OkStatus();

  Gang gang;
  gang.head = *raw.head;
  const int64_t generation = gang.head.generation();
  for (auto chunk = raw.placements.lower_bound({generation, 0});
       chunk != raw.placements.end() && chunk->first.first == generation; ++chunk) {
    if (chunk->second.first_rank() != static_cast<int>(gang.nodes.size())) {
      return store::CorruptRecord(absl::StrCat("placements of job ", uid));
    }
    for (uint32_t index : chunk->second.node_index()) {
      if (index >= static_cast<uint32_t>(chunk->second.nodes_size())) {
        return store::CorruptRecord(absl::StrCat("placements of job ", uid));
      }
      gang.nodes.push_back(chunk->second.nodes(index));
    }
  }
  for (auto chunk = raw.tasks.lower_bound({generation, 0});
       chunk != raw.tasks.end() && chunk->first.first == generation; ++chunk) {
    if (chunk->second.first_rank() != static_cast<int>(gang.tasks.size())) {
      return store::CorruptRecord(absl::StrCat("tasks of job ", uid));
    }
    gang.tasks.insert(gang.tasks.end(), chunk->second.tasks().begin(), chunk->second.tasks().end());
  }
  const size_t count = gang.head.task_count();
  if (gang.nodes.size() != count || gang.tasks.size() != count ||
      TaskCount(job.spec.spec()) != gang.head.task_count()) {
    return store::CorruptRecord(absl::StrCat("gang of job ", uid));
  }
  job.gang = std::move(gang);
  return absl::OkStatus();
}

std::vector<store::Delete> ModelBuilder::StaleChunks() const {
  std::vector<store::Delete> stale;
  for (const auto& [uid, raw] : raw_) {
    const int64_t live = raw.head ? raw.head->generation() : 0;
    for (const auto& [id, chunk] : raw.placements) {
      if (id.first != live) stale.push_back({PlacementKey(uid, id.first, id.second), ""});
    }
    for (const auto& [id, chunk] : raw.tasks) {
      if (id.first != live) stale.push_back({TaskKeyOf(uid, id.first, id.second), ""});
    }
  }
  return stale;
}

}  // namespace capstan::scheduler
