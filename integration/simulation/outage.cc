#include "integration/simulation/outage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "integration/simulation/confirmations.h"
#include "integration/simulation/fleet.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/core_config.h"

namespace capstan::simulation {
namespace {

using Of = OutageConfig::Of;
using capstan::scheduler::v1::Job;

constexpr int kClusters = 2;
constexpr int kNodesPerCluster = 2;
constexpr absl::Duration kStep = absl::Seconds(10);
// Fleet::Spec's stop_grace and the agents' margin for the kernel's work; what else may shorten a
// life: the way of a renewal, and the difference of two clocks while it is answered.
constexpr absl::Duration kGrace = absl::Seconds(5);
constexpr absl::Duration kKillMargin = absl::Seconds(1);
constexpr absl::Duration kOnTheWay = absl::Milliseconds(500);

std::string Text(absl::Duration d) {
  return absl::FormatDuration(absl::Trunc(d, absl::Milliseconds(1)));
}

class Outage {
 public:
  explicit Outage(const OutageConfig& config)
      : config_(config),
        fence_(config.fence_after > absl::ZeroDuration()
                   ? config.fence_after
                   : scheduler::CoreConfig().default_fence_after),
        replace_(scheduler::CoreConfig().ReplaceAfter(fence_)),
        fleet_(FleetOf(config, fence_)),
        world_(fleet_.world()),
        confirmations_(&world_) {
    fleet_.network().SetTap(&confirmations_);
  }
  ~Outage() { fleet_.network().SetTap(nullptr); }
  Outage(const Outage&) = delete;
  Outage& operator=(const Outage&) = delete;

  OutageReport Run();

 private:
  using Life = Witness::Life;
  // Job and generation.
  using GangId = std::pair<std::string, int64_t>;

  // True if the outage must be survived.
  static bool Short(const OutageConfig& config) { return config.length > absl::ZeroDuration(); }
  static FleetConfig FleetOf(const OutageConfig& config, absl::Duration fence);
  bool Short() const { return Short(config_); }

  void PlanJobs();
  void Submit(int32_t replicas, absl::Duration when);
  // False if it never comes true.
  bool RunUntil(absl::Duration limit, const std::function<bool()>& reached);
  void ChooseHosts();
  void Begin();
  void HurtHosts();
  void End();
  void Cut(const std::string& lower, const std::string& upper, bool cut);

  void JudgeShort();
  void JudgeLong();
  // One Task on a host that was cut off; false if it ended by itself or before.
  bool JudgeLife(const Life& life);
  void JudgeStart(const Life& start, const std::vector<const Life*>& before);
  void JudgeJobs(const std::map<std::string, std::set<int64_t>>& hit);
  absl::Duration ConfirmedAt(const Life& life);
  void Break(const std::string& what) { report_.broken.push_back(what); }

