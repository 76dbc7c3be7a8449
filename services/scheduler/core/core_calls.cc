// The beginning of a term, and the calls of people and services.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/resource/etag.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;

namespace {

constexpr char kDefaultQueue[] = "default";
// Expired request ids forgotten with each new one.
constexpr int kForgottenRequests = 8;

std::string QueueIdOf(absl::string_view name) {
  absl::ConsumePrefix(&name, "queues/");
  return std::string(name);
}

// The first place in the order of submission behind the Job, and the elements if it is an array.
int64_t NextSequence(const JobEntry& job) {
  return job.spec.submit_sequence() + 1 + (IsArray(job) ? job.spec.spec().array().size() : 0);
}

absl::Status FieldError(absl::string_view field, absl::string_view description) {
  status::FieldErrors errors;
  errors.Add(field, description);
  return errors.ToStatus();
}

// A leader before has tried it and written so.
bool SaysWhyItWaits(absl::string_view reason) {
  return reason == "INSUFFICIENT_RESOURCES" || reason == "RESERVED" || reason == kOrdered ||
         absl::StartsWith(reason, "QUEUE_");
}

}  // namespace

void SchedulerCore::On(const LeadershipGained& event) {
  leading_ = true;
  token_ = event.token;
  for (const auto& [id, cluster] : model_.clusters) {
    leases_.AddCluster(id, now_.boot);
    clusters_unheard_.insert(id);
  }
  for (const auto& [id, node] : model_.nodes) {
    const bool given_up = node.state() == Node::STATE_GIVEN_UP;
    leases_.AddNode(id, node.observation().silent(), given_up, now_.boot);
    if (given_up) given_up_.insert(id);
  }
  for (const auto& [key, request] : model_.requests) {
    requests_by_time_.emplace(ToTime(request.create_time()), key);
  }
  for (store::Delete& stale : garbage_) {
    Write write;
    write.deletes.push_back(std::move(stale));
    other_writes_.push_back(std::move(write));
  }
  garbage_.clear();
  if (model_.queues.count(kDefaultQueue) == 0) {
    rec::QueueRecord& record = model_.queues[kDefaultQueue];
    record.set_schema_version(1);
    record.mutable_queue()->set_name(absl::StrCat("queues/", kDefaultQueue));
    record.mutable_queue()->set_uid(kDefaultQueue);
    record.mutable_queue()->set_weight(100);
    *record.mutable_queue()->mutable_create_time() = ToProto(now_.wall);
    record.mutable_queue()->set_etag(EtagOf(record.queue()));
    Write write;
    write.puts.push_back(PutQueue(kDefaultQueue, record));
    other_writes_.push_back(std::move(write));
  }
  for (const auto& [id, release] : model_.pin_releases) {
    effects_.push_back(ReleasePins{release.job_uid(), release.generation()});
  }
  // There may be very many Jobs: each is looked at twice, and few are unpacked.
  std::vector<std::string> of_arrays;
  for (auto at = model_.jobs.begin(); at != model_.jobs.end(); ++at) {
    const JobGlance glance = at.glance();
    if (glance.has_singleton && !glance.final()) JoinSingleton(at->second);
    if (glance.is_element && !glance.final()) RestoreTurn(at->second);
    if (glance.is_element || glance.is_array) of_arrays.emplace_back(glance.uid);
  }
  // By what a Job asks and what it was told last, both as the pool holds them: its kind.
  absl::flat_hash_map<std::pair<const char*, const char*>, uint32_t> kinds;
  // By submission: sequence, kind and identity.
  std::vector<std::tuple<int64_t, uint32_t, SharedBytes>> waiting;
  std::vector<std::string> held, released;  // uids
  for (auto at = model_.jobs.begin(); at != model_.jobs.end(); ++at) {
    const JobGlance glance = at.glance();
    const bool waits = !at.unpacked() && glance.state == Job::STATE_QUEUED && !glance.is_confined &&
                       !glance.makes_room && !glance.is_array && !glance.is_held &&
                       SaysWhyItWaits(glance.reason);
    if (waits) {
      // Only the first of each kind is unpacked.
      const auto [kind, fresh] =
          kinds.try_emplace({at.ask().bytes().data(), at.words().bytes().data()}, 0);
      if (fresh) {
        kind->second = queue_book_.AddWaiting(at->second, /*fresh=*/false);
      } else {
        waiting.emplace_back(glance.submit_sequence, kind->second, at.identity());
      }
      next_submit_sequence_ = std::max(next_submit_sequence_, glance.submit_sequence + 1);
      if (glance.has_estimate) reserved_ = std::string(glance.uid);
      continue;
    }
    if (!at.unpacked() && glance.reason == kHeld && glance.is_held && !glance.is_confined) {
      next_submit_sequence_ = std::max(next_submit_sequence_, glance.submit_sequence + 1);
      continue;
    }
    const auto& [uid, job] = *at;
    next_submit_sequence_ = std::max(next_submit_sequence_, NextSequence(job));
    for (const auto& avoided : job.state.avoided_nodes()) {
      avoidances_.emplace(now_.boot + (ToTime(avoided.until()) - now_.wall), uid);
    }
    if (IsMoving(job) || IsMoved(job)) moving_.insert(uid);
    RestorePause(job);
    if (job.live()) {
      live_.insert(uid);
      usage_.Update(uid, &job);
      held_book_.SetChanged(job);
      queue_book_.SetLive(job);
      WatchGang(job);
      Advance(FindJob(uid));
      continue;
    }
    if (job.final()) finished_.emplace(ToTime(job.state.end_time()), uid);
    if (job.state.state() != Job::STATE_QUEUED) continue;
    if (job.state.reason() == kHeld) {
      if (!job.state.hold()) released.push_back(uid);
      continue;
    }
    if (job.state.has_estimated_start_time()) reserved_ = uid;
    if (job.state.reason() == kAwaitsJobs) {
      WatchDependencies(job);
    } else if (job.state.reason() == "AWAITING_DATA") {
      AskForData(FindJob(uid));
    } else if (job.state.making_room_size() > 0) {
      making_room_.insert(OrderOf(job));
      queue_book_.SetLive(job);
    } else if (IsReturning(job)) {
      const absl::Duration waited = now_.wall - ToTime(job.state.phase_time());
      returning_[OrderOf(job)] =
          now_.boot +
          std::clamp(config_.return_within - waited, absl::ZeroDuration(), config_.return_within);
      queue_book_.SetLive(job);
    } else if (job.state.reason() == "BACK_OFF") {
      retries_.Set(uid, now_.boot + ToDuration(job.state.back_off()));
    } else if (job.state.hold() && job.state.reason() != kAwaitsTurn) {
      // A version that knows no holds has led.
      held.push_back(uid);
    } else if (SaysWhyItWaits(job.state.reason())) {
      queue_book_.AddWaiting(job, /*fresh=*/false);
    } else if (job.state.reason() != kAwaitsTurn) {
      Await(FindJob(uid));
    }
  }
  // A book that grows at its end is filled several times as fast.
  std::sort(waiting.begin(), waiting.end(),
            [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
  for (auto& [submit_sequence, kind, identity] : waiting) {
    queue_book_.AddWaiting(std::move(identity), submit_sequence, kind);
  }
  for (const std::string& uid : held) Withhold(FindJob(uid));
  ResumeArrays(of_arrays);
  for (const std::string& uid : released) BeginOrWait(FindJob(uid));
  ResumeSingletons();
  RestoreUsage();
  RestoreOrders();
  ResumeMakingRoom();
  ArmRetirement();
}

absl::StatusOr<std::string> SchedulerCore::Replayed(const std::string& key,
                                                    const std::string& body_hash) const {
  auto it = model_.requests.find(key);
  if (it == model_.requests.end()) return std::string();
  const rec::RequestRecord& request = it->second;
  if (now_.wall - ToTime(request.create_time()) > config_.request_id_ttl) return std::string();
  if (request.body_hash() == body_hash) return request.made();
  return status::Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                       "this request_id was used with another body within the last 24 h; use a "
                       "fresh UUID for a new request",
                       {{"made", request.made()}});
}

void SchedulerCore::RememberRequest(const std::string& key, const std::string& body_hash,
                                    const std::string& made, std::vector<store::Put>* puts,
                                    std::vector<store::Delete>* deletes) {
  auto forget = [this](std::multimap<absl::Time, std::string>::iterator it) {
    model_.requests.erase(it->second);
    return requests_by_time_.erase(it);
  };
  auto known = model_.requests.find(key);
  if (known != model_.requests.end()) {
    auto [it, end] = requests_by_time_.equal_range(ToTime(known->second.create_time()));
    while (it != end && it->second != key) ++it;
    if (it != end) forget(it);
  }
  for (int i = 0; i < kForgottenRequests && !requests_by_time_.empty(); ++i) {
    auto oldest = requests_by_time_.begin();
    if (now_.wall - oldest->first <= config_.request_id_ttl) break;
    deletes->push_back({oldest->second, ""});
    forget(oldest);
  }
  rec::RequestRecord& record = model_.requests[key];
  record.set_schema_version(1);
  record.set_body_hash(body_hash);
  record.set_made(made);
  *record.mutable_create_time() = ToProto(now_.wall);
  requests_by_time_.emplace(ToTime(record.create_time()), key);
  puts->push_back(PutRequest(key, record));
}

absl::Status SchedulerCore::CheckNewJob(const CreateJob& event, const std::string& name) const {
  auto queue = model_.queues.find(QueueIdOf(event.spec.queue()));
  if (queue == model_.queues.end()) {
    return FieldError("job.spec.queue", absl::StrCat("`", event.spec.queue(),
                                                     "` does not exist; `capstan queue list` "
                                                     "shows those that do"));
  }
  const auto& projects = queue->second.queue().projects();
  if (!projects.empty() &&
      std::find(projects.begin(), projects.end(), event.project) == projects.end()) {
    return FieldError("job.spec.queue",
                      absl::StrCat("`", event.spec.queue(), "` does not admit ", event.project));
  }
  if (event.spec.preemption() == capstan::scheduler::v1::JobSpec::PREEMPTION_NEVER &&
      !queue->second.queue().allow_non_preemptible()) {
    return FieldError("job.spec.preemption",
                      absl::StrCat("is PREEMPTION_NEVER, and `", event.spec.queue(),
                                   "` does not set allow_non_preemptible; leave it out, or choose "
                                   "another Queue"));
  }
  const auto closed = [](const capstan::scheduler::v1::Queue& q) {
    return q.cordon() || q.drain();
  };
  if (const std::string above = QueueAbove(model_, queue->first, closed); !above.empty()) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "QUEUE_CORDONED",
                         absl::StrCat("queues/", above,
                                      " takes no new Jobs: it is cordoned or drained; choose "
                                      "another Queue, or wait until it is opened again"),
                         {{"queue", absl::StrCat("queues/", above)}});
  }
  if (HasQueuesBelow(model_, queue->first)) {
    return FieldError("job.spec.queue",
                      absl::StrCat("`", event.spec.queue(),
                                   "` has Queues below it and takes no Jobs; choose one of them"));
  }
  if (model_.FindJobByName(name) != nullptr) {
    return status::Error(absl::StatusCode::kAlreadyExists, "JOB_EXISTS",
                         absl::StrCat(name, " exists already; choose another id"), {{"job", name}});
  }
  CAPSTAN_RETURN_IF_ERROR(CheckArray(event, name));
  CAPSTAN_RETURN_IF_ERROR(CheckDependencies(event, name));
  const size_t elements = static_cast<size_t>(event.spec.array().size());
  if (model_.jobs.size() - finished_.size() + elements >= config_.max_jobs ||
      model_.jobs.size() + elements >= config_.max_jobs + config_.max_finished_jobs) {
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_JOBS",
                      absl::StrCat("the scheduler keeps ", model_.jobs.size(),
                                   " Jobs, its limit; submit again later")),
        absl::Minutes(1));
  }
  return absl::OkStatus();
}

