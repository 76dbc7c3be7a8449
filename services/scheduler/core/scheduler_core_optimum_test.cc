// What the core decides on small fleets, whole step by whole step, against a judge that tries out
// everything and knows nothing of how it is found: by what is stored after each step alone.
//
// Of gangs of equal Tasks every claim is exact: who waits for room does not fit, however its Tasks
// are spread, nor would it if all ended that may end for it; who makes room ends nobody that could
// stay; and who is placed while nobody else waits, of one TaskGroup, stands as tightly as it can. To
// spread different Tasks is bin packing, which the placer does not solve: how often it misses a way
// is counted.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;

constexpr int64_t kNodeCpu = 4000;
constexpr int kMaxNodes = 12;
constexpr int kJobs = 20;
#ifndef CAPSTAN_SEEDS
#define CAPSTAN_SEEDS 200
#endif
constexpr uint64_t kSeeds = CAPSTAN_SEEDS;

using Free = std::vector<int64_t>;  // thousandths of CPUs, by Node
using Nodes = std::vector<int>;

struct Part {
  int64_t cpu = 0;
  int count = 0;
  Topology::Level level = Topology::LEVEL_UNSPECIFIED;
};

struct Gang {
  Topology::Level level = Topology::LEVEL_UNSPECIFIED;
  Topology::Level preferred = Topology::LEVEL_UNSPECIFIED;
  std::vector<Part> parts;

  explicit Gang(const JobSpec& spec)
      : level(spec.topology().required()), preferred(spec.topology().preferred()) {
    for (const auto& group : spec.task_groups()) {
      parts.push_back(
          {group.resources().cpu_millis(), group.replicas(), group.topology().required()});
    }
  }
  bool is_equal() const {
    return std::all_of(parts.begin(), parts.end(), [this](const Part& part) {
      return part.cpu == parts[0].cpu && part.level == Topology::LEVEL_UNSPECIFIED;
    });
  }
  int count() const {
    int count = 0;
    for (const Part& part : parts) count += part.count;
    return count;
  }
};

// Of Nodes in racks.
class Judge {
 public:
  explicit Judge(std::vector<int> racks) : racks_(std::move(racks)) {
    for (int node = 0; node < static_cast<int>(racks_.size()); ++node) all_.push_back(node);
  }

  bool Fits(Free free, const Gang& gang) const {
    for (const Nodes& domain : Domains(gang.level, all_)) {
      if (PutFrom(0, gang, domain, &free)) return true;
    }
    return false;
  }

  // For gangs of equal Tasks: what is wrong with where its Tasks were placed (`on`, each Node with a
  // Task), or "".
  std::string Looseness(const Free& free, const Gang& gang, const std::set<int>& on) const {
    const int64_t cpu = gang.parts[0].cpu;
    const int count = gang.count();
    // The narrowest level of which one domain holds all of it.
    std::vector<Topology::Level> levels = {gang.level};
    if (gang.level == Topology::LEVEL_UNSPECIFIED) levels.push_back(Topology::LEVEL_RACK);
    if (gang.preferred == Topology::LEVEL_NODE) levels.push_back(Topology::LEVEL_NODE);
    std::vector<Nodes> holding;
    for (Topology::Level level : levels) {
      std::vector<Nodes> domains = Domains(level, all_);
      std::erase_if(domains, [&](const Nodes& domain) { return Room(free, cpu, domain) < count; });
      if (!domains.empty()) holding = std::move(domains);
    }
    if (holding.empty()) return "it does not fit";
    const auto least = std::min_element(
        holding.begin(), holding.end(),
        [&](const Nodes& a, const Nodes& b) { return Room(free, cpu, a) < Room(free, cpu, b); });
    const auto in = std::find_if(holding.begin(), holding.end(), [&on](const Nodes& domain) {
      return std::includes(domain.begin(), domain.end(), on.begin(), on.end());
    });
    if (in == holding.end()) return "a narrower domain holds all of it";
    if (Room(free, cpu, *in) > Room(free, cpu, *least)) return "another domain has less to spare";
    if (gang.preferred == Topology::LEVEL_UNSPECIFIED) return "";
    const std::vector<Nodes> preferred = Domains(gang.preferred, *in);
    std::vector<int64_t> rooms;
    size_t used = 0;
    for (const Nodes& domain : preferred) {
      rooms.push_back(Room(free, cpu, domain));
      used += std::any_of(domain.begin(), domain.end(), [&on](int n) { return on.contains(n); });
    }
    std::sort(rooms.rbegin(), rooms.rend());
    size_t fewest = 0;
    for (int64_t left = count; left > 0; ++fewest) left -= rooms[fewest];
    return used == fewest ? "" : absl::StrCat("it is in ", used, " domains, where ", fewest, " do");
  }

