#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/restored_record.h"

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

// As `pack` packs it. Of a million Jobs most time would go into making and unmaking what they are
// read into: so that is in an arena.
template <typename Message, typename Packed, typename Pack>
absl::Status ApplyPacked(absl::optional<Packed>* field, absl::string_view key,
                         absl::optional<absl::string_view> value, google::protobuf::Arena* arena,
                         Pack pack) {
  field->reset();
  if (!value) return absl::OkStatus();
  arena->Reset();
  auto* const record = google::protobuf::Arena::CreateMessage<Message>(arena);
  CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(key, *value, kSchemaVersion, record));
  *field = pack(record);
  return absl::OkStatus();
}

// Whether the gang has so many Tasks in all as its groups, and each of those as many as it may.
bool HasSizesOf(const rec::GangHeadRecord& head, const capstan::scheduler::v1::JobSpec& spec) {
  if (!IsElastic(spec)) {
    return head.group_sizes().empty() && head.task_count() == MaxTaskCount(spec);
  }
  if (head.group_sizes_size() != spec.task_groups_size()) return false;
  int64_t count = 0;
  for (int i = 0; i < head.group_sizes_size(); ++i) {
    const capstan::scheduler::v1::TaskGroup& group = spec.task_groups(i);
    const int size = head.group_sizes(i);
    if (size < 0 || size > group.replicas()) return false;
    if (size % SizeStep(group) != 0) return false;
    count += size;
  }
  return count == head.task_count() &&
         HasWholeParts(spec, {head.group_sizes().begin(), head.group_sizes().end()});
}

// Gives each rank that asks for one its instance, of those that the records have in order. Whether
// there are so many.
bool TakeMigPlaces(std::vector<rec::MigPlace> places, const capstan::scheduler::v1::JobSpec& spec,
                   Gang* gang) {
  if (!AsksForMig(spec)) return places.empty();
  size_t next = 0;
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    const int size = gang->head.group_sizes().empty() ? spec.task_groups(g).replicas()
                                                      : gang->head.group_sizes(g);
    for (int i = 0; i < size; ++i) {
      const bool asks = spec.task_groups(g).resources().has_mig();
      if (asks && next == places.size()) return false;
      gang->mig.push_back(asks ? std::move(places[next++]) : rec::MigPlace());
    }
  }
  return next == places.size();
}

// Whether what is added to the gang makes none of its groups larger than it may be.
bool HasRoomForAdditions(const rec::GangHeadRecord& head,
                         const capstan::scheduler::v1::JobSpec& spec) {
  std::vector<int64_t> sizes(head.group_sizes().begin(), head.group_sizes().end());
  for (const rec::GangHeadRecord::Addition& addition : head.additions()) {
    const int group = addition.group();
    if (group < 0 || group >= static_cast<int>(sizes.size()) || addition.count() < 1) return false;
    sizes[group] += addition.count();
    if (sizes[group] > spec.task_groups(group).replicas()) return false;
  }
  return true;
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
  if (kind == "capacity_orders" && n == 2) {
    return ApplyTo(&model_.capacity_orders, parts[1], key, value);
  }
  if (kind == "maintenance_windows" && n == 3) {
    // What Nodes of the Cluster show of it has changed; which of them is not worth finding out.
    for (auto node = model_.nodes.lower_bound({parts[1], ""});
         node != model_.nodes.end() && node->first.cluster == parts[1]; ++node) {
      touched_nodes_.insert(node->first);
    }
    return ApplyTo(&model_.maintenance_windows, std::make_pair(parts[1], parts[2]), key, value);
  }
  if (kind == "requests" && n == 4) {
    return ApplyTo(&model_.requests, std::string(key), key, value);
  }
  if (kind == "pin_releases" && n == 3) {
    return ApplyTo(&model_.pin_releases, std::make_pair(parts[1], ParseKeyNumber(parts[2])), key,
                   value);
  }
  return absl::OkStatus();
}