  const OutageConfig config_;
  const absl::Duration fence_;
  const absl::Duration replace_;
  Fleet fleet_;
  World& world_;
  Confirmations confirmations_;
  int submitted_ = 0;
  std::map<std::string, int32_t> jobs_;  // replicas by uid, once acknowledged
  std::set<size_t> hosts_;               // positions of the machines without confirmation
  std::set<std::string> host_names_;
  absl::Duration began_;
  absl::Duration ended_;
  OutageReport report_;
};

FleetConfig Outage::FleetOf(const OutageConfig& config, absl::Duration fence) {
  FleetConfig fleet;
  fleet.seed = config.seed;
  fleet.clusters = kClusters;
  fleet.nodes_per_cluster = kNodesPerCluster;
  fleet.print_log = config.print_log;
  fleet.mutants = config.mutants;
  fleet.program.step_time = kStep;
  fleet.program.steps_per_checkpoint = 6;
  fleet.program.failure_one_in = 0;
  fleet.program.port_taken_one_in = 0;
  // Those of a short outage end before, during and after it; those of a long one would outlive it.
  fleet.program.steps = Short(config) ? config.length / kStep + 6 : (fence * 3 / 2) / kStep + 18;
  return fleet;
}

void Outage::Submit(int32_t replicas, absl::Duration when) {
  const std::shared_ptr<SubmittedJob> job = fleet_.MakeJob(replicas, config_.fence_after);
  ++submitted_;
  world_.After(when, [this, job, replicas] {
    fleet_.Submit(job, [this, replicas](const Job& made) { jobs_[made.uid()] = replicas; });
  });
}

void Outage::PlanJobs() {
  Random& random = world_.random();
  const auto soon = [&random] { return random.Between(absl::Seconds(5), absl::Seconds(20)); };
  if (!Short()) {
    // Less than half of what there is, so that there is room elsewhere.
    for (const int32_t replicas : {3, 2, 2}) Submit(replicas, soon());
    return;
  }
  // More than fits: the last ones wait for room.
  for (int i = 0; i < 5; ++i) {
    const auto replicas = static_cast<int32_t>(random.Between(int64_t{1}, int64_t{5}));
    Submit(replicas, i < 2 ? soon() : random.Between(absl::Seconds(5), absl::Minutes(3)));
  }
}

bool Outage::RunUntil(absl::Duration limit, const std::function<bool()>& reached) {
  while (world_.violation().empty() && world_.now() < limit) {
    if (reached()) return true;
    if (!world_.Step()) return false;
  }
  return false;
}

// Those that hold the first Task to have started, so that some gang is hit.
void Outage::ChooseHosts() {
  for (size_t i = 0; i < fleet_.machines().size(); ++i) {
    if (config_.of == Of::kScheduler) hosts_.insert(i);
  }
  if (config_.of != Of::kScheduler) {
    const std::string& busy = fleet_.witness().lives().front().machine;
    for (size_t i = 0; i < fleet_.machines().size(); ++i) {
      if (fleet_.machines()[i]->name() != busy) continue;
      const size_t first = config_.of == Of::kNode ? i : i / kNodesPerCluster * kNodesPerCluster;
      const size_t count = config_.of == Of::kNode ? 1 : kNodesPerCluster;
      for (size_t host = first; host < first + count; ++host) hosts_.insert(host);
    }
  }
  for (const size_t host : hosts_) host_names_.insert(fleet_.machines()[host]->name());
}

// In the directions that the seed has.
void Outage::Cut(const std::string& lower, const std::string& upper, bool cut) {
  Network& network = fleet_.network();
  const bool up = config_.seed % 3 != 1;
  const bool down = config_.seed % 3 != 2;
  if (up) cut ? network.Cut(lower, upper) : network.Heal(lower, upper);
  if (down) cut ? network.Cut(upper, lower) : network.Heal(upper, lower);
}

void Outage::Begin() {
  world_.Log("world", "the outage begins");
  static constexpr const char* kWays[] = {"both ways", "down only", "up only"};
  if (config_.of == Of::kScheduler) {
    const bool crash = config_.seed % 4 != 3;
    report_.how = crash ? "schedulers and store down" : "store down";
    for (const auto& scheduler : fleet_.schedulers()) {
      fleet_.network().Cut(scheduler->name(), SharedStore::kName);
      fleet_.network().Cut(SharedStore::kName, scheduler->name());
      if (crash) scheduler->Crash();
    }
  } else if (config_.of == Of::kNode) {
    const size_t host = *hosts_.begin();
    report_.how = absl::StrCat(*host_names_.begin(), " cut off ", kWays[config_.seed % 3]);
    Cut(fleet_.agents()[host]->name(), fleet_.executor_of(host)->name(), true);
    Cut(fleet_.agents()[host]->name(), fleet_.processes().front()->name(), true);
  } else {
    const std::string& executor = fleet_.executor_of(*hosts_.begin())->name();
    report_.how = absl::StrCat(executor, " cut off ", kWays[config_.seed % 3]);
    for (const auto& scheduler : fleet_.schedulers()) Cut(executor, scheduler->name(), true);
  }
  if (config_.hurt_hosts) HurtHosts();
}

void Outage::HurtHosts() {
  for (const size_t host : hosts_) {
    const absl::Duration when = world_.random().Between(absl::Seconds(2), absl::Seconds(10));
    AgentActor* agent = fleet_.agents()[host].get();
    // Some come back only when their Nodes have been given up.
    const absl::Duration back =
        ended_ - world_.now() +
        (world_.random().OneIn(3)
             ? replace_ + absl::Minutes(1)
             : world_.random().Between(absl::ZeroDuration(), absl::Minutes(1)));
    switch (world_.random().Below(4)) {
      case 0:
        continue;
      case 1:
        absl::StrAppend(&report_.how, ", ", agent->name(), " killed");
        world_.After(when, [agent] { agent->Crash(); });
        world_.After(back, [agent] { agent->Start(); });
        continue;
      case 2:
        absl::StrAppend(&report_.how, ", ", agent->name(), " stopped");
        world_.After(when, [agent] { agent->Stop(); });
        world_.After(back, [agent] { agent->Continue(); });
        continue;
      default:
        absl::StrAppend(&report_.how, ", a shim on ", fleet_.machines()[host]->name(), " stopped");
        world_.After(when,
                     [machine = fleet_.machines()[host].get(), back] { machine->StopShim(back); });
    }
  }
}

void Outage::End() {
  world_.Log("world", "the outage ends");
  Random& random = world_.random();
  const auto soon = [&random] { return random.Between(absl::ZeroDuration(), absl::Seconds(3)); };
  if (config_.of == Of::kScheduler) {
    world_.After(soon(), [this] {
      for (const auto& scheduler : fleet_.schedulers()) {
        fleet_.network().Heal(scheduler->name(), SharedStore::kName);
        fleet_.network().Heal(SharedStore::kName, scheduler->name());
      }
    });
    for (const auto& scheduler : fleet_.schedulers()) {
      world_.After(soon(), [scheduler = scheduler.get()] { scheduler->Start(); });
    }
  } else if (config_.of == Of::kNode) {
    const size_t host = *hosts_.begin();
    Cut(fleet_.agents()[host]->name(), fleet_.executor_of(host)->name(), false);
    Cut(fleet_.agents()[host]->name(), fleet_.processes().front()->name(), false);
  } else {
    const std::string& executor = fleet_.executor_of(*hosts_.begin())->name();
    for (const auto& scheduler : fleet_.schedulers()) Cut(executor, scheduler->name(), false);
  }
}

absl::Duration Outage::ConfirmedAt(const Life& life) {
  return confirmations_.LatestBy("agent-" + life.machine, std::min(life.ended, ended_))
      .value_or(-absl::InfiniteDuration());
}

void Outage::JudgeShort() {
  for (const Life& life : fleet_.witness().lives()) {
    if (life.id.generation != 1) Break(absl::StrCat(life.id.Path(), " is a restart"));
    if (!life.finished) {
      Break(absl::StrCat(life.id.Path(), " was ended ", Text(life.ended - began_),
                         " after the outage began"));
    }
  }
}

bool Outage::JudgeLife(const Life& life) {
  if (host_names_.count(life.machine) == 0 || life.ended <= began_ || life.started >= ended_) {
    return false;
  }
  ++report_.tasks;
  const absl::Duration confirmed = ConfirmedAt(life);
  const MachineClock* clock = nullptr;
  for (const auto& machine : fleet_.machines()) {
    if (machine->name() == life.machine) clock = &machine->clock();
  }
  const absl::Duration lived = clock->At(life.ended).boot - clock->At(confirmed).boot;
  const auto what = [&](absl::string_view how) {
    return absl::StrCat(life.id.Path(), " on ", life.machine, how, Text(lived),
                        " after its last confirmation");
  };
  if (lived > fence_) Break(what(" lived until "));
  if (life.ended - confirmed >= replace_) Break(what(" lived past replace_after, until "));
  if (life.finished) {
    ++report_.finished_meanwhile;
    return false;
  }
  if (lived < fence_ - kGrace - kKillMargin - kOnTheWay) Break(what(" was ended early, "));
  report_.longest_life = std::max(report_.longest_life, lived);
  report_.shortest_life = std::min(report_.shortest_life, lived);
  return true;
}

void Outage::JudgeStart(const Life& start, const std::vector<const Life*>& before) {
  for (const Life* life : before) {
    const absl::Duration waited = start.started - ConfirmedAt(*life);
    // The scheduler waits on a clock of its own.
    if (waited < replace_ * 0.999) {
      Break(absl::StrCat(start.id.Path(), " started ", Text(waited),
                         " after the last confirmation of ", life->id.Path()));
    }
    if (start.started <= life->ended) {
      Break(absl::StrCat(start.id.Path(), " started before the end of ", life->id.Path()));
    }
    report_.earliest_replacement = std::min(report_.earliest_replacement, waited);
    report_.shortest_gap = std::min(report_.shortest_gap, start.started - life->ended);
  }
  if (start.started < ended_ && host_names_.count(start.machine) > 0) {
    Break(absl::StrCat(start.id.Path(), " started on ", start.machine, ", which was cut off"));
  }
}

void Outage::JudgeLong() {
  std::map<GangId, std::vector<const Life*>> fenced;
  std::map<std::string, std::set<int64_t>> hit;
  for (const Life& life : fleet_.witness().lives()) {
    if (!JudgeLife(life)) continue;
    fenced[{life.id.job_uid, life.id.generation}].push_back(&life);
    hit[life.id.job_uid].insert(life.id.generation);
  }
  if (fenced.empty()) Break("the outage hit no gang");
  report_.gangs_again = static_cast<int>(fenced.size());
  std::set<GangId> again;
  for (const Life& life : fleet_.witness().lives()) {
    const auto before = fenced.find({life.id.job_uid, life.id.generation - 1});
    if (before == fenced.end()) continue;
    JudgeStart(life, before->second);
    if (life.started < ended_) again.insert(before->first);
  }
  // There was room and time elsewhere.
  if (config_.of != Of::kScheduler && again.size() != fenced.size()) {
    Break(absl::StrCat(fenced.size() - again.size(), " gangs did not start elsewhere"));
  }
  JudgeJobs(hit);
}

// One restart for those that were hit, none for the others.
void Outage::JudgeJobs(const std::map<std::string, std::set<int64_t>>& hit) {
  std::map<std::string, int64_t> newest;
  for (const Life& life : fleet_.witness().lives()) {
    int64_t& generation = newest[life.id.job_uid];
    generation = std::max(generation, life.id.generation);
  }
  for (const auto& [uid, replicas] : jobs_) {
    const auto generations = hit.find(uid);
    const int64_t expected = generations == hit.end() ? 1 : *generations->second.rbegin() + 1;
    if (newest[uid] != expected || expected > 2) {
      Break(absl::StrCat(uid, " came to generation ", newest[uid], ", not ", expected));
    }
  }
}

OutageReport Outage::Run() {
  fleet_.Start();
  PlanJobs();
  if (Short()) {
    // Some gangs are then on their way to a start.
    const absl::Duration when = world_.random().Between(absl::Seconds(30), absl::Minutes(4));
    RunUntil(absl::Minutes(10), [this, when] { return world_.now() >= when; });
  } else {
    RunUntil(absl::Minutes(2), [this] { return fleet_.witness().live() == 7; });
    const absl::Duration when =
        world_.now() + world_.random().Between(absl::Seconds(1), absl::Seconds(20));
    RunUntil(absl::Minutes(3), [this, when] { return world_.now() >= when; });
  }
  began_ = world_.now();
  const absl::Duration noticed = absl::Seconds(config_.of == Of::kScheduler ? 1 : 75);
  ended_ =
      began_ + (Short() ? config_.length
                        : replace_ + world_.random().Between(noticed, noticed + absl::Minutes(1)));
  ChooseHosts();
  if (config_.of == Of::kScheduler) {
    Submit(2, world_.random().Between(absl::Seconds(1), ended_ - began_));
  }
  const size_t starts = fleet_.witness().starts();
  report_.tasks = Short() ? static_cast<int>(fleet_.witness().live()) : 0;
  Begin();
  RunUntil(ended_, [this] { return world_.now() >= ended_; });
  if (Short()) {
    for (const Life& life : fleet_.witness().lives()) {
      report_.finished_meanwhile += life.finished && life.ended > began_ ? 1 : 0;
    }
  } else if (config_.of == Of::kScheduler && fleet_.witness().starts() != starts) {
    Break("a Task started without a scheduler");
  }
  End();
  std::string why = "nothing was looked at";
  absl::Duration next_look = world_.now();
  const bool settled = RunUntil(ended_ + absl::Minutes(60), [&] {
    if (world_.now() < next_look) return false;
    next_look = world_.now() + absl::Seconds(20);
    return fleet_.Settled(submitted_, &why);
  });
  if (!world_.violation().empty()) {
    Break(world_.violation());
  } else if (!settled) {
    Break(absl::StrCat("not settled: ", why));
  } else {
    Short() ? JudgeShort() : JudgeLong();
    for (const auto& [uid, replicas] : jobs_) {
      int finished = 0;
      for (const Life& life : fleet_.witness().lives()) {
        finished += life.id.job_uid == uid && life.finished ? 1 : 0;
      }
      if (finished < replicas) Break(absl::StrCat(uid, " did not do its work"));
    }
  }
  return std::move(report_);
}

}  // namespace

OutageReport RunOutage(const OutageConfig& config) { return Outage(config).Run(); }

}  // namespace capstan::simulation
