#include "services/scheduler/core/demand.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/demand_class.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::DemandClass;
using capstan::scheduler::v1::DemandTotal;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::TaskGroup;
using capstan::scheduler::v1::UnmetDemand;

namespace {

// `sum` and `each` so many times more, or the largest number where it would be more.
void AddTimes(int64_t each, int64_t times, int64_t* sum) {
  int64_t product = 0;
  if (__builtin_mul_overflow(each, times, &product) || __builtin_add_overflow(*sum, product, sum)) {
    *sum = std::numeric_limits<int64_t>::max();
  }
}

void AddTimes(const Amounts& each, int64_t times, Amounts* sum) {
  AddTimes(each.cpu_millis, times, &sum->cpu_millis);
  AddTimes(each.memory_bytes, times, &sum->memory_bytes);
  for (const auto& [name, count] : each.accelerators) {
    AddTimes(count, times, &sum->accelerators[name]);
  }
}

}  // namespace

const std::array<const char*, DemandBook::kWhyCount>& DemandBook::Names() {
  static constexpr std::array<const char*, kWhyCount> kNames = {"INSUFFICIENT_RESOURCES",
                                                                "RESERVED",
                                                                "PREEMPTED",
                                                                "STARTS_SOON",
                                                                "WAITING",
                                                                "MAKING_ROOM",
                                                                "QUEUE_RATE",
                                                                "QUEUE_LIMIT",
                                                                "QUEUE_HELD",
                                                                "HELD",
                                                                "ORDERED",
                                                                "BACK_OFF",
                                                                "DEPENDENCY",
                                                                "ARRAY_LIMIT",
                                                                "AWAITING_DATA",
                                                                "OTHER",
                                                                "TOO_NEW"};
  return kNames;
}

std::vector<absl::string_view> DemandBook::Reasons() {
  return {Names().begin(), Names().begin() + kReasonCount};
}

std::vector<absl::string_view> DemandBook::Causes() {
  return {Names().begin() + kReasonCount, Names().end()};
}

absl::optional<DemandBook::Why> DemandBook::WhyOf(const JobEntry& job, absl::Time wall,
                                                  absl::Time* soon_at) const {
  *soon_at = absl::InfiniteFuture();
  if (job.state.state() != Job::STATE_QUEUED) return absl::nullopt;
  int why = 0;
  while (why < kOther && job.state.reason() != Names()[why]) ++why;
  // It says so for as long as it finds no room elsewhere.
  if (job.state.reason() == "MAINTENANCE") why = kInsufficient;
  if (!IsDemand(static_cast<Why>(why))) return static_cast<Why>(why);
  if (job.state.has_estimated_start_time() && !job.state.estimate_assumed()) {
    *soon_at = ToTime(job.state.estimated_start_time()) - config_.starts_within;
  }
  return *soon_at <= wall ? kStartsSoon : static_cast<Why>(why);
}

DemandBook::Classes::iterator DemandBook::ClassOf(const JobEntry& job, TaskCounts* tasks) {
  DemandNeed need = DemandNeed::Of(job);
  *tasks = std::move(need.tasks);
  const auto known = classes_.find(need.key);
  if (known != classes_.end()) return known;
  Class made;
  for (const TaskGroup* group : need.shapes) {
    made.shapes.push_back({Amounts::From(group->resources()),
                           RequiredOf(job.spec.spec(), *group),
                           {group->slices().begin(), group->slices().end()},
                           InOrder(group->node_requirements())});
  }
  made.required = job.spec.spec().topology().required();
  made.clusters = std::move(need.clusters);
  made.queue = job.spec.spec().queue();
  made.min_priority = need.min_priority;
  made.node_requirements = InOrder(job.spec.spec().node_requirements());
  made.tolerations = InOrder(job.spec.spec().tolerations());
  made.current.tasks.resize(need.shapes.size());
  made.told.tasks.resize(need.shapes.size());
  made.wanted.resize(need.shapes.size());
  return classes_.emplace(std::move(need.key), std::move(made)).first;
}

void DemandBook::Update(const std::string& uid, const JobEntry* job, Now now) {
  Put(uid, job, now, now.boot);
}

void DemandBook::Reset(const JobTable& jobs, Now now) {
  std::vector<std::string> gone;
  for (const auto& [uid, entry] : entries_) {
    if (jobs.count(uid) == 0) gone.push_back(uid);
  }
  for (const std::string& uid : gone) Update(uid, nullptr, now);
  for (const auto& [uid, job] : jobs) {
    // What it waits for has not changed since its record was written.
    const absl::Duration age = now.wall - ToTime(job.state.update_time());
    Put(uid, &job, now, now.boot - std::max(age, absl::ZeroDuration()));
  }
}

