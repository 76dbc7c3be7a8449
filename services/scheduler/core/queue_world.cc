#include "services/scheduler/core/queue_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/limit.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::QuotaLimit;
using capstan::scheduler::v1::ResourceQuota;
using capstan::type::v1::TaskEnd;

void SetLimit(const Limit& limit, int64_t unit, QuotaLimit* to) {
  if (limit.unlimited()) {
    to->set_unlimited(true);
  } else {
    to->set_amount(limit.amount() * unit);
  }
}

// What its gang holds, or would at least.
int64_t MillisOf(const JobEntry& job) {
  int64_t sum = 0;
  for (const auto& group : job.spec.spec().task_groups()) {
    sum += group.resources().cpu_millis() * group.replicas();
  }
  return sum;
}

}  // namespace

std::vector<CreateQueue> CreatesOf(const std::vector<QueueSpec>& specs, int64_t millis_of_unit) {
  std::vector<CreateQueue> creates;
  for (const QueueSpec& spec : specs) {
    CreateQueue& create = creates.emplace_back();
    create.queue_id = create.uid = spec.id;
    create.queue.set_weight(spec.weight);
    if (!spec.parent.empty()) create.queue.set_parent(absl::StrCat("queues/", spec.parent));
    const auto quota = spec.quotas.find("r0");
    if (quota == spec.quotas.end() || quota->second == Quota()) continue;
    ResourceQuota& of = *create.queue.add_quotas();
    of.set_resource("cpu");
    if (quota->second.guarantee.set()) {
      of.set_guarantee(quota->second.guarantee.amount() * millis_of_unit);
    }
    if (quota->second.borrowing.set()) {
      SetLimit(quota->second.borrowing, millis_of_unit, of.mutable_borrowing_limit());
    }
    if (quota->second.lending.set()) {
      SetLimit(quota->second.lending, millis_of_unit, of.mutable_lending_limit());
    }
  }
  return creates;
}

CoreConfig QueueWorld::Config(const Options& options) {
  CoreConfig config;
  config.min_runtime = options.min_runtime;
  config.keep_finished_for = absl::ZeroDuration();
  return config;
}

QueueWorld::QueueWorld(const Options& options)
    : options_(options),
      random_(options.seed),
      harness_(Config(options),
               [this](const SchedulerCore&, const Event&, Now, const Step* step,
                      const std::map<std::string, std::string>&) { SawStep(step); }),
      executor_("local", options.nodes, options.millis_of_node, &harness_) {
  harness_.set_compare_every(64);
  executor_.Connect();
  for (CreateQueue& create : CreatesOf(options.queues, /*millis_of_unit=*/500)) {
    create.call = harness_.next_call();
    const auto replies = Of<ReplyQueue>(harness_.Apply(create));
    EXPECT_TRUE(replies.size() == 1 && replies[0].queue.ok()) << replies[0].queue.status();
  }
  tree_ = QueueTree(QueueSpecsOf(harness_.core().model().queues), {"cpu"});
}

void QueueWorld::SawStep(const Step* step) {
  if (step == nullptr) return;
  for (const ArchiveJobs& archive : Of<ArchiveJobs>(step->after)) {
    for (const Job& job : archive.jobs) archive_.insert(job.uid());
  }
  for (const Write& write : step->persist) {
    for (const auto& event : write.events) {
      if (event.reason() != "PLACED" || event.has_task()) continue;
      const std::string& uid = event.job_uid();
      // Its Queue is the first part of its id.
      const absl::optional<int> leaf = tree_.Find(uid.substr(0, uid.find('-')));
      for (int i = leaf.value_or(-1); i >= 0; i = tree_.node(i).parent) ++starts_[i];
    }
  }
}

void QueueWorld::Load(int leaf) {
  const std::string queue = absl::StrCat("queues/", tree_.node(leaf).id);
  int waiting = 0;
  harness_.jobs().ForEachGlance([&](const JobGlance& job) {
    waiting += job.queue == queue && job.state == Job::STATE_QUEUED ? 1 : 0;
  });
  for (; waiting < options_.backlog; ++waiting) {
    JobSpec spec = CoreHarness::Spec(1, options_.sizes[random_.Below(options_.sizes.size())]);
    spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
    spec.set_queue(queue);
    harness_.Deliver(harness_.Submit(absl::StrCat(tree_.node(leaf).id, "-", jobs_++), spec));
  }
}

void QueueWorld::EndDue(const std::set<int>& loaded) {
  for (const std::string& key : executor_.Keys()) {
    const auto task = executor_.tasks().find(key);
    if (task == executor_.tasks().end() || !task->second.running()) continue;
    const auto [end, is_new] = ends_at_.emplace(key, 0);
    if (is_new) {
      end->second =
          tick_ + static_cast<int>(random_.Between(options_.least_ticks, options_.most_ticks));
    }
    if (end->second > tick_) continue;
    executor_.End(key, TaskEnd::CAUSE_EXITED);
    ends_at_.erase(key);
    // Nobody is without Jobs that wait when the next one ends.
    for (int leaf : loaded) Load(leaf);
  }
}

void QueueWorld::Tick(const std::set<int>& loaded) {
  ++tick_;
  executor_.Renew();
  harness_.Deliver(harness_.Advance(kTick));
  for (int leaf : loaded) Load(leaf);
  EndDue(loaded);
  executor_.PrepareAll();
  executor_.RunAll();
  if (archive_.empty()) return;
  JobsArchived archived;
  archived.uids.assign(archive_.begin(), archive_.end());
  archive_.clear();
  harness_.Deliver(harness_.Apply(archived));
}

int64_t QueueWorld::capacity() const { return options_.nodes * options_.millis_of_node; }

int64_t QueueWorld::largest() const {
  return *std::max_element(options_.sizes.begin(), options_.sizes.end());
}

int64_t QueueWorld::smallest() const {
  return *std::min_element(options_.sizes.begin(), options_.sizes.end());
}

int64_t QueueWorld::GuaranteeOf(int node) const {
  return tree_.node(node).guarantee[tree_.resources().Find("cpu")];
}

std::vector<int64_t> QueueWorld::Used() const {
  std::vector<int64_t> used(tree_.size());
  harness_.jobs().ForEachLive([&](absl::string_view, const JobEntry& job) {
    const std::string queue(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
    for (int i = *tree_.Find(queue); i >= 0; i = tree_.node(i).parent) used[i] += MillisOf(job);
  });
  return used;
}

std::vector<int64_t> QueueWorld::FairShares() const {
  const int cpu = tree_.resources().Find("cpu");
  std::vector<Resources> demand(tree_.size());
  for (const auto& [uid, job] : harness_.jobs()) {
    if (job.final()) continue;
    const std::string queue(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
    demand[*tree_.Find(queue)][cpu] += MillisOf(job);
  }
  Resources capacity;
  capacity[cpu] = this->capacity();
  std::vector<int64_t> shares;
  for (const Resources& amounts : ComputeFairShares(tree_, capacity, demand).amounts) {
    shares.push_back(amounts[cpu]);
  }
  return shares;
}

int QueueWorld::preemptions() const {
  const auto& events = harness_.events();
  return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
    return event.reason() == "PREEMPTED" && event.state() == "STOPPING" && !event.has_task();
  }));
}

}  // namespace capstan::scheduler