ModelBuilder::RawJob& ModelBuilder::RawOf(const std::string& uid) {
  const auto [raw, made] = raw_.try_emplace(uid);
  if (made && model_.jobs.count(uid) > 0) {
    raw->second.spec = model_.jobs.SpecOf(uid);
    raw->second.state = model_.jobs.StateOf(uid);
  }
  return raw->second;
}

absl::Status ModelBuilder::ApplyJob(const std::vector<std::string>& parts,
                                    absl::optional<absl::string_view> value) {
  const std::string key = absl::StrCat(parts[0], "/", parts[1]);
  const bool is_task = parts[0] == "tasks";
  if (parts.size() < 3) return absl::OkStatus();
  const std::string& uid = is_task ? parts[1] : parts[2];
  if (uid.size() > RecordPool::kMaxUidBytes) return store::CorruptRecord(key);
  RawJob& raw = RawOf(uid);
  touched_.insert(uid);
  RecordPool& pool = *model_.jobs.pool();
  if (parts.size() == 3 && key == "jobs/spec") {
    return ApplyPacked<rec::JobSpecRecord>(
        &raw.spec, key, value, arena_.get(),
        [&](rec::JobSpecRecord* record) { return pool.TakeApart(uid, record); });
  }
  if (parts.size() == 3 && key == "jobs/state") {
    if (raw.spec && !raw.head) complete_.push_back(uid);
    bool is_countable = true;
    CAPSTAN_RETURN_IF_ERROR(ApplyPacked<rec::JobStateRecord>(
        &raw.state, key, value, arena_.get(), [&](rec::JobStateRecord* record) {
          is_countable =
              std::max(record->generation(), record->generation_floor()) <= kMaxGeneration;
          return pool.TakeApart(record);
        }));
    return is_countable ? absl::OkStatus() : store::CorruptRecord(absl::StrCat(key, "/", uid));
  }
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

absl::Status ModelBuilder::ResolveComplete() {
  for (const std::string& uid : std::exchange(complete_, {})) {
    if (touched_.erase(uid) == 0) continue;
    touched_report_.insert(uid);
    CAPSTAN_RETURN_IF_ERROR(ResolveJob(uid));
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::Resolve() {
  complete_.clear();
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
  if (!raw.spec || !raw.state) {
    if (const absl::optional<JobGlance> old = model_.jobs.Glance(uid)) {
      removed_.push_back({uid, std::string(old->name), old->submit_sequence});
      model_.jobs.Erase(uid);
    }
    if (raw.empty()) raw_.erase(it);
    return absl::OkStatus();
  }
  if (!raw.head) {
    model_.jobs.Put(*raw.spec, *raw.state, absl::nullopt);
    // The table has all of it.
    if (raw.placements.empty() && raw.tasks.empty()) raw_.erase(it);
    return absl::OkStatus();
  }

  Gang gang;
  std::vector<rec::MigPlace> mig;
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
    mig.insert(mig.end(), chunk->second.mig().begin(), chunk->second.mig().end());
  }
  for (auto chunk = raw.tasks.lower_bound({generation, 0});
       chunk != raw.tasks.end() && chunk->first.first == generation; ++chunk) {
    if (chunk->second.first_rank() != static_cast<int>(gang.tasks.size())) {
      return store::CorruptRecord(absl::StrCat("tasks of job ", uid));
    }
    gang.tasks.insert(gang.tasks.end(), chunk->second.tasks().begin(), chunk->second.tasks().end());
  }
  const size_t count = gang.head.task_count();
  rec::JobSpecRecord spec;
  model_.jobs.pool()->Unpack(*raw.spec, &spec);
  if (gang.nodes.size() != count || gang.tasks.size() != count ||
      !HasSizesOf(gang.head, spec.spec()) || !HasRoomForAdditions(gang.head, spec.spec()) ||
      !TakeMigPlaces(std::move(mig), spec.spec(), &gang)) {
    return store::CorruptRecord(absl::StrCat("gang of job ", uid));
  }
  model_.jobs.Put(*raw.spec, *raw.state, std::move(gang));
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
