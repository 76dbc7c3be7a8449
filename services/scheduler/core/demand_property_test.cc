// What is told against a recount from nothing but each Job's past, over seeds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using v1::DemandClass;
using v1::Job;
using v1::UnmetDemand;

// What was so of one Job, second by second.
enum class Kind { kAbsent, kNodes, kUnsettled, kHeld };

struct Past {
  std::vector<Kind> kinds;
  int tasks = 0;
  std::string name;

  // Whether it is to be told of at the end, by what hysteresis means and from the whole past: at
  // some time it had been for Nodes for `hold`, and since then it was never held back or absent,
  // nor unsettled for `release` without a break.
  bool Told(int hold, int release) const {
    const int end = static_cast<int>(kinds.size());
    int begin = 0;
    int unsettled = 0;
    for (int t = 0; t < end; ++t) {
      unsettled = kinds[t] == Kind::kUnsettled ? unsettled + 1 : 0;
      const bool broken = kinds[t] == Kind::kAbsent || kinds[t] == Kind::kHeld;
      // `release` seconds after the first of them it is over.
      if (broken || unsettled > release) begin = t + 1;
    }
    for (int first = begin; first + hold < end; ++first) {
      int t = first;
      while (t <= first + hold && kinds[t] == Kind::kNodes) ++t;
      if (t > first + hold) return true;
    }
    return false;
  }
};

TEST(DemandPropertyTest, FollowsARecountFromThePastOverSeeds) {
  const std::map<Kind, std::vector<std::string>> reasons = {
      {Kind::kNodes, {"INSUFFICIENT_RESOURCES", "RESERVED", "PREEMPTED"}},
      {Kind::kUnsettled, {"WAITING", "MAKING_ROOM", "QUEUE_RATE"}},
      {Kind::kHeld, {"QUEUE_LIMIT", "QUEUE_HELD", "BACK_OFF", "AWAITING_DATA", "DEPENDENCY"}},
  };
  constexpr int kHold = 5;
  constexpr int kRelease = 9;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    Now now{absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)};
    DemandConfig config;
    config.hold_for = absl::Seconds(kHold);
    config.release_after = absl::Seconds(kRelease);
    config.band_percent = 0;
    DemandBook exact(config);
    config.band_percent = 10;
    DemandBook banded(config);
    std::map<std::string, Past> pasts;
    std::map<std::string, JobEntry> jobs;
    int exact_changes = 0;
    int banded_changes = 0;
    for (int second = 0; second < 120; ++second) {
      for (int i = 0; i < 12; ++i) {
        const std::string uid = absl::StrCat("j", i);
        Past& past = pasts[uid];
        past.kinds.resize(second);
        Kind kind = second == 0 ? Kind::kAbsent : past.kinds.back();
        JobEntry& job = jobs[uid];
        // Now and then; some Jobs more often than others.
        if (random.OneIn(3 + i)) {
          if (kind == Kind::kAbsent) {
            past.tasks = static_cast<int>(random.Between(1, 40));
            past.name = absl::StrCat("projects/p/jobs/", uid, "-", second);
            job = JobEntry();
            job.spec.set_uid(uid);
            job.spec.set_name(past.name);
            job.spec.set_submit_sequence(second * 100 + i);
            *job.spec.mutable_spec() = CoreHarness::Spec(past.tasks, 1000 * (1 + i % 3));
          }
          kind = static_cast<Kind>(random.Below(4));
          if (random.OneIn(2)) kind = Kind::kNodes;
          job.state.set_state(kind == Kind::kAbsent ? Job::STATE_RUNNING : Job::STATE_QUEUED);
          if (kind != Kind::kAbsent) {
            const auto& names = reasons.at(kind);
            job.state.set_reason(names[random.Below(names.size())]);
          }
          const bool gone = kind == Kind::kAbsent && random.OneIn(2);
          exact.Update(uid, gone ? nullptr : &job, now);
          banded.Update(uid, gone ? nullptr : &job, now);
        }
        past.kinds.push_back(kind);
      }
      if (exact.Advance(now)) ++exact_changes;
      if (banded.Advance(now)) ++banded_changes;
      // Anew, from nothing but the past; by cores of a Task.
      std::map<int64_t, DemandBook::Count> expected;
      std::map<std::string, bool> told_of;
      DemandBook::Count waiting;
      for (const auto& [uid, past] : pasts) {
        if (past.kinds.back() == Kind::kAbsent) continue;
        const bool told = past.Told(kHold, kRelease);
        told_of[past.name] = told;
        DemandBook::Count& count =
            told ? expected[jobs.at(uid).spec.spec().task_groups(0).resources().cpu_millis()]
                 : waiting;
        ++count.jobs;
        count.tasks += past.tasks;
      }
      std::map<int64_t, DemandBook::Count> found;
      const UnmetDemand all = exact.Told("");
      for (const DemandClass& of : all.classes()) {
        const int64_t cpu = of.shapes(0).resources().cpu_millis();
        found[cpu] = {of.gangs(), of.tasks()};
        EXPECT_EQ(of.resources().cpu_millis(), cpu * of.tasks());
        DemandBook::Count by_reason;
        for (const auto& reason : of.reasons()) {
          by_reason.jobs += reason.gangs();
          by_reason.tasks += reason.tasks();
        }
        EXPECT_EQ(by_reason, found[cpu]);
        EXPECT_TRUE(told_of[of.largest_job()]) << of.largest_job() << " is not demand";
      }
      ASSERT_EQ(found, expected) << "after " << second << " s";
      DemandBook::Count held_back;
      for (const auto& held : all.held_back()) {
        held_back.jobs += held.jobs();
        held_back.tasks += held.tasks();
      }
      ASSERT_EQ(held_back, waiting);
      // With the band the same classes, and no figure further off than it allows.
      const UnmetDemand near = banded.Told("");
      ASSERT_EQ(near.classes_size(), static_cast<int>(expected.size()));
      for (const DemandClass& of : near.classes()) {
        const DemandBook::Count& count = expected.at(of.shapes(0).resources().cpu_millis());
        EXPECT_LE(std::abs(of.gangs() - count.jobs) * 10, of.gangs());
        EXPECT_LE(std::abs(of.tasks() - count.tasks) * 10, of.tasks());
        EXPECT_TRUE(told_of[of.largest_job()]) << of.largest_job() << " is not demand";
      }
      now.wall += absl::Seconds(1);
      now.boot = now.boot + absl::Seconds(1);
    }
    EXPECT_LE(banded_changes, exact_changes);
  }
}

}  // namespace
}  // namespace capstan::scheduler
