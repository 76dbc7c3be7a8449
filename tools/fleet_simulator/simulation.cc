#include "tools/fleet_simulator/simulation.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/gang_queues.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/request_classes.h"
#include "services/scheduler/core/quota/tree_usage.h"
#include "services/scheduler/core/quota/usage_history.h"
#include "services/scheduler/core/round/accept.h"
#include "services/scheduler/core/round/budgets.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/round.h"
#include "services/scheduler/core/round/round_oracle.h"

namespace capstan::fleet_simulator {
namespace {

namespace round = scheduler::round;
using scheduler::QueueTree;

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr absl::Duration kSamplePeriod = absl::Hours(1);

enum class Event { kSubmit, kEnd, kDeparture, kRound, kSample };

// In the order in which they happen; at one time, in that of the enum, then of `job`.
struct Occurrence {
  absl::Duration at;
  Event event = Event::kSubmit;
  int job = 0;
  // Of the job, when it was foreseen: a job that was stopped since does not end.
  int start = 0;

  friend bool operator>(const Occurrence& a, const Occurrence& b) {
    return std::tie(a.at, a.event, a.job, a.start) > std::tie(b.at, b.event, b.job, b.start);
  }
};

struct JobState {
  absl::optional<round::GangIndex> gang;
  // As it stands in its queue.
  scheduler::QueuedGang queued;
  absl::Duration first_start = absl::InfiniteDuration();
  absl::Duration started;
  // Work that a checkpoint has kept.
  absl::Duration done;
  int starts = 0;
  bool running = false;
  bool over = false;
};

class Simulation {
 public:
  Simulation(const Workload& workload, const SimulationOptions& options)
      : workload_(workload),
        options_(options),
        tree_(Specs(workload), {kGpu}),
        gpu_(tree_.resources().Find(kGpu)),
        usage_(tree_),
        queues_(tree_),
        round_(EngineOptions(options.policy)),
        jobs_(workload.jobs.size()) {
    capacity_[gpu_] = workload.fleet.gpus();
    fleet_gpu_ = fleet_.dimensions().Intern(kGpu).value();
    for (int n = 0; n < workload.fleet.nodes; ++n) AddNode(n);
    leaves_.reserve(workload.queues.size());
    for (const WorkloadQueue& queue : workload.queues) leaves_.push_back(*tree_.Find(queue.id));
  }

  absl::StatusOr<Outcome> Run() {
    for (size_t j = 0; j < workload_.jobs.size(); ++j) {
      Foresee(workload_.jobs[j].submitted, Event::kSubmit, static_cast<int>(j));
    }
    if (!workload_.jobs.empty()) Foresee(workload_.jobs.front().submitted, Event::kSample, 0);
    while (!occurrences_.empty()) {
      const Occurrence next = occurrences_.top();
      occurrences_.pop();
      now_ = next.at;
      CAPSTAN_RETURN_IF_ERROR(Happen(next));
    }
    return Finish();
  }