void DemandBook::SetQueues(const std::map<std::string, rec::QueueRecord>& queues, Now now) {
  constexpr absl::string_view kPrefix = "queues/";
  std::set<std::string> stopped;
  for (const auto& [id, record] : queues) {
    for (auto above = queues.find(id); above != queues.end();) {
      const auto& queue = above->second.queue();
      if (queue.hold() || queue.drain()) {
        stopped.insert(absl::StrCat(kPrefix, id));
        break;
      }
      above = queues.find(std::string(absl::StripPrefix(queue.parent(), kPrefix)));
    }
  }
  if (stopped == stopped_) return;
  stopped_ = std::move(stopped);
  for (auto& [uid, entry] : entries_) {
    const Why why = WithQueue(entry);
    if (why == entry.why) continue;
    Add(uid, entry, -1);
    SetWhy(&entry, why, now);
    Settle(uid, &entry, now);
    Add(uid, entry, 1);
  }
}

DemandBook::Why DemandBook::WithQueue(const Entry& entry) const {
  const bool waits_in_queue =
      IsDemand(entry.own) || IsUnsettled(entry.own) || entry.own == kOrdered;
  return waits_in_queue && stopped_.count(entry.at->second.queue) > 0 ? kQueueHeld : entry.own;
}

void DemandBook::Put(const std::string& uid, const JobEntry* job, Now now, BootTime since) {
  auto at = entries_.find(uid);
  absl::Time soon_at;
  const absl::optional<Why> why = job == nullptr ? absl::nullopt : WhyOf(*job, now.wall, &soon_at);
  if (!why.has_value()) {
    if (at != entries_.end()) Remove(at);
    return;
  }
  TaskCounts tasks;
  const auto of = ClassOf(*job, &tasks);
  if (at != entries_.end() && at->second.at != of) {
    // Its data is in a Cluster by now, say.
    Remove(at);
    at = entries_.end();
  }
  if (at == entries_.end()) {
    Entry made;
    made.at = of;
    made.name = job->spec.name();
    made.tasks = std::move(tasks);
    for (const int64_t count : made.tasks) made.total += count;
    made.sequence = job->spec.submit_sequence();
    made.own = *why;
    made.why = WithQueue(made);
    made.why_since = since;
    made.since = since;
    ++of->second.members;
    at = entries_.emplace(uid, std::move(made)).first;
  } else {
    Add(at->first, at->second, -1);
  }
  Entry& entry = at->second;
  entry.soon_at = soon_at;
  entry.waits_since = ToTime(job->state.phase_time());
  entry.own = *why;
  SetWhy(&entry, WithQueue(entry), now);
  Settle(at->first, &entry, now);
  Add(at->first, entry, 1);
}

void DemandBook::Remove(std::map<std::string, Entry>::iterator at) {
  Add(at->first, at->second, -1);
  due_.erase({at->second.due, Uid{&at->first}});
  --at->second.at->second.members;
  // Perhaps the last.
  changed_.insert(at->second.at->first);
  entries_.erase(at);
}

void DemandBook::SetWhy(Entry* entry, Why why, Now now) {
  if (why == entry->why) return;
  if (IsDemand(why) != IsDemand(entry->why)) entry->since = now.boot;
  entry->why = why;
  entry->why_since = now.boot;
}

void DemandBook::Settle(const std::string& uid, Entry* entry, Now now) {
  due_.erase({entry->due, Uid{&uid}});
  entry->due = BootTime::InfiniteFuture();
  const auto due_at = [entry](BootTime when) { entry->due = std::min(entry->due, when); };
  const absl::Duration holds = now.boot - entry->since;
  if (IsDemand(entry->why)) {
    if (!entry->told && holds >= config_.hold_for) {
      entry->told = true;
      entry->told_why = entry->why;
    } else if (!entry->told) {
      due_at(entry->since + config_.hold_for);
    } else if (entry->told_why != entry->why) {
      // Which of the reasons it is may change with each round.
      if (now.boot - entry->why_since >= config_.hold_for) {
        entry->told_why = entry->why;
      } else {
        due_at(entry->why_since + config_.hold_for);
      }
    }
    if (entry->soon_at != absl::InfiniteFuture()) {
      due_at(now.boot + (entry->soon_at - now.wall));
    }
  } else if (entry->told) {
    if (IsUnsettled(entry->why) && holds < config_.release_after) {
      due_at(entry->since + config_.release_after);
    } else {
      entry->told = false;
    }
  }
  if (entry->due != BootTime::InfiniteFuture()) due_.insert({entry->due, Uid{&uid}});
}