 private:
  static int64_t Room(const Free& free, int64_t cpu, const Nodes& nodes) {
    int64_t room = 0;
    for (int node : nodes) room += std::max<int64_t>(free[node], 0) / cpu;
    return room;
  }

  std::vector<Nodes> Domains(Topology::Level level, const Nodes& within) const {
    if (level == Topology::LEVEL_UNSPECIFIED) return {within};
    std::map<int, Nodes> domains;
    for (int node : within) {
      domains[level == Topology::LEVEL_NODE ? node : racks_[node]].push_back(node);
    }
    std::vector<Nodes> all;
    for (auto& [name, nodes] : domains) all.push_back(std::move(nodes));
    return all;
  }

  bool PutFrom(size_t part, const Gang& gang, const Nodes& within, Free* free) const {
    if (part == gang.parts.size()) return true;
    for (const Nodes& domain : Domains(gang.parts[part].level, within)) {
      if (Spread(part, gang.parts[part].count, 0, gang, domain, within, free)) return true;
    }
    return false;
  }

  // So many Tasks of the part over the domain's Nodes from `at` on, then the other parts.
  bool Spread(size_t part, int left, size_t at, const Gang& gang, const Nodes& domain,
              const Nodes& within, Free* free) const {
    if (left == 0) return PutFrom(part + 1, gang, within, free);
    const int64_t cpu = gang.parts[part].cpu;
    if (Room(*free, cpu, Nodes(domain.begin() + static_cast<ptrdiff_t>(at), domain.end())) < left) {
      return false;
    }
    int64_t& of_node = (*free)[domain[at]];
    const int most = static_cast<int>(std::min<int64_t>(left, std::max<int64_t>(of_node, 0) / cpu));
    for (int here = most; here >= 0; --here) {
      of_node -= here * cpu;
      const bool done = Spread(part, left - here, at + 1, gang, domain, within, free);
      of_node += here * cpu;
      if (done) return true;
    }
    return false;
  }

  const std::vector<int> racks_;
  Nodes all_;
};

struct Tally {
  int placed = 0;
  int stood = 0;    // of those whose tightness was judged
  int loose = 0;    // of these, gangs of several TaskGroups that could have stood tighter
  int waiting = 0;  // looks at a gang that waits for room
  int missed = 0;   // of these, gangs of different Tasks that would have fitted
  int mixed = 0;    // looks at such a gang
  int made_room = 0;
  int victims = 0;
  int more_than_fewest = 0;  // of these gangs, those for whom fewer would have done
};

class World {
 public:
  // Adds to `tally`, which must outlive it.
  World(uint64_t seed, Tally* tally)
      : random_(seed),
        tally_(*tally),
        with_priorities_(seed % 2 == 1),
        nodes_(static_cast<int>(random_.Between(int64_t{2}, int64_t{kMaxNodes}))),
        judge_(Racks()),
        harness_(
            Config(),
            [this](const SchedulerCore& core, const Event& event, Now, const Step* step,
                   const auto&) {
              if (step != nullptr) SawStep(core.model(), event);
            },
            /*beside_anew=*/false),
        executor_("c", nodes_, kNodeCpu, &harness_) {
    // CoreHarness's own comparisons have tests of their own.
    harness_.set_compare_every(1000);
    for (int node = 0; node < nodes_; ++node) {
      executor_.set_labels(node, {{"capstan.dev/rack", absl::StrCat("r", RackOf(node))}});
      names_[executor_.NodeName(node)] = node;
    }
    executor_.Connect();
  }