 private:
  static std::vector<scheduler::QueueSpec> Specs(const Workload& workload) {
    std::vector<scheduler::QueueSpec> specs;
    for (const WorkloadQueue& queue : workload.queues) {
      scheduler::QueueSpec spec;
      spec.id = queue.id;
      spec.weight = queue.weight;
      spec.quotas[kGpu].guarantee = scheduler::Limit::Of(queue.guaranteed_gpus);
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  static round::RoundOptions EngineOptions(const Policy& policy) {
    round::RoundOptions options;
    options.backfill = policy.backfill;
    options.preemption = policy.preemption;
    // Jobs of a workload are of one size.
    options.growth = false;
    options.preemption_limits.min_runtime = absl::Minutes(10);
    options.preemption_limits.weigh_lost_work = policy.preemption_cost;
    return options;
  }

  void AddNode(int number) {
    round::NodeTraits traits;
    traits.path[static_cast<int>(round::Level::kCluster)] = "fleet";
    traits.path[static_cast<int>(round::Level::kRack)] =
        absl::StrCat("rack-", number / workload_.fleet.nodes_per_rack);
    traits.path[static_cast<int>(round::Level::kHost)] = absl::StrCat("node-", number);
    traits.allocatable[fleet_gpu_] = workload_.fleet.gpus_per_node;
    fleet_.AddNode(std::move(traits));
  }

  absl::Time Now() const { return absl::UnixEpoch() + now_; }

  void Foresee(absl::Duration at, Event event, int job) {
    const int start = event == Event::kEnd ? jobs_[job].starts : 0;
    occurrences_.push({at, event, job, start});
  }

  // At the next multiple of the period, unless one comes before that.
  void ForeseeRound(absl::Duration period) {
    const absl::Duration at = period * (now_ / period + 1);
    if (at >= next_round_) return;
    next_round_ = at;
    Foresee(at, Event::kRound, 0);
  }

  absl::Status Happen(const Occurrence& next) {
    switch (next.event) {
      case Event::kSubmit:
        Submit(next.job);
        break;
      case Event::kEnd:
        if (jobs_[next.job].running && jobs_[next.job].starts == next.start) End(next.job);
        break;
      case Event::kDeparture:
        if (jobs_[next.job].running) Depart(next.job);
        break;
      case Event::kRound:
        if (next.at != next_round_) break;
        next_round_ = absl::InfiniteDuration();
        return HoldRound();
      case Event::kSample:
        TakeSample();
        break;
    }
    return absl::OkStatus();
  }

  scheduler::Resources Amounts(const WorkloadJob& job) const {
    scheduler::Resources amounts;
    amounts[gpu_] = job.gpus();
    return amounts;
  }

  void Submit(int number) {
    const WorkloadJob& job = workload_.jobs[number];
    const int64_t on_a_node = workload_.fleet.gpus_per_node / job.gpus_per_task;
    if (on_a_node * workload_.fleet.nodes < job.tasks) {
      jobs_[number].over = true;
      ++outcome_.impossible_jobs;
      return;
    }
    Enqueue(number);
  }

  void Enqueue(int number) {
    const WorkloadJob& job = workload_.jobs[number];
    const round::ClassId task_class =
        fleet_.InternClass({}, {{fleet_gpu_, int64_t{job.gpus_per_task}}});
    round::GangShape shape;
    shape.groups.emplace_back();
    shape.groups.front().task_class = task_class;
    shape.groups.front().min = job.tasks;
    shape.groups.front().max = job.tasks;
    shape.groups.front().preferred = round::Level::kRack;
    round::Gang gang;
    gang.key = static_cast<uint64_t>(number);
    gang.shape = fleet_.InternShape(std::move(shape)).value();
    gang.queue = static_cast<round::QueueId>(leaves_[job.queue]);
    gang.priority = job.priority;
    // What is declared is for the whole; what a checkpoint kept need not be run again.
    gang.declared = job.declared - jobs_[number].done;
    jobs_[number].gang = fleet_.AddGang(std::move(gang));
    scheduler::QueuedGang& queued = jobs_[number].queued;
    queued.kind.priority = job.priority;
    queued.kind.request = requests_.Acquire(Amounts(job));
    queued.submit_order = number;
    queues_.Insert(leaves_[job.queue], queued);
    demand_[leaves_[job.queue]] += job.gpus();
    ForeseeRound(options_.round_period);
  }

  void Dequeue(int number) {
    const WorkloadJob& job = workload_.jobs[number];
    const int leaf = leaves_[job.queue];
    requests_.Release(jobs_[number].queued.kind.request);
    queues_.Erase(leaf, jobs_[number].queued);
  }

  void Begin(int number) {
    JobState& state = jobs_[number];
    state.running = true;
    state.started = now_;
    state.first_start = std::min(state.first_start, now_);
    ++state.starts;
    Foresee(now_ + workload_.jobs[number].runtime - state.done, Event::kEnd, number);
  }

  // Its place is free again.
  void Leave(int number) {
    const WorkloadJob& job = workload_.jobs[number];
    JobState& state = jobs_[number];
    fleet_.RemoveGang(*state.gang);
    state.gang.reset();
    state.running = false;
    held_gpu_time_ += absl::ToDoubleSeconds(now_ - state.started) * static_cast<double>(job.gpus());
    usage_.Remove(leaves_[job.queue], Amounts(job));
    demand_[leaves_[job.queue]] -= job.gpus();
    for (auto nominated = nominated_.begin(); nominated != nominated_.end();) {
      const round::GangIndex gang = *jobs_[*nominated].gang;
      if (fleet_.StartNominated(gang, Now()).ok()) {
        Begin(*nominated);
        nominated = nominated_.erase(nominated);
      } else {
        ++nominated;
      }
    }
    ForeseeRound(options_.round_period);
  }

  void End(int number) {
    jobs_[number].over = true;
    makespan_ = now_;
    Leave(number);
  }

  // A victim has gone; it waits again, with what its last checkpoint kept.
  void Depart(int number) {
    const WorkloadJob& job = workload_.jobs[number];
    JobState& state = jobs_[number];
    const absl::Duration kept = Kept(number);
    const absl::Duration lost = now_ - state.started - kept;
    outcome_.lost_gpu_hours += absl::ToDoubleHours(lost) * static_cast<double>(job.gpus());
    ++outcome_.preemptions;
    Leave(number);
    state.done += kept;
    Enqueue(number);
  }

  // Of the present run, what checkpoints have kept.
  absl::Duration Kept(int number) const {
    const absl::Duration period = workload_.jobs[number].checkpoint_period;
    if (period == absl::InfiniteDuration()) return absl::ZeroDuration();
    return period * ((now_ - jobs_[number].started) / period);
  }

  round::Budgets MakeBudgets() const {
    round::Budgets budgets;
    for (int v = 0; v < tree_.size(); ++v) {
      const scheduler::QueueNode& node = tree_.node(v);
      const auto parent =
          v == QueueTree::kRoot
              ? absl::optional<round::QueueId>()
              : absl::optional<round::QueueId>(static_cast<round::QueueId>(node.parent));
      const round::QueueId queue = budgets.AddQueue(parent);
      const int64_t used = usage_.used(v)[gpu_];
      if (node.cap[gpu_] != scheduler::kNoBound) {
        budgets.SetLeft(queue, fleet_gpu_, node.cap[gpu_] - used);
      }
      if (!tree_.leaf(v) || !options_.policy.reclaim) continue;
      budgets.SetAboveGuarantee(queue, used > node.guarantee[gpu_]);
      const auto first = queues_.First(v);
      budgets.SetMayReclaim(
          queue, first.has_value() &&
                     used + requests_.Get(first->kind.request)[gpu_] <= node.guarantee[gpu_]);
    }
    return budgets;
  }

  std::vector<round::GangIndex> Order() const {
    scheduler::QueueOrder order({usage_, queues_, requests_, capacity_, no_history_, 0});
    std::vector<round::GangIndex> gangs;
    while (order.has_next() && gangs.size() < static_cast<size_t>(options_.round_length)) {
      gangs.push_back(*jobs_[order.next_gang().submit_order].gang);
      order.Start();
    }
    return gangs;
  }

  void TellCheckpoints() {
    const auto snapshot = fleet_.Freeze();
    for (size_t h = 0; h < snapshot->holders.size(); ++h) {
      const round::GangIndex gang = snapshot->holders[h];
      const auto job = static_cast<int>(snapshot->gangs[gang].key);
      if (!jobs_[job].running) continue;
      const absl::Time at = absl::UnixEpoch() + jobs_[job].started + Kept(job);
      if (snapshot->gangs[gang].checkpointed != at) fleet_.SetCheckpointed(gang, at);
    }
  }

  absl::Status HoldRound() {
    if (queues_.size() == 0) return absl::OkStatus();
    ++outcome_.rounds;
    TellCheckpoints();
    const std::vector<round::GangIndex> order = Order();
    round::RoundInput input;
    input.snapshot = fleet_.Freeze();
    input.order = order;
    input.budgets = MakeBudgets();
    input.now = Now();
    const auto snapshot = input.snapshot;
    const round::Proposal proposal = round_.Run(std::move(input));
    if (options_.check_rounds) {
      CAPSTAN_RETURN_IF_ERROR(
          round::CheckRound(*snapshot, order, proposal, round::RoundChecks{true, false}));
    }
    const round::Accepted accepted = round::Accept(fleet_, proposal, Now());
    for (round::GangIndex gang : accepted.started) {
      const auto job = static_cast<int>(fleet_.gang(gang).key);
      TakePlace(job);
      Begin(job);
    }
    for (size_t position : accepted.nominated) {
      const round::Preemption& preemption = proposal.preemptions[position];
      const auto job = static_cast<int>(fleet_.gang(preemption.preemptor).key);
      TakePlace(job);
      nominated_.push_back(job);
      for (round::GangIndex victim : preemption.victims) {
        Foresee(now_ + options_.grace, Event::kDeparture,
                static_cast<int>(fleet_.gang(victim).key));
      }
    }
    // Time alone may let somebody start: a reservation comes nearer, a victim's protection ends.
    if (queues_.size() > 0) ForeseeRound(10 * options_.round_period);
    return absl::OkStatus();
  }

  void TakePlace(int job) {
    Dequeue(job);
    usage_.Add(leaves_[workload_.jobs[job].queue], Amounts(workload_.jobs[job]));
  }

  void TakeSample() {
    const absl::Duration last = workload_.jobs.back().submitted;
    Sample sample;
    sample.at = now_;
    sample.waiting_jobs = static_cast<int64_t>(queues_.size());
    const auto gpus = static_cast<double>(workload_.fleet.gpus());
    int64_t free = 0;
    int64_t fragments = 0;
    for (int n = 0; n < workload_.fleet.nodes; ++n) {
      const int64_t left =
          std::max<int64_t>(fleet_.node(static_cast<round::NodeIndex>(n)).free[fleet_gpu_], 0);
      free += left;
      if (left < workload_.fleet.gpus_per_node) fragments += left;
    }
    sample.used = 1 - static_cast<double>(free) / gpus;
    sample.fragmented = free == 0 ? 0 : static_cast<double>(fragments) / static_cast<double>(free);
    std::vector<scheduler::Resources> demand(tree_.size());
    for (int leaf : leaves_) demand[leaf][gpu_] = std::min(demand_[leaf], scheduler::kMaxAmount);
    const scheduler::FairShares fair = ComputeFairShares(tree_, capacity_, demand);
    for (int leaf : leaves_) {
      const int64_t lacks = fair.amounts[leaf][gpu_] - usage_.used(leaf)[gpu_];
      sample.unfair += static_cast<double>(std::max<int64_t>(lacks, 0)) / gpus;
    }
    outcome_.samples.push_back(sample);
    if (options_.progress && last > absl::ZeroDuration()) {
      options_.progress(absl::FDivDuration(now_, last));
    }
    if (now_ + kSamplePeriod <= last) Foresee(now_ + kSamplePeriod, Event::kSample, 0);
  }

  absl::StatusOr<Outcome> Finish() {
    std::vector<absl::Duration> waits;
    absl::btree_map<std::string, std::vector<absl::Duration>> by_queue;
    absl::btree_map<std::string, std::vector<absl::Duration>> by_size;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const WorkloadJob& job = workload_.jobs[j];
      if (!jobs_[j].over) {
        return absl::InternalError(
            absl::StrCat("job ", j, " of ", job.gpus(), " GPUs never ended"));
      }
      if (jobs_[j].starts == 0) continue;
      const absl::Duration wait = jobs_[j].first_start - job.submitted;
      waits.push_back(wait);
      by_queue[workload_.queues[job.queue].id].push_back(wait);
      by_size[SizeClass(job.gpus())].push_back(wait);
    }
    outcome_.waits = Summarize(waits);
    outcome_.sorted_waits = std::move(waits);
    for (auto& [queue, of_queue] : by_queue) outcome_.by_queue[queue] = Summarize(of_queue);
    for (auto& [size, of_size] : by_size) outcome_.by_size[size] = Summarize(of_size);
    const auto samples = static_cast<double>(std::max<size_t>(outcome_.samples.size(), 1));
    for (const Sample& sample : outcome_.samples) {
      outcome_.utilisation += sample.used / samples;
      outcome_.fragmentation += sample.fragmented / samples;
      outcome_.unfairness += sample.unfair / samples;
    }
    const double lost = outcome_.lost_gpu_hours * 3600;
    outcome_.goodput = held_gpu_time_ > 0 ? outcome_.utilisation * (1 - lost / held_gpu_time_) : 0;
    outcome_.makespan = makespan_;
    return std::move(outcome_);
  }

  const Workload& workload_;
  const SimulationOptions& options_;
  const QueueTree tree_;
  const int gpu_;
  scheduler::Resources capacity_;
  scheduler::TreeUsage usage_;
  scheduler::GangQueues queues_;
  scheduler::RequestClasses requests_;
  const std::vector<scheduler::UsageHistory> no_history_;
  // By leaf: GPUs that run and wait.
  absl::flat_hash_map<int, int64_t> demand_;
  round::Fleet fleet_;
  round::Dimension fleet_gpu_ = 0;
  round::Round round_;
  std::vector<int> leaves_;  // by queue of the workload
  std::vector<JobState> jobs_;
  // Jobs whose victims have not gone yet.
  std::vector<int> nominated_;
  std::priority_queue<Occurrence, std::vector<Occurrence>, std::greater<>> occurrences_;
  absl::Duration next_round_ = absl::InfiniteDuration();
  absl::Duration now_;
  absl::Duration makespan_;
  double held_gpu_time_ = 0;
  Outcome outcome_;
};

}  // namespace

const std::vector<Policy>& Policies() {
  static const auto* const kPolicies = new std::vector<Policy>{
      {"all", true, true, true, true},
      {"no-backfill", false, true, true, true},
      {"no-reclaim", true, true, false, true},
      {"no-preemption", true, false, false, true},
      {"no-preemption-cost", true, true, true, false},
  };
  return *kPolicies;
}

absl::StatusOr<Outcome> Simulate(const Workload& workload, const SimulationOptions& options) {
  return Simulation(workload, options).Run();
}

}  // namespace capstan::fleet_simulator