void DemandBook::Add(const std::string& uid, const Entry& entry, int64_t sign) {
  if (WantsRoom(entry.why)) {
    std::vector<int64_t>& wanted = entry.at->second.wanted;
    for (size_t i = 0; i < entry.tasks.size(); ++i) wanted[i] += sign * entry.tasks[i];
  }
  if (!entry.told) {
    Count& count = held_back_[IsDemand(entry.why) ? kTooNew : entry.why];
    count.jobs += sign;
    count.tasks += sign * entry.total;
    return;
  }
  Class& of = entry.at->second;
  changed_.insert(entry.at->first);
  for (Count* count : {&of.current.all, &of.current.by_reason[entry.told_why]}) {
    count->jobs += sign;
    count->tasks += sign * entry.total;
  }
  for (size_t i = 0; i < entry.tasks.size(); ++i) of.current.tasks[i] += sign * entry.tasks[i];
  const std::tuple<int64_t, int64_t, Uid> size(-entry.total, entry.sequence, Uid{&uid});
  const std::pair<absl::Time, Uid> age(entry.waits_since, Uid{&uid});
  if (sign > 0) {
    of.by_size.insert(size);
    of.by_age.insert(age);
  } else {
    of.by_size.erase(size);
    of.by_age.erase(age);
  }
}

bool DemandBook::Advance(Now now) {
  while (!due_.empty() && due_.begin()->first <= now.boot) {
    const std::string& uid = *due_.begin()->second.at;
    Entry& entry = entries_.at(uid);
    Add(uid, entry, -1);
    if (IsDemand(entry.why) && entry.soon_at <= now.wall) {
      entry.own = kStartsSoon;
      SetWhy(&entry, kStartsSoon, now);
    }
    Settle(uid, &entry, now);
    Add(uid, entry, 1);
  }
  bool any = false;
  for (const std::string& key : changed_) {
    const auto at = classes_.find(key);
    if (at == classes_.end()) continue;
    if (MustTell(at->second)) {
      Tell(&at->second);
      any = true;
    }
    if (at->second.members == 0) classes_.erase(at);
  }
  changed_.clear();
  return any;
}

BootTime DemandBook::NextDue() const {
  if (!changed_.empty()) return BootTime::InfinitePast();
  return due_.empty() ? BootTime::InfiniteFuture() : due_.begin()->first;
}

bool DemandBook::OutOfBand(int64_t now, int64_t told, int64_t base) const {
  return std::max(now - told, told - now) * 100 > base * config_.band_percent;
}

bool DemandBook::MustTell(const Class& of) const {
  const Figures& told = of.told;
  const Figures& now = of.current;
  if ((now.all.jobs == 0) != (told.all.jobs == 0)) return true;
  if (now.all.jobs == 0) return false;
  if (OutOfBand(now.all.jobs, told.all.jobs, told.all.jobs)) return true;
  for (size_t i = 0; i < now.tasks.size(); ++i) {
    if (OutOfBand(now.tasks[i], told.tasks[i], told.tasks[i])) return true;
  }
  for (size_t i = 0; i < now.by_reason.size(); ++i) {
    if (OutOfBand(now.by_reason[i].jobs, told.by_reason[i].jobs, told.all.jobs) ||
        OutOfBand(now.by_reason[i].tasks, told.by_reason[i].tasks, told.all.tasks)) {
      return true;
    }
  }
  // Room must be for the largest whole, so no band is left there; and one that is named waits.
  const auto largest = entries_.find(of.told_largest);
  return largest == entries_.end() || !largest->second.told || &largest->second.at->second != &of ||
         largest->second.total != -std::get<0>(*of.by_size.begin());
}

void DemandBook::Tell(Class* of) {
  of->told = of->current;
  if (of->by_size.empty()) return;
  of->told_largest = *std::get<2>(*of->by_size.begin()).at;
  const Entry& largest = entries_.at(of->told_largest);
  of->told_largest_name = largest.name;
  of->told_largest_tasks = largest.tasks;
  of->told_since = of->by_age.begin()->first;
}