void SchedulerCore::On(const CreateJob& event) {
  const std::string key =
      RequestKey("jobs", absl::StripPrefix(event.project, "projects/"), event.request_id);
  if (!event.request_id.empty()) {
    absl::StatusOr<std::string> made = Replayed(key, event.body_hash);
    if (!made.ok()) {
      replies_.push_back(ReplyJob{event.call, made.status()});
      return;
    }
    if (!made->empty() && FindJob(*made) != nullptr) {
      job_replies_[event.call] = *made;
      return;
    }
    if (!made->empty()) {
      replies_.push_back(ReplyJob{
          event.call, status::Error(absl::StatusCode::kAlreadyExists, "JOB_ARCHIVED",
                                    absl::StrCat("this request made the Job ", *made,
                                                 ", which has ended and is in the archive"),
                                    {{"uid", *made}})});
      return;
    }
  }
  const std::string name =
      absl::StrCat(event.project, "/jobs/",
                   event.job_id.empty() ? absl::StrCat("job-", event.uid) : event.job_id);
  const absl::Status status = CheckNewJob(event, name);
  if (!status.ok()) {
    replies_.push_back(ReplyJob{event.call, status});
    return;
  }
  JobEntry job;
  job.spec.set_schema_version(1);
  job.spec.set_name(name);
  job.spec.set_uid(event.uid);
  job.spec.set_submitter(event.submitter);
  *job.spec.mutable_create_time() = ToProto(now_.wall);
  job.spec.set_submit_sequence(next_submit_sequence_);
  *job.spec.mutable_spec() = event.spec;
  job.spec.set_traceparent(event.traceparent);
  job.state.set_schema_version(1);
  job.state.set_hold(event.hold);
  if (event.validate_only) {
    replies_.push_back(ReplyJob{event.call, RenderJob(job)});
    return;
  }
  if (const absl::optional<QueueBook::RateWait> wait =
          queue_book_.TakeSubmission(event.spec.queue())) {
    replies_.push_back(
        ReplyJob{event.call,
                 status::WithRetryDelay(
                     status::Error(absl::StatusCode::kResourceExhausted, "QUEUE_RATE",
                                   absl::StrCat("job.spec.queue: ", wait->words,
                                                ", with all Queues below it; submit again later"),
                                   {{"field", "job.spec.queue"}, {"queue", wait->queue}}),
                     wait->available - now_.boot)});
    return;
  }
  if (event.spec.has_array()) job.state.mutable_elements();
  next_submit_sequence_ = NextSequence(job);
  JobEntry* stored = AddJob(std::move(job));
  if (!event.request_id.empty()) {
    DirtyJob& dirty = Touch(*stored);
    RememberRequest(key, event.body_hash, event.uid, &dirty.more_puts, &dirty.more_deletes);
  }
  job_replies_[event.call] = event.uid;
  if (IsTraced(*stored)) effects_.push_back(TellSpan{SubmitSpan(*stored, now_.wall), true});
  if (!IsArray(*stored)) return BeginAfterOthers(stored);
  SetState(stored, Job::STATE_QUEUED, kAwaitsJobs, "waits for its elements to end");
  MakeElements(stored);
}

