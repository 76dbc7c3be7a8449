// Rounds of placement, the life of gangs, their data, and what time does to them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using rec::GangHeadRecord;

namespace {

// A Node whose machine may be paused (label): its deadlines may not be kept in time.
constexpr char kPausableLabel[] = "capstan.dev/pausable";

std::string TaskName(const JobEntry& job, int rank) {
  const auto [group, index] = GroupOf(job.spec.spec(), rank);
  return absl::StrCat(job.spec.spec().task_groups(group).name(), "-", index);
}

// What ended the generation, in words.
std::string FailureInWords(const JobEntry& job) {
  const GangHeadRecord& head = job.gang->head;
  if (head.has_failure()) {
    return absl::StrCat("task ", TaskName(job, head.failure().rank()), " ",
                        EndInWords(head.failure().end()));
  }
  return head.stop_reason() == Stop::REASON_PREPARE_FAILED ? "its Tasks were not prepared in time"
                                                           : "its Tasks were stopped";
}

bool NeedsData(const JobEntry& job) {
  return std::any_of(job.state.datasets().begin(), job.state.datasets().end(),
                     [](const rec::DatasetState& dataset) { return !dataset.ready(); });
}

}  // namespace

void SchedulerCore::Enqueue(JobEntry* job) {
  SetState(job, Job::STATE_QUEUED, "WAITING", "waits to be placed");
  Await(*job);
}

void SchedulerCore::Await(const JobEntry& job) {
  waiting_.insert(OrderOf(job));
  fresh_.insert(OrderOf(job));
  queue_book_.AddWaiting(job);
}

void SchedulerCore::Dequeue(const JobEntry& job) {
  waiting_.erase(OrderOf(job));
  fresh_.erase(OrderOf(job));
  queue_book_.RemoveWaiting(job);
  retry_at_.erase(job.uid());
}

void SchedulerCore::Round() {
  UpdateUsage();
  if (waiting_.empty()) {
    room_changed_ = false;
    return;
  }
  if (!room_changed_ && fresh_.empty()) return;
  std::set<NodeId> unreported;
  for (const auto& [id, node] : model_.nodes) {
    auto session = sessions_.find(id.cluster);
    if (session == sessions_.end() || !session->second.synced ||
        session->second.nodes_heard.count(id) == 0) {
      unreported.insert(id);
    }
  }
  std::vector<NodeStanding> standings = Standings(model_, usage_, draining_, unreported);
  std::vector<NodeCapacity> nodes;
  for (const NodeStanding& standing : standings) nodes.push_back(standing.capacity);

  const Resources capacity = PrepareQueues(nodes);
  const std::unique_ptr<PlacingRound> placing = placer_->Begin(nodes);
  // In a round room only shrinks: what did not fit once does not fit again.
  std::set<std::string> unfit;
  std::vector<const JobEntry*> placed, left;
  {
    QueueOrder order = queue_book_.Order(/*fresh_only=*/!room_changed_, capacity);
    while (order.has_next() && !StepFull()) {
      const JobEntry* job = FindJob(queue_book_.UidOf(order.next_gang()));
      if (TryNext(order, capacity, placing.get(), &standings, &nodes, &unfit)) {
        placed.push_back(job);
        order.Start();
      } else {
        left.push_back(job);
        order.Skip();
      }
    }
    // With work left over the flags stay set: NextDeadline asks for the rest.
    if (!order.has_next()) room_changed_ = false;
  }
  for (const JobEntry* job : placed) {
    Dequeue(*job);
    queue_book_.SetLive(*job);
  }
  for (const JobEntry* job : left) {
    fresh_.erase(OrderOf(*job));
    queue_book_.SetTried(*job);
  }
}

Resources SchedulerCore::PrepareQueues(const std::vector<NodeCapacity>& nodes) {
  std::set<std::string> accelerators;
  for (const auto& [id, node] : model_.nodes) {
    for (const auto& [name, count] : node.observation().allocatable().accelerators()) {
      accelerators.insert(name);
    }
  }
  if (queues_changed_ || accelerators != queue_book_.accelerators()) {
    queue_book_.SetTree(model_.queues, accelerators);
    queues_changed_ = false;
  }
  std::vector<Amounts> free;
  for (const NodeCapacity& node : nodes) {
    if (node.eligible) free.push_back(node.free);
  }
  return queue_book_.Capacity(free);
}