UnmetDemand DemandBook::Told(absl::string_view cluster) const {
  std::vector<const Classes::value_type*> told;
  for (const Classes::value_type& entry : classes_) {
    const Class& of = entry.second;
    if (of.told.all.jobs == 0) continue;
    if (!cluster.empty() && !of.clusters.empty() &&
        std::find(of.clusters.begin(), of.clusters.end(), cluster) == of.clusters.end()) {
      continue;
    }
    told.push_back(&entry);
  }
  // Among equals the order of the keys stays.
  std::stable_sort(told.begin(), told.end(), [](const auto* a, const auto* b) {
    return a->second.told.all.tasks > b->second.told.all.tasks;
  });
  UnmetDemand demand;
  Amounts rest;
  for (const auto* entry : told) {
    const Class* const of = &entry->second;
    Amounts needs;
    for (size_t i = 0; i < of->shapes.size(); ++i) {
      AddTimes(of->shapes[i].each, of->told.tasks[i], &needs);
    }
    if (demand.classes_size() == kMaxDemandClasses) {
      DemandTotal& total = *demand.mutable_rest();
      total.set_classes(total.classes() + 1);
      total.set_gangs(total.gangs() + of->told.all.jobs);
      total.set_tasks(total.tasks() + of->told.all.tasks);
      AddTimes(needs, 1, &rest);
      continue;
    }
    DemandClass& shown = *demand.add_classes();
    for (size_t i = 0; i < of->shapes.size(); ++i) {
      DemandClass::TaskShape& shape = *shown.add_shapes();
      *shape.mutable_resources() = of->shapes[i].each.ToResources();
      shape.set_required(of->shapes[i].required);
      *shape.mutable_slices() = {of->shapes[i].slices.begin(), of->shapes[i].slices.end()};
      *shape.mutable_node_requirements() = of->shapes[i].node_requirements;
      shape.set_tasks(of->told.tasks[i]);
      shape.set_tasks_of_largest(of->told_largest_tasks[i]);
      shown.set_largest_tasks(shown.largest_tasks() + of->told_largest_tasks[i]);
    }
    shown.set_required(of->required);
    *shown.mutable_clusters() = {of->clusters.begin(), of->clusters.end()};
    shown.set_queue(of->queue);
    shown.set_min_priority(of->min_priority);
    shown.set_max_priority(of->min_priority + kPriorityBand - 1);
    shown.set_gangs(of->told.all.jobs);
    shown.set_tasks(of->told.all.tasks);
    *shown.mutable_resources() = needs.ToResources();
    for (int why = 0; why < kReasonCount; ++why) {
      const Count& count = of->told.by_reason[why];
      if (count.jobs == 0) continue;
      DemandClass::ReasonCount& reason = *shown.add_reasons();
      reason.set_reason(Names()[why]);
      reason.set_gangs(count.jobs);
      reason.set_tasks(count.tasks);
    }
    *shown.mutable_waiting_since() = ToProto(of->told_since);
    shown.set_largest_job(of->told_largest_name);
    shown.set_id(DemandClassId(entry->first));
    *shown.mutable_node_requirements() = of->node_requirements;
    *shown.mutable_tolerations() = of->tolerations;
  }
  if (demand.has_rest()) *demand.mutable_rest()->mutable_resources() = rest.ToResources();
  for (const auto& [cause, count] : HeldBack()) {
    if (count.jobs == 0) continue;
    auto& held_back = *demand.add_held_back();
    held_back.set_cause(std::string(cause));
    held_back.set_jobs(count.jobs);
    held_back.set_tasks(count.tasks);
  }
  return demand;
}

std::map<absl::string_view, DemandBook::Count> DemandBook::ToldByReason() const {
  std::array<Count, kReasonCount> sums = {};
  for (const auto& [key, of] : classes_) {
    for (int why = 0; why < kReasonCount; ++why) {
      sums[why].jobs += of.told.by_reason[why].jobs;
      sums[why].tasks += of.told.by_reason[why].tasks;
    }
  }
  std::map<absl::string_view, Count> all;
  for (int why = 0; why < kReasonCount; ++why) all[Names()[why]] = sums[why];
  return all;
}

std::map<absl::string_view, DemandBook::Count> DemandBook::HeldBack() const {
  std::map<absl::string_view, Count> all;
  for (int why = kReasonCount; why < kWhyCount; ++why) all[Names()[why]] = held_back_[why];
  return all;
}

std::vector<DemandBook::Wanted> DemandBook::WantedNow() const {
  std::vector<Wanted> all;
  for (const auto& [key, of] : classes_) {
    for (size_t i = 0; i < of.shapes.size(); ++i) {
      if (of.wanted[i] == 0) continue;
      all.push_back({of.queue, of.clusters, of.shapes[i].each, of.wanted[i]});
    }
  }
  return all;
}

}  // namespace capstan::scheduler