  void Run() {
    while (jobs_ < kJobs && !::testing::Test::HasFailure()) {
      if (random_.OneIn(3)) {
        EndAny();
      } else {
        harness_.Deliver(harness_.Submit(absl::StrCat("j", jobs_++), AnySpec()));
      }
      Settle();
      CheckWaits();
    }
  }

 private:
  static CoreConfig Config() {
    CoreConfig config;
    config.min_runtime = absl::ZeroDuration();
    return config;
  }
  int RackOf(int node) const { return node % (1 + nodes_ / 4); }
  std::vector<int> Racks() const {
    std::vector<int> racks;
    for (int node = 0; node < nodes_; ++node) racks.push_back(RackOf(node));
    return racks;
  }

  JobSpec AnySpec() {
    static constexpr int64_t kCpus[] = {500, 1000, 1500, 2000, 3000, 4000};
    const bool is_mixed = random_.OneIn(4);
    JobSpec spec =
        CoreHarness::Spec(static_cast<int>(random_.Between(int64_t{1}, int64_t{is_mixed ? 3 : 8})),
                          kCpus[random_.Below(6)]);
    if (random_.OneIn(4)) {
      spec.mutable_topology()->set_required(random_.OneIn(3) ? Topology::LEVEL_NODE
                                                             : Topology::LEVEL_RACK);
    } else if (random_.OneIn(2)) {
      spec.mutable_topology()->set_preferred(random_.OneIn(2) ? Topology::LEVEL_NODE
                                                              : Topology::LEVEL_RACK);
    }
    if (is_mixed) {
      auto& other = *spec.add_task_groups();
      other = spec.task_groups(0);
      other.set_name("other");
      other.set_replicas(static_cast<int>(random_.Between(int64_t{1}, int64_t{3})));
      other.mutable_resources()->set_cpu_millis(kCpus[random_.Below(6)]);
      if (random_.OneIn(3) && spec.topology().required() == Topology::LEVEL_UNSPECIFIED) {
        other.mutable_topology()->set_required(random_.OneIn(2) ? Topology::LEVEL_NODE
                                                                : Topology::LEVEL_RACK);
      }
    }
    if (with_priorities_) {
      spec.set_priority(static_cast<int32_t>(random_.Between(int64_t{-2}, int64_t{2})));
    }
    return spec;
  }

  void EndAny() {
    std::vector<std::string> running;
    for (const auto& [uid, job] : harness_.jobs()) {
      if (job.state.state() == Job::STATE_RUNNING) running.push_back(job.spec.name());
    }
    if (running.empty()) return;
    harness_.Deliver(harness_.Apply(
        CancelJob{harness_.next_call(), running[random_.Below(running.size())], ""}));
  }

  // Everybody does what they are told, until there is nothing left to do.
  void Settle() {
    harness_.Deliver(harness_.Advance(absl::Milliseconds(10)));
    for (int steps = -1; steps != steps_;) {
      steps = steps_;
      executor_.PrepareAll();
      executor_.RunAll();
    }
    executor_.Renew();
    harness_.Deliver(harness_.Advance(absl::Seconds(1)));
  }

