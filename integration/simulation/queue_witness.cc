#include "integration/simulation/queue_witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/disruptions.h"

namespace capstan::simulation {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::Stop;
using scheduler::JobEntry;
using scheduler::Model;
using scheduler::rec::GangHeadRecord;

namespace {

// Of a true duration, what the slowest clock shows.
constexpr double kSlowestClock = 0.999;

bool IsForAnother(const GangHeadRecord& head) {
  return head.phase() == GangHeadRecord::PHASE_STOPPING &&
         (head.stop_reason() == Stop::REASON_PREEMPTED ||
          head.stop_reason() == Stop::REASON_SHRUNK);
}

const Queue* FindQueue(const Model& model, const std::string& name) {
  const auto queue = model.queues.find(std::string(absl::StripPrefix(name, "queues/")));
  return queue == model.queues.end() ? nullptr : &queue->second.queue();
}

bool EndedAsAsked(JobDependency::Condition condition, Job::State state) {
  switch (condition) {
    case JobDependency::CONDITION_ENDED:
      return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED ||
             state == Job::STATE_CANCELLED;
    case JobDependency::CONDITION_NOT_SUCCEEDED:
      return state == Job::STATE_FAILED || state == Job::STATE_CANCELLED;
    default:
      return state == Job::STATE_SUCCEEDED;
  }
}

}  // namespace

void QueueWitness::Begin(const std::string& who, const Model& model) {
  Term& term = terms_[who];
  term = Term();
  for (const auto& [uid, job] : model.jobs) {
    Note(model, uid, &term);
    const bool has_begun =
        job.gang.has_value() && job.gang->head.phase() == GangHeadRecord::PHASE_STARTED;
    if (has_begun) term.found.insert({uid, job.gang->head.generation()});
  }
  JudgeLimits(term);
}

void QueueWitness::SawStep(const std::string& who, const Model& model,
                           const std::set<std::string>& touched) {
  const auto term = terms_.find(who);
  if (term == terms_.end() || touched.empty()) return;
  bool any = false;
  for (const std::string& uid : touched) {
    any = Note(model, uid, &term->second) || any;
    const JobEntry* job = model.FindJob(uid);
    if (job != nullptr && job->gang.has_value()) JudgeEndForAnother(model, *job, &term->second);
  }
  if (any) JudgeLimits(term->second);
}

QueueWitness::Use QueueWitness::UseOf(const JobEntry& job) {
  Use use;
  use.queue = job.spec.spec().queue();
  if (!job.live()) return use;
  if (IsForAnother(job.gang->head)) return use;
  for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
    if (job.gang->ended(rank)) continue;
    const int group = scheduler::GroupOf(job, rank).first;
    use.cpu_millis += job.spec.spec().task_groups(group).resources().cpu_millis();
  }
  return use;
}

bool QueueWitness::Note(const Model& model, const std::string& uid, Term* term) {
  const JobEntry* job = model.FindJob(uid);
  if (job == nullptr) return term->uses.erase(uid) > 0;
  const auto [use, is_new] = term->uses.try_emplace(uid);
  const int64_t before = use->second.cpu_millis;
  use->second = UseOf(*job);
  if (is_new) JudgeRequest(*job, term);
  return use->second.cpu_millis != before;
}

void QueueWitness::JudgeRequest(const JobEntry& job, Term* term) {
  const auto& labels = job.spec.spec().labels();
  const auto request = labels.find(kRequestLabel);
  // The elements of an array are of its request.
  if (request == labels.end() || job.spec.has_element()) return;
  const std::string& first = term->by_request.try_emplace(request->second, job.uid()).first->second;
  if (first == job.uid()) return;
  world_->Violate(
      absl::StrCat("request ", request->second, " makes two Jobs, ", first, " and ", job.uid()));
}

void QueueWitness::JudgeLimits(const Term& term) {
  if (limits_.empty()) return;
  std::map<std::string, int64_t> used;
  for (const auto& [uid, use] : term.uses) {
    if (use.cpu_millis == 0) continue;
    std::string queue = use.queue;
    for (auto at = limits_.find(queue); at != limits_.end(); at = limits_.find(queue)) {
      used[queue] += use.cpu_millis;
      queue = at->second.parent;
    }
  }
  for (const auto& [queue, cpu_millis] : used) {
    const absl::optional<int64_t>& most = limits_.at(queue).cpu_millis;
    if (most.has_value() && cpu_millis > *most) {
      world_->Violate(absl::StrCat(queue, " has ", cpu_millis, " mCPU, and may have ", *most));
    }
  }
}

