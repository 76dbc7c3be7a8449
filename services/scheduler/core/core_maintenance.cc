// Maintenance windows: made, begun, and over.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/resource/etag.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/maintenance.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::MaintenanceWindow;
using capstan::type::v1::Stop;
using rec::GangHeadRecord;

void SchedulerCore::On(const CreateMaintenanceWindow& event) {
  const auto refuse = [this, &event](absl::Status status) {
    replies_.push_back(ReplyMaintenanceWindow{event.call, std::move(status)});
  };
  const std::pair<std::string, std::string> id = {event.cluster, event.window_id};
  const std::string name =
      resource::MaintenanceWindowName{event.cluster, event.window_id}.ToString();
  const std::string key = RequestKey("maintenance_windows", event.cluster, event.request_id);
  if (!event.request_id.empty()) {
    const absl::StatusOr<std::string> made = Replayed(key, event.body_hash);
    if (!made.ok()) return refuse(made.status());
    if (!made->empty()) {
      const auto known = model_.maintenance_windows.find(id);
      // It is over, or was deleted.
      if (known == model_.maintenance_windows.end()) return refuse(status::NotFound(name));
      window_replies_[event.call] = id;
      return;
    }
  }
  if (model_.maintenance_windows.count(id) > 0) {
    return refuse(status::Error(absl::StatusCode::kAlreadyExists, "MAINTENANCE_WINDOW_EXISTS",
                                absl::StrCat(name, " exists already; choose another id"),
                                {{"maintenance_window", name}}));
  }
  MaintenanceWindow window = event.window;
  if (!window.has_start_time()) *window.mutable_start_time() = ToProto(now_.wall);
  if (absl::Status status = CheckMaintenanceWindow(model_, event.cluster, window, now_.wall);
      !status.ok()) {
    return refuse(std::move(status));
  }
  rec::MaintenanceWindowRecord& record = model_.maintenance_windows[id];
  record.set_schema_version(1);
  MaintenanceWindow& made = *record.mutable_window();
  made.set_name(name);
  made.set_uid(event.uid);
  std::set<std::string> nodes(window.nodes().begin(), window.nodes().end());
  made.mutable_nodes()->Assign(nodes.begin(), nodes.end());
  *made.mutable_node_labels() = window.node_labels();
  made.set_all_nodes(window.all_nodes());
  *made.mutable_start_time() = window.start_time();
  *made.mutable_end_time() = window.end_time();
  made.set_evict(window.evict());
  made.set_reason(window.reason());
  *made.mutable_create_time() = ToProto(now_.wall);
  made.set_creator(event.creator);
  // It is never changed.
  made.set_etag(EtagOf(int64_t{1}));
  Write write;
  write.puts.push_back(PutMaintenanceWindow(id, record));
  if (!event.request_id.empty()) {
    RememberRequest(key, event.body_hash, absl::StrCat(id.first, "/", id.second), &write.puts,
                    &write.deletes);
  }
  other_writes_.push_back(std::move(write));
  window_replies_[event.call] = id;
  maintenance_at_ = absl::InfinitePast();
  // What was foreseen of starts may no longer be so.
  room_changed_ = true;
}

void SchedulerCore::On(const DeleteMaintenanceWindow& event) {
  const auto found = model_.maintenance_windows.find({event.cluster, event.window_id});
  if (found == model_.maintenance_windows.end()) {
    replies_.push_back(ReplyEmpty{
        event.call,
        status::NotFound(
            resource::MaintenanceWindowName{event.cluster, event.window_id}.ToString())});
    return;
  }
  const absl::Status fresh = resource::CheckEtag(event.etag, found->second.window().etag());
  replies_.push_back(ReplyEmpty{event.call, fresh});
  if (!fresh.ok()) return;
  Write write;
  write.deletes.push_back({MaintenanceWindowKey(event.cluster, event.window_id), ""});
  other_writes_.push_back(std::move(write));
  model_.maintenance_windows.erase(found);
  maintenance_at_ = absl::InfinitePast();
  room_changed_ = true;
}

void SchedulerCore::TurnMaintenance() {
  if (now_.wall < maintenance_at_) return;
  maintenance_at_ = absl::InfiniteFuture();
  for (auto at = model_.maintenance_windows.begin(); at != model_.maintenance_windows.end();) {
    const MaintenanceWindow& window = at->second.window();
    const absl::Time start = ToTime(window.start_time());
    const absl::Time end = ToTime(window.end_time());
    if (end <= now_.wall) {
      Write write;
      write.deletes.push_back({MaintenanceWindowKey(at->first.first, at->first.second), ""});
      other_writes_.push_back(std::move(write));
      at = model_.maintenance_windows.erase(at);
      room_changed_ = true;
      continue;
    }
    maintenance_at_ = std::min(maintenance_at_, start > now_.wall ? start : end);
    eviction_due_ = eviction_due_ || (start <= now_.wall && window.evict());
    ++at;
  }
}

void SchedulerCore::EvictForMaintenance() {
  if (!eviction_due_) return;
  // Only what has Tasks there that have not ended.
  UpdateUsage();
  for (const auto& [id, record] : model_.maintenance_windows) {
    const MaintenanceWindow& window = record.window();
    if (!window.evict() || ToTime(window.start_time()) > now_.wall) continue;
    for (const NodeId& node : NodesOf(model_, id.first, window)) {
      for (const std::string& uid : usage_.Get(node).jobs) {
        if (StepFull()) return;
        JobEntry* job = FindJob(uid);
        if (!job->live() || job->gang->head.phase() == GangHeadRecord::PHASE_STOPPING) continue;
        StopGang(job, Stop::REASON_MAINTENANCE, window.name());
      }
    }
  }
  eviction_due_ = false;
}

}  // namespace capstan::scheduler