  // What each live gang takes, by Node.
  Free UseOf(const JobEntry& job) const {
    Free use(static_cast<size_t>(nodes_));
    if (!job.live()) return use;
    for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
      if (job.gang->ended(rank)) continue;
      const int group = GroupOf(job, rank).first;
      use[names_.at(job.gang->nodes[rank])] +=
          job.spec.spec().task_groups(group).resources().cpu_millis();
    }
    return use;
  }
  static void Add(const Free& more, Free* free) {
    for (size_t n = 0; n < free->size(); ++n) (*free)[n] += more[n];
  }
  Free FreeIn(const Model& model) const {
    Free free(static_cast<size_t>(nodes_), kNodeCpu);
    for (const auto& [uid, job] : model.jobs) {
      const Free use = UseOf(job);
      for (size_t n = 0; n < free.size(); ++n) free[n] -= use[n];
    }
    return free;
  }

  void SawStep(const Model& model, const Event& event) {
    ++steps_;
    std::vector<const JobEntry*> placed, made_room;
    int waiting = 0;
    std::set<std::string> leaving;
    for (const auto& [uid, job] : model.jobs) {
      const bool makes_room = job.state.reason() == "MAKING_ROOM";
      if (makes_room && !makes_room_.contains(uid)) made_room.push_back(model.FindJob(uid));
      if (makes_room) {
        makes_room_.insert(uid);
      } else {
        makes_room_.erase(uid);
      }
      if (job.state.state() == Job::STATE_QUEUED) ++waiting;
      if (job.state.state() == Job::STATE_STOPPING) leaving.insert(uid);
      if (!job.gang.has_value()) continue;
      int64_t& generation = generations_[uid];
      const bool is_new = std::exchange(generation, job.gang->head.generation()) < generation;
      if (is_new && job.live()) placed.push_back(model.FindJob(uid));
    }
    tally_.placed += static_cast<int>(placed.size());
    const bool was_quiet = std::exchange(is_quiet_, waiting == 0 && leaving.empty());
    if (was_quiet && placed.size() == 1 && waiting == 0 &&
        std::holds_alternative<CreateJob>(event)) {
      CheckTightness(model, *placed[0]);
    }
    if (made_room.size() == 1 && placed.empty() && makes_room_.size() == 1) {
      CheckVictims(model, *made_room[0], leaving);
    }
  }

  void CheckTightness(const Model& model, const JobEntry& job) {
    const Gang gang(job.spec.spec());
    if (!gang.is_equal()) return;
    Free free = FreeIn(model);
    Add(UseOf(job), &free);
    std::set<int> on;
    for (const std::string& node : job.gang->nodes) on.insert(names_.at(node));
    const std::string loose = judge_.Looseness(free, gang, on);
    ++tally_.stood;
    if (gang.parts.size() > 1) {
      // One TaskGroup after the other.
      tally_.loose += loose.empty() ? 0 : 1;
      return;
    }
    EXPECT_EQ(loose, "") << job.spec.ShortDebugString();
  }

  void CheckVictims(const Model& model, const JobEntry& job, std::set<std::string> leaving) {
    const Gang gang(job.spec.spec());
    const Free free = FreeIn(model);
    std::vector<Free> victims;
    for (const auto& record : job.state.making_room()) {
      const JobEntry& victim = *model.FindJob(record.job_uid());
      EXPECT_LT(victim.spec.spec().priority(), job.spec.spec().priority());
      victims.push_back(UseOf(victim));
      leaving.erase(victim.uid());
    }
    // Somebody else is about to leave.
    if (!leaving.empty()) return;
    const auto fits_without = [&](const std::vector<Free>& gone, size_t but) {
      Free with = free;
      for (size_t v = 0; v < gone.size(); ++v) {
        if (v != but) Add(gone[v], &with);
      }
      return judge_.Fits(with, gang);
    };
    EXPECT_TRUE(fits_without(victims, victims.size())) << "it does not fit then";
    ++tally_.made_room;
    tally_.victims += static_cast<int>(victims.size());
    if (gang.is_equal()) {
      for (size_t v = 0; v < victims.size(); ++v) {
        EXPECT_FALSE(fits_without(victims, v))
            << job.state.making_room(static_cast<int>(v)).job_uid() << " ends for nothing";
      }
    }
    std::vector<Free> others;
    for (const auto& [uid, other] : model.jobs) {
      if (other.live() && other.spec.spec().priority() < job.spec.spec().priority()) {
        others.push_back(UseOf(other));
      }
    }
    ASSERT_LT(others.size(), 30u);
    for (uint32_t set = 0; set < uint32_t{1} << others.size(); ++set) {
      std::vector<Free> some;
      for (size_t o = 0; o < others.size(); ++o) {
        if ((set >> o & 1) != 0) some.push_back(others[o]);
      }
      if (some.size() >= victims.size() || !fits_without(some, some.size())) continue;
      ++tally_.more_than_fewest;
      break;
    }
  }

  void CheckWaits() {
    const Model& model = harness_.core().model();
    const Free free = FreeIn(model);
    bool any_reserved = false;
    for (const auto& [uid, job] : model.jobs) {
      any_reserved = any_reserved || job.state.has_estimated_start_time();
      ASSERT_NE(job.state.reason(), "MAKING_ROOM") << "all has ended that was to";
    }
    for (const auto& [uid, job] : model.jobs) {
      if (job.state.state() != Job::STATE_QUEUED) continue;
      if (job.state.reason() == "RESERVED") {
        EXPECT_TRUE(any_reserved && !job.state.has_estimated_start_time());
        continue;
      }
      ++tally_.waiting;
      const Gang gang(job.spec.spec());
      Free most = free;
      for (const auto& [other_uid, other] : model.jobs) {
        if (other.spec.spec().priority() < job.spec.spec().priority()) Add(UseOf(other), &most);
      }
      const bool fits = judge_.Fits(free, gang);
      // Who might delay the one that room is kept for ends nobody.
      const bool may_end = !any_reserved || job.state.has_estimated_start_time();
      const bool would_fit = may_end && judge_.Fits(most, gang);
      if (!gang.is_equal()) {
        ++tally_.mixed;
        tally_.missed += fits || would_fit ? 1 : 0;
        continue;
      }
      EXPECT_FALSE(fits) << uid << " waits and fits: " << Described(model);
      EXPECT_FALSE(would_fit) << uid << " waits, and nobody ends for it: " << Described(model);
    }
  }

  static std::string Described(const Model& model) {
    std::string words;
    for (const auto& [uid, job] : model.jobs) {
      if (job.final()) continue;
      absl::StrAppend(&words, "\n", uid, " (", job.spec.spec().priority(),
                      "): ", Job::State_Name(job.state.state()), " ", job.state.reason());
      for (const auto& group : job.spec.spec().task_groups()) {
        absl::StrAppend(&words, ", ", group.replicas(), " of ", group.resources().cpu_millis());
      }
      absl::StrAppend(&words, " ", job.spec.spec().topology().ShortDebugString());
      if (!job.live()) continue;
      absl::StrAppend(&words, " on");
      for (const std::string& node : job.gang->nodes) absl::StrAppend(&words, " ", node);
    }
    return words;
  }

  Random random_;
  Tally& tally_;
  const bool with_priorities_;
  const int nodes_;
  const Judge judge_;
  std::map<std::string, int> names_;
  std::map<std::string, int64_t> generations_;  // seen, by uid
  std::set<std::string> makes_room_;            // uids
  // Nobody waits, and nobody is about to leave.
  bool is_quiet_ = true;
  int jobs_ = 0;
  int steps_ = 0;
  CoreHarness harness_;
  FakeExecutor executor_;
};

TEST(SchedulerCoreOptimumTest, IsAsGoodAsTryingEverything) {
  Tally all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World(seed, &all).Run();
    if (HasFailure()) return;
  }
  for (const auto& [name, count] :
       std::map<std::string, int>{{"placed", all.placed},
                                  {"tightness_judged", all.stood},
                                  {"loose", all.loose},
                                  {"waits_judged", all.waiting},
                                  {"waits_judged_of_different_tasks", all.mixed},
                                  {"missed", all.missed},
                                  {"made_room", all.made_room},
                                  {"victims", all.victims},
                                  {"more_victims_than_fewest", all.more_than_fewest}}) {
    RecordProperty(name, count);
  }
  // The test has to have tested something.
  EXPECT_GT(all.stood, static_cast<int>(kSeeds));
  EXPECT_GT(all.waiting, static_cast<int>(kSeeds));
  EXPECT_GT(all.made_room, static_cast<int>(kSeeds) / 2);
  // Different Tasks seldom find no way where there is one.
  EXPECT_LT(all.missed, all.mixed / 20);
  EXPECT_LT(all.loose, all.stood / 50);
  EXPECT_LT(all.more_than_fewest, all.made_room / 10);
}

}  // namespace
}  // namespace capstan::scheduler