bool SchedulerCore::TryNext(const QueueOrder& order, const Resources& capacity,
                            PlacingRound* placing, std::vector<NodeStanding>* standings,
                            std::vector<NodeCapacity>* nodes, std::set<std::string>* unfit) {
  JobEntry* job = FindJob(queue_book_.UidOf(order.next_gang()));
  if (const absl::optional<std::string> limit = queue_book_.Refusal(order, capacity)) {
    if (job->state.reason() != "QUEUE_LIMIT" || job->state.message() != *limit) {
      SetState(job, Job::STATE_QUEUED, "QUEUE_LIMIT", *limit);
    }
    return false;
  }
  const GangRequest request = GangRequest::From(*job);
  const std::string shape = request.Shape();
  absl::optional<GangPlacement> placement;
  if (unfit->count(shape) == 0) placement = placing->Place(request);
  if (!placement) {
    unfit->insert(shape);
    if (job->state.reason() != "INSUFFICIENT_RESOURCES") {
      SetState(job, Job::STATE_QUEUED, "INSUFFICIENT_RESOURCES", RoomInWords(*job, *standings));
    }
    return false;
  }
  Place(job, *nodes, *placement);
  for (size_t rank = 0; rank < placement->size(); ++rank) {
    const int at = (*placement)[rank];
    const int group = GroupOf(job->spec.spec(), static_cast<int>(rank)).first;
    (*nodes)[at].free.Subtract(request.groups[group].each);
    if ((*standings)[at].unisolated) (*nodes)[at].only_submitter = request.submitter;
    (*standings)[at].capacity = (*nodes)[at];
  }
  return true;
}

void SchedulerCore::Place(JobEntry* job, const std::vector<NodeCapacity>& nodes,
                          const GangPlacement& placement) {
  std::vector<std::string> ids;
  ids.reserve(placement.size());
  for (int at : placement) ids.push_back(nodes[at].id.node);
  DirtyJob& dirty = Touch(*job);
  if (job->gang) dirty.dropped_generation = job->gang->head.generation();
  BeginGeneration(nodes[placement.front()].id.cluster, std::move(ids), job);
  dirty.placements = true;
  dirty.gang = true;
  dirty.task_chunks.clear();
  for (size_t rank = 0; rank < placement.size(); rank += kTasksPerChunk) {
    dirty.task_chunks.insert(TaskChunkOf(static_cast<int>(rank)));
  }
  job->state.clear_start_time();
  SetState(job, Job::STATE_PREPARING, "PLACED",
           absl::StrCat("placed on ", job->gang->head.cluster(), " as generation ",
                        job->state.generation()));
  *job->state.mutable_generation_time() = ToProto(now_.wall);
  if (IsTraced(*job)) effects_.push_back(TellSpan{PlaceSpan(*job, now_.wall), true});
  usage_.Update(job->uid(), job);
  WatchGang(*job);
  resend_.insert(job->uid());
}

void SchedulerCore::WatchGang(const JobEntry& job) {
  if (job.gang->head.phase() == GangHeadRecord::PHASE_PREPARING) {
    prepare_deadline_[job.uid()] = now_.boot + config_.prepare_timeout;
  } else if (job.gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
    started_at_[job.uid()] = now_.boot;
  }
}

void SchedulerCore::Advance(JobEntry* job) {
  switch (NextMove(*job->gang)) {
    case GangMove::kNone:
      break;
    case GangMove::kStart:
      StartGang(job);
      break;
    case GangMove::kStop:
      StopGang(job, job->gang->head.phase() == GangHeadRecord::PHASE_PREPARING
                        ? Stop::REASON_PREPARE_FAILED
                        : Stop::REASON_GANG_FAILED);
      break;
    case GangMove::kSucceed:
      EndGeneration(job, /*success=*/true);
      break;
    case GangMove::kEnd:
      EndGeneration(job, /*success=*/false);
      break;
  }
}