JobEntry* SchedulerCore::AddJob(JobEntry job) {
  JobEntry& stored = model_.jobs.Add(std::move(job));
  for (int i = 0; i < stored.spec.spec().datasets_size(); ++i) stored.state.add_datasets();
  Touch(stored).spec = true;
  return &stored;
}

JobEntry* SchedulerCore::FindNamed(CallId call, const std::string& name, const std::string& etag) {
  JobEntry* job = model_.jobs.FindByName(name);
  if (job == nullptr) {
    replies_.push_back(ReplyJob{call, status::NotFound(name)});
    return nullptr;
  }
  if (const absl::Status fresh = resource::CheckEtag(etag, EtagOf(job->state.version()));
      !fresh.ok()) {
    replies_.push_back(ReplyJob{call, fresh});
    return nullptr;
  }
  return job;
}

void SchedulerCore::On(const CancelJob& event) {
  JobEntry* job = FindNamed(event.call, event.name, event.etag);
  if (job == nullptr) return;
  job_replies_[event.call] = job->uid();
  Cancel(job);
}

void SchedulerCore::Cancel(JobEntry* job) {
  if (job->final() || job->state.cancel_requested()) return;
  job->state.set_cancel_requested(true);
  Touch(*job);
  if (IsArray(*job)) {
    SetState(job, Job::STATE_QUEUED, kAwaitsJobs, "cancelled; its elements are being ended");
    cancelling_.insert(job->uid());
  } else if (!job->live()) {
    Finish(job, Job::STATE_CANCELLED, "CANCELLED", "cancelled before it was placed");
  } else if (job->state.state() == Job::STATE_STOPPING) {
    // Nothing is kept for it any more.
    room_changed_ = true;
    SetState(job, Job::STATE_STOPPING, "CANCELLED", "cancelled; its Tasks are being ended");
  } else {
    StopGang(job, capstan::type::v1::Stop::REASON_CANCELLED);
    Advance(job);
  }
}

