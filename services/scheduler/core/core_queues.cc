// Queues: made, changed, held and drained.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/resource/etag.h"
#include "libs/resource/field_mask.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::Stop;
using rec::GangHeadRecord;

namespace {

constexpr int64_t kDefaultWeight = 100;

std::string QueueOf(const JobEntry& job) {
  return std::string(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
}

bool StartsNothing(const Queue& queue) { return queue.hold() || queue.drain(); }
bool IsDrained(const Queue& queue) { return queue.drain(); }

}  // namespace

void SchedulerCore::On(const CreateQueue& event) {
  const std::string key = RequestKey("queues", "-", event.request_id);
  if (!event.request_id.empty()) {
    absl::StatusOr<std::string> made = Replayed(key, event.body_hash);
    if (!made.ok()) {
      replies_.push_back(ReplyQueue{event.call, made.status()});
      return;
    }
    auto known = model_.queues.find(*made);
    if (known != model_.queues.end()) {
      replies_.push_back(ReplyQueue{event.call, known->second.queue()});
      return;
    }
  }
  const std::string name = absl::StrCat("queues/", event.queue_id);
  if (model_.queues.count(event.queue_id) > 0) {
    replies_.push_back(ReplyQueue{
        event.call, status::Error(absl::StatusCode::kAlreadyExists, "QUEUE_EXISTS",
                                  absl::StrCat(name, " exists already; choose another id"),
                                  {{"queue", name}})});
    return;
  }
  if (const absl::Status status = CheckNewQueue(model_, event.queue_id, event.queue);
      !status.ok()) {
    replies_.push_back(ReplyQueue{event.call, status});
    return;
  }
  rec::QueueRecord& record = model_.queues[event.queue_id];
  record.set_schema_version(1);
  // What the new Queue does not lend, or its weight, changes what others may have.
  queues_changed_ = room_changed_ = true;
  capstan::scheduler::v1::Queue& queue = *record.mutable_queue();
  queue.set_name(name);
  queue.set_uid(event.uid);
  queue.set_weight(event.queue.weight() == 0 ? kDefaultWeight : event.queue.weight());
  *queue.mutable_projects() = event.queue.projects();
  queue.set_parent(event.queue.parent());
  *queue.mutable_quotas() = event.queue.quotas();
  queue.set_cordon(event.queue.cordon());
  queue.set_hold(event.queue.hold());
  queue.set_drain(event.queue.drain());
  if (event.queue.has_min_runtime()) *queue.mutable_min_runtime() = event.queue.min_runtime();
  queue.set_allow_non_preemptible(event.queue.allow_non_preemptible());
  if (event.queue.has_submit_rate()) *queue.mutable_submit_rate() = event.queue.submit_rate();
  if (event.queue.has_start_rate()) *queue.mutable_start_rate() = event.queue.start_rate();
  if (event.queue.has_disruption_budget()) {
    *queue.mutable_disruption_budget() = event.queue.disruption_budget();
  }
  if (event.queue.has_usage_half_life()) {
    *queue.mutable_usage_half_life() = event.queue.usage_half_life();
  }
  *queue.mutable_create_time() = ToProto(now_.wall);
  queue.set_etag(EtagOf(queue));
  Write write;
  write.puts.push_back(PutQueue(event.queue_id, record));
  if (!event.request_id.empty()) {
    RememberRequest(key, event.body_hash, event.queue_id, &write.puts, &write.deletes);
  }
  other_writes_.push_back(std::move(write));
  replies_.push_back(ReplyQueue{event.call, queue});
}

void SchedulerCore::On(const UpdateQueue& event) {
  auto found = model_.queues.find(event.queue_id);
  if (found == model_.queues.end()) {
    replies_.push_back(
        ReplyQueue{event.call, status::NotFound(absl::StrCat("queues/", event.queue_id))});
    return;
  }
  Queue queue = found->second.queue();
  absl::Status status = resource::CheckEtag(event.etag, queue.etag());
  if (status.ok()) {
    status = resource::ApplyFieldMask(
        event.update_mask, event.queue,
        {"name", "uid", "etag", "create_time", "usage", "dominant_share", "fair_dominant_share"},
        &queue);
  }
  if (status.ok() && queue.parent() != found->second.queue().parent()) {
    status::FieldErrors errors;
    errors.Add("queue.parent",
               absl::StrCat("is `", queue.parent(),
                            "`; a Queue stays where it is in the tree: leave this as it is, or "
                            "make another Queue there"));
    status = errors.ToStatus();
  }
  if (queue.weight() == 0) queue.set_weight(kDefaultWeight);
  if (status.ok()) status = CheckChangedQueue(model_, event.queue_id, queue);
  if (!status.ok()) {
    replies_.push_back(ReplyQueue{event.call, status});
    return;
  }
  queue.set_etag(EtagOf(queue));
  const bool stops = StartsNothing(queue) && !StartsNothing(found->second.queue());
  *found->second.mutable_queue() = queue;
  queues_changed_ = room_changed_ = drain_due_ = true;
  // Places that are held for Jobs which may not start now are given back.
  const std::set<OrderKey> making_room = making_room_;
  for (const OrderKey& key : making_room) {
    JobEntry* job = FindJob(std::get<2>(key));
    if (QueueAbove(model_, QueueOf(*job), StartsNothing).empty()) continue;
    making_room_.erase(key);
    Enqueue(job);
  }
  // Those that wait for something else say from now on that they are held.
  const auto hold = [this](const JobGlance& job) {
    const std::string id(absl::StripPrefix(job.queue, "queues/"));
    if (queue_book_.IsWaiting(job.submit_sequence) && job.reason != "QUEUE_HELD" &&
        !QueueAbove(model_, id, StartsNothing).empty()) {
      fresh_.insert({-job.priority, job.submit_sequence, std::string(job.uid)});
    }
  };
  if (stops) model_.jobs.ForEachGlance(hold);
  Write write;
  write.puts.push_back(PutQueue(event.queue_id, found->second));
  other_writes_.push_back(std::move(write));
  replies_.push_back(ReplyQueue{event.call, std::move(queue)});
}

void SchedulerCore::DrainQueues() {
  if (!drain_due_) return;
  const bool any = std::any_of(model_.queues.begin(), model_.queues.end(),
                               [](const auto& entry) { return entry.second.queue().drain(); });
  for (auto uid = live_.begin(); any && uid != live_.end(); ++uid) {
    if (StepFull()) return;
    JobEntry* job = FindJob(*uid);
    if (job->gang->head.phase() == GangHeadRecord::PHASE_STOPPING) continue;
    const std::string drained = QueueAbove(model_, QueueOf(*job), IsDrained);
    if (drained.empty()) continue;
    StopGang(job, Stop::REASON_DRAINED, absl::StrCat("queues/", drained));
  }
  drain_due_ = false;
}

bool SchedulerCore::WaitsForRate(JobEntry* job, bool* told) {
  const absl::optional<QueueBook::RateWait> wait = queue_book_.StartWait(*job);
  if (!wait.has_value()) return false;
  start_rate_at_ = std::min(start_rate_at_, wait->available);
  // Nodes go on being kept for one that they were ordered for: its turn comes soon.
  const bool is_news =
      !IsNominee(*job) && SetState(job, Job::STATE_QUEUED, "QUEUE_RATE", wait->words);
  if (told != nullptr) *told = is_news;
  return true;
}

void SchedulerCore::SettleHeld() {
  while (!fresh_.empty() && !StepFull()) {
    JobEntry* job = FindJob(std::get<2>(*fresh_.begin()));
    const std::string above = QueueAbove(model_, QueueOf(*job), StartsNothing);
    if (!above.empty() && job->state.reason() != "QUEUE_HELD") {
      SetState(job, Job::STATE_QUEUED, "QUEUE_HELD",
               absl::StrCat("queues/", above, " is held or drained: nothing starts in it"));
    }
    fresh_.erase(fresh_.begin());
    queue_book_.SetTried(*job);
  }
}

}  // namespace capstan::scheduler