void SchedulerCore::StartGang(JobEntry* job) {
  job->gang->head.set_phase(GangHeadRecord::PHASE_STARTED);
  Touch(*job).gang = true;
  prepare_deadline_.erase(job->uid());
  WatchGang(*job);
  *job->state.mutable_start_time() = ToProto(now_.wall);
  SetState(job, Job::STATE_RUNNING, "STARTED",
           absl::StrCat("runs as generation ", job->state.generation()));
  resend_.insert(job->uid());
}

void SchedulerCore::StopGang(JobEntry* job, Stop::Reason reason) {
  job->gang->head.set_phase(GangHeadRecord::PHASE_STOPPING);
  job->gang->head.set_stop_reason(reason);
  Touch(*job).gang = true;
  prepare_deadline_.erase(job->uid());
  switch (reason) {
    case Stop::REASON_CANCELLED:
      SetState(job, Job::STATE_STOPPING, "CANCELLED", "cancelled; its Tasks are being ended");
      break;
    case Stop::REASON_PREPARE_FAILED:
      SetState(job, Job::STATE_STOPPING, "PREPARE_FAILED", FailureInWords(*job));
      break;
    default:
      SetState(job, Job::STATE_STOPPING, "TASK_FAILED", FailureInWords(*job));
      break;
  }
  resend_.insert(job->uid());
}

void SchedulerCore::EndGeneration(JobEntry* job, bool success) {
  const std::string& uid = job->uid();
  const int64_t generation = job->gang->head.generation();
  job->gang->head.set_phase(GangHeadRecord::PHASE_ENDED);
  DirtyJob& dirty = Touch(*job);
  dirty.gang = true;
  prepare_deadline_.erase(uid);
  room_changed_ = true;
  if (job->spec.spec().datasets_size() > 0 || !job->spec.spec().bundle().empty()) {
    rec::PinReleaseRecord& release = model_.pin_releases[{uid, generation}];
    release.set_schema_version(1);
    release.set_job_uid(uid);
    release.set_generation(generation);
    dirty.more_puts.push_back(PutPinRelease(release));
    effects_.push_back(ReleasePins{uid, generation});
  }
  auto started = started_at_.find(uid);
  if (started != started_at_.end()) {
    if (now_.boot - started->second >= config_.streak_reset_after) {
      job->state.set_uncounted_streak(0);
    }
    started_at_.erase(started);
  }
  if (IsTraced(*job)) {
    effects_.push_back(
        TellSpan{GenerationSpan(*job, now_.wall, success ? "" : FailureInWords(*job))});
  }
  if (job->state.cancel_requested()) {
    Finish(job, Job::STATE_CANCELLED, "CANCELLED", "cancelled; all its Tasks have ended");
    return;
  }
  if (success) {
    Finish(job, Job::STATE_SUCCEEDED, "SUCCEEDED", "every Task exited 0");
    return;
  }
  const RetryDecision retry = DecideRetry(*job);
  const std::string failure = FailureInWords(*job);
  const int max_restarts = job->spec.spec().retry().max_restarts();
  if (!retry.again) {
    Finish(job, Job::STATE_FAILED, retry.reason,
           absl::StrCat(failure, "; ", job->state.counted_restarts(), " of ", max_restarts,
                        " restarts were used"));
    return;
  }
  std::string why;
  if (retry.counted) {
    job->state.set_counted_restarts(job->state.counted_restarts() + 1);
    job->state.set_uncounted_streak(0);
    why = absl::StrCat(failure, "; restart ", job->state.counted_restarts(), " of ", max_restarts);
  } else {
    job->state.set_uncounted_streak(job->state.uncounted_streak() + 1);
    why = absl::StrCat(failure, "; restarts, which is not counted (", retry.reason, ")");
  }
  // The version may have left the Site since it was ready.
  if (retry.reason == "PREPARE_FAILED") {
    for (rec::DatasetState& dataset : *job->state.mutable_datasets()) dataset.set_ready(false);
  }
  BackOff(job, retry.back_off, why);
}

void SchedulerCore::BackOff(JobEntry* job, absl::Duration wait, const std::string& why) {
  SetState(job, Job::STATE_QUEUED, "BACK_OFF", why);
  if (wait <= absl::ZeroDuration()) {
    NeedsData(*job) ? AskForData(job) : Enqueue(job);
    return;
  }
  *job->state.mutable_back_off() = ToProto(wait);
  *job->state.mutable_retry_time() = ToProto(now_.wall + wait);
  retry_at_[job->uid()] = now_.boot + wait;
}