void QueueWitness::JudgeEndForAnother(const Model& model, const JobEntry& job, Term* term) {
  const GangHeadRecord& head = job.gang->head;
  const Life life = {job.uid(), head.generation()};
  if (head.phase() == GangHeadRecord::PHASE_STARTED && !term->found.contains(life)) {
    term->started.try_emplace(life, world_->now());
  }
  // Who is moved goes on elsewhere.
  if (!IsForAnother(head) || head.has_move() || !ended_.insert(life).second) return;
  if (job.spec.spec().preemption() == JobSpec::PREEMPTION_NEVER) {
    world_->Violate(absl::StrCat("job ", job.uid(), " may not be ended for another, and is"));
  }
  const auto started = term->started.find(life);
  if (started == term->started.end()) return;
  ++ended_for_others_;
  const absl::Duration ran = world_->now() - started->second;
  const absl::Duration least = scheduler::MinRuntimeOf(model, job, min_runtime_);
  if (ran < least * kSlowestClock) {
    world_->Violate(absl::StrCat("job ", job.uid(), " is ended for another after ",
                                 absl::FormatDuration(ran), ", and may run for ",
                                 absl::FormatDuration(least)));
  }
}

bool QueueWitness::IsOf(const std::string& queue, std::string job_queue) const {
  while (job_queue != queue) {
    const auto at = limits_.find(job_queue);
    if (at == limits_.end()) return false;
    job_queue = at->second.parent;
  }
  return true;
}

void QueueWitness::JudgeLending(const Model& model, const JobEntry& job, const Term& term) {
  for (const auto& [name, limits] : limits_) {
    if (limits.kept_cpu == 0 || IsOf(name, job.spec.spec().queue())) continue;
    // What it keeps is not kept while it is drained.
    bool is_drained = false;
    const Queue* queue = FindQueue(model, name);
    for (; queue != nullptr; queue = FindQueue(model, queue->parent())) {
      is_drained = is_drained || queue->drain();
    }
    if (is_drained) continue;
    ++placed_beside_lenders_;
    int64_t outside = 0;
    for (const auto& [uid, use] : term.uses) {
      if (!IsOf(name, use.queue)) outside += use.cpu_millis;
    }
    int64_t all = 0;
    for (const auto& [id, node] : model.nodes) {
      all += node.observation().allocatable().cpu_millis();
    }
    if (outside + limits.kept_cpu > all) {
      world_->Violate(absl::StrCat("job ", job.uid(), " is placed, and the Queues beside ", name,
                                   " have ", outside, " mCPU of ", all, ", of which it keeps ",
                                   limits.kept_cpu));
    }
  }
}

void QueueWitness::Placed(const std::string& who, const Model& model, const JobEntry& job) {
  placed_for_good_ += job.spec.spec().preemption() == JobSpec::PREEMPTION_NEVER ? 1 : 0;
  // What comes back may have more than it could begin with.
  if (job.gang->head.generation() == 1) JudgeLending(model, job, terms_[who]);
  bool has_limit = false;
  for (std::string name = job.spec.spec().queue(); !name.empty();) {
    const auto limit = limits_.find(name);
    has_limit = has_limit || (limit != limits_.end() && limit->second.cpu_millis.has_value());
    const Queue* queue = FindQueue(model, name);
    if (queue == nullptr) break;
    if (queue->hold() || queue->drain()) {
      world_->Violate(
          absl::StrCat("job ", job.uid(), " is placed, and ", name, " is held or drained"));
    }
    name = queue->parent();
  }
  if (job.state.hold()) {
    world_->Violate(absl::StrCat("job ", job.uid(), " is placed, and is held"));
  }
  placed_below_limits_ += has_limit ? 1 : 0;
  for (const JobDependency& after : job.spec.spec().after()) {
    const JobEntry* before = model.FindJobByName(after.job());
    if (before == nullptr || !EndedAsAsked(after.condition(), before->state.state())) {
      world_->Violate(absl::StrCat("job ", job.uid(), " is placed before ", after.job(),
                                   " has ended as asked"));
    }
  }
  placed_after_others_ += job.spec.spec().after_size() > 0 ? 1 : 0;
}

void QueueWitness::QueueAcknowledged(const Queue& queue) {
  Limits& limits = limits_[queue.name()];
  limits.parent = queue.parent();
  for (const auto& quota : queue.quotas()) {
    if (quota.resource() != "cpu") continue;
    if (quota.borrowing_limit().has_amount()) {
      limits.cpu_millis = quota.guarantee() + quota.borrowing_limit().amount();
    }
    if (quota.lending_limit().has_amount()) {
      limits.kept_cpu = std::max<int64_t>(quota.guarantee() - quota.lending_limit().amount(), 0);
    }
  }
}

}  // namespace capstan::simulation
