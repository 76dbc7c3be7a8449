#include "services/scheduler/core/scheduler_core.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "libs/trace/span.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/maintenance.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {

using capstan::event::v1::JobEvent;
using capstan::scheduler::v1::Job;

namespace {

// What ended is written before what began for its sake or in its room, and what an element does
// before that its array knows: a leader that dies in between leaves nobody begun too early.
using WriteOrder = std::tuple<bool, bool, int64_t, bool, std::string>;

WriteOrder WriteOrderOf(const JobEntry& job, bool is_placed) {
  const bool is_array = IsArray(job);
  const int elements = is_array ? job.spec.spec().array().size() : 0;
  return {!job.final(), is_placed || is_array, job.spec.submit_sequence() + elements, is_array,
          job.uid()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerCore>> SchedulerCore::Load(
    const CoreConfig& config, const std::vector<store::KeyValue>& records,
    std::unique_ptr<Placer> placer, std::shared_ptr<RecordPool> pool) {
  ModelBuilder builder(std::move(pool));
  for (const store::KeyValue& kv : records) {
    CAPSTAN_RETURN_IF_ERROR(builder.Apply(kv.key, absl::string_view(kv.value)));
  }
  CAPSTAN_RETURN_IF_ERROR(builder.Resolve());
  std::vector<store::Delete> garbage = builder.StaleChunks();
  if (placer == nullptr) placer = std::make_unique<TightPlacer>();
  return std::unique_ptr<SchedulerCore>(
      new SchedulerCore(config, builder.TakeModel(), std::move(garbage), std::move(placer)));
}

std::unique_ptr<SchedulerCore> SchedulerCore::Of(const CoreConfig& config, Model model,
                                                 std::vector<store::Delete> stale) {
  return std::unique_ptr<SchedulerCore>(new SchedulerCore(
      config, std::move(model), std::move(stale), std::make_unique<TightPlacer>()));
}

SchedulerCore::SchedulerCore(const CoreConfig& config, Model model,
                             std::vector<store::Delete> garbage, std::unique_ptr<Placer> placer)
    : config_(config),
      placer_(std::move(placer)),
      model_(std::move(model)),
      garbage_(std::move(garbage)),
      leases_(config) {}

Step SchedulerCore::Apply(const Event& event, Now now) {
  if (now.boot != now_.boot || !std::holds_alternative<CreateJob>(event)) foreseen_.reset();
  now_ = now;
  queue_book_.SetNow(now);
  if (!leading_ && !std::holds_alternative<LeadershipGained>(event)) return {};
  ExpireOrders();
  std::visit([this](const auto& e) { On(e); }, event);
  RefreshTree();
  SettleDependencies();
  CancelElements();
  DrainQueues();
  SettleOrders();
  TurnMaintenance();
  EvictForMaintenance();
  Round();
  SettleOrders();
  Flush();
  Step step;
  step.persist = std::move(other_writes_);
  step.after = std::move(replies_);
  std::move(effects_.begin(), effects_.end(), std::back_inserter(step.after));
  other_writes_.clear();
  replies_.clear();
  effects_.clear();
  step.tally = std::exchange(tally_, StepTally());
  std::move(acks_.begin(), acks_.end(), std::back_inserter(step.after));
  acks_.clear();
  model_.jobs.Rest();
  return step;
}

absl::optional<BootTime> SchedulerCore::NextDeadline() const {
  if (!leading_) return absl::nullopt;
  if (drain_due_ || eviction_due_ || !ended_dependencies_.empty() || !cancelling_.empty())
    return BootTime::InfinitePast();
  BootTime next = leases_.NextExpiry();
  if (RoundDue()) next = std::min(next, round_at_);
  if (!time_limits_.empty()) next = std::min(next, time_limits_.begin()->first);
  if (!avoidances_.empty()) next = std::min(next, avoidances_.begin()->first);
  if (!order_expiries_.empty()) next = std::min(next, order_expiries_.begin()->first);
  if (!growers_.empty()) next = std::min(next, std::max(growth_at_, round_at_));
  for (const auto& [key, until] : returning_) {
    next = std::min(next, std::max(until, round_at_));
  }
  next = std::min({next, retries_.next(), preparing_.next(), NextGiveUp(), retire_at_,
                   protected_until_, start_rate_at_, usage_due_});
  if (maintenance_at_ != absl::InfiniteFuture()) {
    next = std::min(next, now_.boot + (maintenance_at_ - now_.wall));
  }
  if (next == BootTime::InfiniteFuture()) return absl::nullopt;
  return next;
}

SchedulerCore::OrderKey SchedulerCore::OrderOf(const JobEntry& job) const {
  return {-job.spec.spec().priority(), job.spec.submit_sequence(), job.uid()};
}

JobEntry* SchedulerCore::FindJob(const std::string& uid) { return model_.jobs.Find(uid); }

void SchedulerCore::TouchTask(const JobEntry& job, int rank) {
  Touch(job).task_chunks.insert(TaskChunkOf(rank));
}

bool SchedulerCore::SetState(JobEntry* job, Job::State state, const std::string& reason,
                             const std::string& message) {
  rec::JobStateRecord& record = job->state;
  if (record.state() == state && record.reason() == reason && record.message() == message)
    return false;
  const std::string phase = PhaseOf(*job);
  absl::optional<trace::Span> past;
  if (!phase.empty() && IsTraced(*job)) past = PhaseSpan(*job, now_.wall);
  record.set_state(state);
  record.set_reason(reason);
  record.set_message(message);
  if (const std::string next = PhaseOf(*job); next != phase) {
    if (phase == kQueuePhase && next == kPreparePhase) {
      const auto& begun = record.has_phase_time() ? record.phase_time() : job->spec.create_time();
      // The clock on the wall may have been set back.
      tally_.waits.push_back(std::max(now_.wall - ToTime(begun), absl::ZeroDuration()));
    }
    *record.mutable_phase_time() = ToProto(now_.wall);
    if (past.has_value()) effects_.push_back(TellSpan{*std::move(past)});
  }
  if (reason != "BACK_OFF") {
    record.clear_back_off();
    record.clear_retry_time();
  }
  if (reason != "MAKING_ROOM") record.clear_making_room();
  if (state != Job::STATE_QUEUED) {
    record.clear_estimated_start_time();
    record.clear_estimate_assumed();
  }
  TellState(*job, reason, message);
  return true;
}

void SchedulerCore::TellState(const JobEntry& job, const std::string& reason,
                              const std::string& message) {
  JobEvent& event = Touch(job).events.emplace_back();
  event.set_job(job.spec.name());
  event.set_job_uid(job.uid());
  event.set_generation(job.state.generation());
  *event.mutable_event_time() = ToProto(now_.wall);
  event.set_state(Job::State_Name(job.state.state()).substr(sizeof("STATE_") - 1));
  event.set_reason(reason);
  event.set_message(message);
}

void SchedulerCore::TellTask(const JobEntry& job, int rank) {
  JobEvent& event = Touch(job).events.emplace_back();
  event.set_job(job.spec.name());
  event.set_job_uid(job.uid());
  event.set_generation(job.gang->head.generation());
  *event.mutable_event_time() = ToProto(now_.wall);
  event.set_state(Job::State_Name(job.state.state()).substr(sizeof("STATE_") - 1));
  const rec::TaskRecord& task = job.gang->tasks[rank];
  *event.mutable_task()->mutable_key() = KeyOf(job, rank);
  event.mutable_task()->set_state(task.state());
  event.mutable_task()->set_node(job.gang->nodes[rank]);
  event.mutable_task()->set_host(task.host());
  *event.mutable_task()->mutable_ports() = task.ports();
  event.mutable_task()->set_pid(task.pid());
  *event.mutable_task()->mutable_observe_time() = ToProto(now_.wall);
  if (task.has_end()) {
    *event.mutable_task()->mutable_end() = task.end();
    event.set_message(absl::StrCat("task ", event.task().key().group(), "-",
                                   event.task().key().index(), " ", EndInWords(task.end())));
  }
}

void SchedulerCore::UpdateUsage() {
  for (const auto& [uid, dirty] : dirty_jobs_) {
    const JobEntry* job = FindJob(uid);
    usage_.Update(uid, job);
    queue_book_.SetLive(*job);
    held_book_.SetChanged(*job);
  }
}

Write SchedulerCore::WriteOf(JobEntry* job, const DirtyJob& dirty) {
  job->state.set_version(job->state.version() + 1);
  *job->state.mutable_update_time() = ToProto(now_.wall);
  Write write;
  write.puts = dirty.more_puts;
  write.deletes = dirty.more_deletes;
  write.events = dirty.events;
  if (dirty.spec) write.puts.push_back(PutJobSpec(*job));
  if (dirty.placements) {
    for (store::Put& put : PutPlacements(*job)) write.puts.push_back(std::move(put));
  }
  for (int chunk : dirty.task_chunks) write.puts.push_back(PutTaskChunk(*job, chunk));
  if (dirty.gang) write.puts.push_back(PutGangHead(*job));
  for (const std::string& order : dirty.orders) {
    if (dirty_orders_.erase(order) == 0) continue;
    write.puts.push_back(PutCapacityOrder(order, model_.capacity_orders.at(order)));
  }
  write.puts.push_back(PutJobState(*job));
  if (dirty.dropped_generation > 0) {
    for (const std::string& prefix : {PlacementPrefix(job->uid(), dirty.dropped_generation),
                                      TaskPrefix(job->uid(), dirty.dropped_generation)}) {
      write.deletes.push_back({prefix, store::PrefixEnd(prefix)});
    }
  }
  return write;
}

void SchedulerCore::WriteEndApart(JobEntry* job) {
  const auto dirty = dirty_jobs_.find(job->uid());
  if (!job->gang || dirty == dirty_jobs_.end()) return;
  if (!dirty->second.gang && dirty->second.task_chunks.empty()) return;
  other_writes_.push_back(WriteOf(job, dirty->second));
  dirty->second = DirtyJob();
}

void SchedulerCore::Flush() {
  UpdateUsage();
  WriteUsage();
  for (const NodeId& id : dirty_nodes_) {
    rec::NodeRecord& node = model_.nodes[id];
    node.set_version(node.version() + 1);
    Write write;
    write.puts.push_back(PutNode(id, node));
    other_writes_.push_back(std::move(write));
  }
  dirty_nodes_.clear();
  for (const std::string& uid : decisions_) {
    other_writes_.push_back(WriteOf(FindJob(uid), dirty_jobs_[uid]));
  }
  std::vector<std::pair<WriteOrder, JobEntry*>> others;
  others.reserve(dirty_jobs_.size());
  for (const auto& [uid, dirty] : dirty_jobs_) {
    if (std::find(decisions_.begin(), decisions_.end(), uid) != decisions_.end()) continue;
    JobEntry* job = FindJob(uid);
    others.emplace_back(WriteOrderOf(*job, dirty.placements), job);
  }
  std::sort(others.begin(), others.end());
  for (const auto& [order, job] : others) {
    other_writes_.push_back(WriteOf(job, dirty_jobs_[job->uid()]));
  }
  decisions_.clear();
  dirty_jobs_.clear();
  for (const std::string& uid : made_arrays_) {
    JobEntry* array = FindJob(uid);
    array->state.mutable_elements()->set_made(true);
    array->state.mutable_elements()->clear_change();
    other_writes_.push_back(WriteOf(array, DirtyJob()));
  }
  made_arrays_.clear();
  for (const std::string& id : dirty_orders_) {
    Write write;
    write.puts.push_back(PutCapacityOrder(id, model_.capacity_orders.at(id)));
    other_writes_.push_back(std::move(write));
  }
  dirty_orders_.clear();
  // Last, since a journal position says that all before it is stored.
  for (const std::string& id : dirty_clusters_) {
    Write write;
    write.puts.push_back(PutCluster(id, model_.clusters[id]));
    other_writes_.push_back(std::move(write));
  }
  dirty_clusters_.clear();

  for (const auto& [call, uid] : job_replies_) {
    replies_.push_back(ReplyJob{call, RenderJob(*FindJob(uid))});
  }
  job_replies_.clear();
  for (const auto& [call, id] : node_replies_) {
    const rec::NodeRecord& node = model_.nodes[id];
    replies_.push_back(ReplyNode{
        call, RenderNode(id, node, usage_.Get(id), WindowsOf(model_, id, node, now_.wall))});
  }
  node_replies_.clear();
  if (!order_replies_.empty()) {
    std::map<std::string, int> come = NodesCome(model_);
    for (const auto& [call, id] : order_replies_) {
      replies_.push_back(
          ReplyCapacityOrder{call, RenderCapacityOrder(model_.capacity_orders.at(id), come[id])});
    }
    order_replies_.clear();
  }
  for (const auto& [call, id] : window_replies_) {
    replies_.push_back(ReplyMaintenanceWindow{
        call, RenderMaintenanceWindow(model_, usage_, id.first,
                                      model_.maintenance_windows.at(id).window())});
  }
  window_replies_.clear();
  std::vector<std::string> clusters;
  for (const auto& [cluster, session] : sessions_) clusters.push_back(cluster);
  for (const std::string& cluster : clusters) SendDesired(cluster);
  resend_.clear();
  strays_.clear();
  forgotten_.clear();
  if (leases_.frozen() != suspected_told_) {
    suspected_told_ = leases_.frozen();
    effects_.push_back(ObserverSuspected{suspected_told_});
  }
}

}  // namespace capstan::scheduler