void SchedulerCore::Finish(JobEntry* job, Job::State state, const std::string& reason,
                           const std::string& message) {
  const bool awaited_data = job->state.reason() == "AWAITING_DATA";
  SetState(job, state, reason, message);
  *job->state.mutable_end_time() = ToProto(now_.wall);
  if (IsTraced(*job)) effects_.push_back(TellSpan{JobSpan(*job)});
  finished_.emplace(ToTime(job->state.end_time()), job->uid());
  ArmRetirement();
  Dequeue(*job);
  if (awaited_data) effects_.push_back(StopData{job->uid()});
}

void SchedulerCore::AskForData(JobEntry* job) {
  SetState(job, Job::STATE_QUEUED, "AWAITING_DATA", "waits for its data");
  if (job->state.data_cluster().empty()) ChooseDataCluster(job);
  if (job->state.data_cluster().empty()) return;
  for (int i = 0; i < job->state.datasets_size(); ++i) {
    const rec::DatasetState& dataset = job->state.datasets(i);
    if (dataset.ready()) continue;
    const auto& mount = job->spec.spec().datasets(i);
    effects_.push_back(EnsureData{job->uid(), i, mount.dataset(),
                                  dataset.version().empty() ? mount.version() : dataset.version(),
                                  job->state.data_cluster()});
  }
}

void SchedulerCore::ChooseDataCluster(JobEntry* job) {
  std::string chosen;
  for (const std::string& cluster : job->spec.spec().clusters()) {
    if (model_.clusters.count(cluster) > 0) {
      chosen = cluster;
      break;
    }
  }
  if (job->spec.spec().clusters().empty() && !model_.clusters.empty()) {
    // One that could hold the gang if it were empty; else the first.
    chosen = model_.clusters.begin()->first;
    std::vector<NodeCapacity> nodes;
    for (const auto& [id, node] : model_.nodes) {
      NodeCapacity& capacity = nodes.emplace_back();
      capacity.id = id;
      capacity.free = Amounts::From(node.observation().allocatable());
      capacity.eligible = true;
    }
    const absl::optional<GangPlacement> fits =
        placer_->Begin(nodes)->Place(GangRequest::From(*job));
    if (fits) chosen = nodes[fits->front()].id.cluster;
  }
  if (chosen.empty()) return;
  job->state.set_data_cluster(chosen);
  Touch(*job);
}

void SchedulerCore::ClustersChanged() {
  for (auto& [uid, job] : model_.jobs) {
    if (job.state.state() == Job::STATE_QUEUED && job.state.reason() == "AWAITING_DATA" &&
        job.state.data_cluster().empty()) {
      AskForData(&job);
    }
  }
}

void SchedulerCore::On(const DataProgressed& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA" || event.dataset < 0 ||
      event.dataset >= job->state.datasets_size()) {
    return;
  }
  rec::DatasetState& dataset = *job->state.mutable_datasets(event.dataset);
  if (dataset.ready()) return;
  dataset.set_data_load(event.data_load);
  dataset.set_loaded_bytes(event.loaded_bytes);
  dataset.set_total_bytes(event.total_bytes);
  dataset.set_bytes_per_second(event.bytes_per_second);
  dataset.clear_eta();
  if (event.eta != absl::InfiniteDuration()) *dataset.mutable_eta() = ToProto(event.eta);
  Touch(*job);
}

void SchedulerCore::On(const DataReady& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA" || event.dataset < 0 ||
      event.dataset >= job->state.datasets_size()) {
    return;
  }
  rec::DatasetState& dataset = *job->state.mutable_datasets(event.dataset);
  if (dataset.ready()) return;
  dataset.set_ready(true);
  dataset.set_version(event.version);
  dataset.set_loaded_bytes(std::max(dataset.loaded_bytes(), dataset.total_bytes()));
  dataset.clear_eta();
  dataset.clear_bytes_per_second();
  Touch(*job);
  if (!NeedsData(*job)) Enqueue(job);
}

void SchedulerCore::On(const DataFailed& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA") return;
  Finish(job, Job::STATE_FAILED, event.reason, event.message);
}