void SchedulerCore::ReplyWithNode(CallId call, const NodeId& id) {
  if (model_.nodes.count(id) == 0) {
    replies_.push_back(ReplyNode{call, status::NotFound(id.Name())});
  } else {
    node_replies_[call] = id;
  }
}

void SchedulerCore::On(const CordonNode& event) {
  const NodeId id{event.cluster, event.node};
  ReplyWithNode(event.call, id);
  auto it = model_.nodes.find(id);
  if (it == model_.nodes.end()) return;
  for (capstan::scheduler::v1::Cordon& cordon : *it->second.mutable_cordons()) {
    if (cordon.owner() != event.owner) continue;
    if (cordon.reason() != event.reason) {
      cordon.set_reason(event.reason);
      TouchNode(id);
    }
    return;
  }
  capstan::scheduler::v1::Cordon& cordon = *it->second.add_cordons();
  cordon.set_owner(event.owner);
  cordon.set_reason(event.reason);
  *cordon.mutable_create_time() = ToProto(now_.wall);
  TouchNode(id);
}

void SchedulerCore::On(const UncordonNode& event) {
  const NodeId id{event.cluster, event.node};
  ReplyWithNode(event.call, id);
  auto it = model_.nodes.find(id);
  if (it == model_.nodes.end()) return;
  auto* cordons = it->second.mutable_cordons();
  for (int i = 0; i < cordons->size(); ++i) {
    if (cordons->Get(i).owner() != event.owner) continue;
    cordons->DeleteSubrange(i, 1);
    TouchNode(id);
    room_changed_ = true;
    return;
  }
}

void SchedulerCore::On(const ConfirmSilence& event) {
  leases_.Confirm();
  GiveUpSilent();
  replies_.push_back(ReplyEmpty{event.call, absl::OkStatus()});
}

}  // namespace capstan::scheduler