void SchedulerCore::On(const PinsReleased& event) {
  if (model_.pin_releases.erase({event.job_uid, event.generation}) == 0) return;
  Write write;
  write.deletes.push_back({PinReleaseKey(event.job_uid, event.generation), ""});
  other_writes_.push_back(std::move(write));
}

void SchedulerCore::On(const Tick&) {
  for (const std::string& cluster : leases_.Expire(now_.boot)) RefreshNodeStates(cluster);
  const std::map<std::string, BootTime> prepare = prepare_deadline_;
  for (const auto& [uid, at] : prepare) {
    if (at > now_.boot) continue;
    if (StepFull()) return;
    JobEntry* job = FindJob(uid);
    StopGang(job, Stop::REASON_PREPARE_FAILED);
    Advance(job);
  }
  const std::map<std::string, BootTime> retry = retry_at_;
  for (const auto& [uid, at] : retry) {
    if (at > now_.boot) continue;
    if (StepFull()) return;
    JobEntry* job = FindJob(uid);
    retry_at_.erase(uid);
    NeedsData(*job) ? AskForData(job) : Enqueue(job);
  }
  GiveUpSilent();
  Retire();
}

bool SchedulerCore::MayGiveUp(const NodeId& id, const rec::NodeRecord& record) const {
  if (!leases_.NodeSilent(id) || leases_.frozen()) return false;
  const NodeObservation& observation = record.observation();
  for (int limitation : observation.limitations()) {
    // Nothing would end its Tasks: only a confirmed end counts.
    if (limitation == NodeObservation::LIMITATION_UNFENCED) return false;
  }
  auto pausable = observation.labels().find(kPausableLabel);
  return pausable == observation.labels().end() || pausable->second != "true";
}

void SchedulerCore::GiveUpSilent() {
  if (!leases_.AnySilent()) return;
  for (auto& [id, record] : model_.nodes) {
    if (!MayGiveUp(id, record)) continue;
    const BootTime bound = leases_.ConfirmedBound(id);
    const std::set<std::string> uids = usage_.Get(id).jobs;
    for (const std::string& uid : uids) {
      if (StepFull()) return;
      JobEntry* job = FindJob(uid);
      const absl::Duration wait = config_.ReplaceAfter(ToDuration(job->spec.spec().fence_after()));
      if (now_.boot < bound + wait || !job->live()) continue;
      for (int rank = 0; rank < static_cast<int>(job->gang->tasks.size()); ++rank) {
        if (job->gang->ended(rank) || job->gang->node(rank) != id) continue;
        EndTask(TaskEnd::CAUSE_NODE_GIVEN_UP,
                absl::StrCat("no word of ", id.Name(), " for ", absl::FormatDuration(wait)), rank,
                &*job->gang);
        // An executor that still hears us and not the Node would start it when the Node comes back.
        strays_[id.cluster].push_back(StopStray(KeyOf(*job, rank), id.node, job));
        TouchTask(*job, rank);
        TellTask(*job, rank);
      }
      Touch(*job).gang = true;
      Advance(job);
    }
    if (record.state() != Node::STATE_GIVEN_UP &&
        now_.boot >= bound + config_.ReplaceAfter(config_.default_fence_after)) {
      record.set_state(Node::STATE_GIVEN_UP);
      given_up_.insert(id);
      dirty_nodes_.insert(id);
    }
  }
}

BootTime SchedulerCore::NextGiveUp() const {
  BootTime next = BootTime::InfiniteFuture();
  if (!leases_.AnySilent()) return next;
  for (const auto& [id, record] : model_.nodes) {
    if (!MayGiveUp(id, record)) continue;
    const BootTime bound = leases_.ConfirmedBound(id);
    for (const std::string& uid : usage_.Get(id).jobs) {
      const JobEntry* job = model_.FindJob(uid);
      next =
          std::min(next, bound + config_.ReplaceAfter(ToDuration(job->spec.spec().fence_after())));
    }
    if (record.state() != Node::STATE_GIVEN_UP) {
      next = std::min(next, bound + config_.ReplaceAfter(config_.default_fence_after));
    }
  }
  return next;
}

}  // namespace capstan::scheduler
