#include "services/scheduler/core/demand.h"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/demand_class.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using v1::DemandClass;
using v1::Job;
using v1::JobSpec;
using v1::Topology;
using v1::UnmetDemand;

constexpr absl::Duration kStep = absl::Seconds(1);

// `Tasks x cpu` of the spec, `gpus` of H100 for each Task.
JobSpec SpecOf(int replicas, int64_t cpu_millis, int64_t gpus = 0) {
  JobSpec spec = CoreHarness::Spec(replicas, cpu_millis);
  spec.set_queue("queues/default");
  if (gpus > 0) {
    (*spec.mutable_task_groups(0)->mutable_resources()->mutable_accelerators())["nvidia.com/h100"] =
        gpus;
  }
  return spec;
}

class DemandTest : public ::testing::Test {
 protected:
  // Submits it, as the store would have it.
  void Submit(const std::string& uid, JobSpec spec, const std::string& reason) {
    JobEntry& job = jobs_[uid];
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_submit_sequence(static_cast<int64_t>(jobs_.size()));
    *job.spec.mutable_spec() = std::move(spec);
    *job.state.mutable_phase_time() = ToProto(now_.wall);
    Set(uid, reason);
  }
  // As if the scheduler had stored it so.
  void Set(const std::string& uid, const std::string& reason,
           Job::State state = Job::STATE_QUEUED) {
    JobEntry& job = jobs_.at(uid);
    job.state.set_state(state);
    job.state.set_reason(reason);
    *job.state.mutable_update_time() = ToProto(now_.wall);
    book_.Update(uid, &job, now_);
  }
  void Estimate(const std::string& uid, absl::Duration wait, bool assumed) {
    JobEntry& job = jobs_.at(uid);
    *job.state.mutable_estimated_start_time() = ToProto(now_.wall + wait);
    job.state.set_estimate_assumed(assumed);
    Set(uid, job.state.reason());
  }
  void Sleep(absl::Duration d) {
    now_.wall += d;
    now_.boot = now_.boot + d;
  }
  // As the service does: whenever something is due. How often what is told has changed.
  int Run(absl::Duration d) {
    int changes = book_.Advance(now_) ? 1 : 0;
    const BootTime end = now_.boot + d;
    while (book_.NextDue() <= end) {
      Sleep(book_.NextDue() - now_.boot);
      if (book_.Advance(now_)) ++changes;
    }
    Sleep(end - now_.boot);
    return changes;
  }
  UnmetDemand Told() const { return book_.Told(""); }
  int64_t GangsTold() const {
    const UnmetDemand told = Told();
    int64_t gangs = told.rest().gangs();
    for (const DemandClass& of : told.classes()) gangs += of.gangs();
    return gangs;
  }
  // As `2 QUEUE_HELD, 1 TOO_NEW`.
  std::string HeldBack() const {
    std::string text;
    const UnmetDemand told = Told();
    for (const auto& held : told.held_back()) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", held.jobs(), " ", held.cause());
    }
    return text;
  }

  JobTable Stored() const {
    JobTable table;
    for (auto [uid, job] : jobs_) {
      job.spec.set_uid(uid);
      table.Add(std::move(job));
    }
    return table;
  }

  Now now_{absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)};
  std::map<std::string, JobEntry> jobs_;
  DemandBook book_{DemandConfig()};
};

TEST_F(DemandTest, TellsOfAGangOnceItHasWaitedForNodesLongEnough) {
  Submit("a", SpecOf(4, 2000, 8), "INSUFFICIENT_RESOURCES");
  Submit("b", SpecOf(2, 2000, 8), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(Run(absl::Seconds(29)), 0);
  EXPECT_EQ(HeldBack(), "2 TOO_NEW");
  EXPECT_EQ(Run(absl::Seconds(1)), 1);
  const UnmetDemand told = Told();
  ASSERT_EQ(told.classes_size(), 1);
  const DemandClass& of = told.classes(0);
  EXPECT_EQ(of.gangs(), 2);
  EXPECT_EQ(of.tasks(), 6);
  EXPECT_EQ(of.queue(), "queues/default");
  EXPECT_EQ(of.min_priority(), 0);
  EXPECT_EQ(of.max_priority(), 99);
  ASSERT_EQ(of.shapes_size(), 1);
  EXPECT_EQ(of.shapes(0).resources().cpu_millis(), 2000);
  EXPECT_EQ(of.shapes(0).resources().accelerators().at("nvidia.com/h100"), 8);
  EXPECT_EQ(of.shapes(0).tasks(), 6);
  EXPECT_EQ(of.shapes(0).tasks_of_largest(), 4);
  EXPECT_EQ(of.resources().accelerators().at("nvidia.com/h100"), 48);
  EXPECT_EQ(of.largest_job(), "projects/p/jobs/a");
  EXPECT_EQ(of.largest_tasks(), 4);
  ASSERT_EQ(of.reasons_size(), 1);
  EXPECT_EQ(of.reasons(0).reason(), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(of.reasons(0).gangs(), 2);
  EXPECT_EQ(ToTime(of.waiting_since()), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(told.held_back_size(), 0);
  EXPECT_EQ(book_.NextDue(), BootTime::InfiniteFuture()) << "nothing is done while nothing changes";
}

TEST_F(DemandTest, GangsThatNeedOtherNodesAreToldApart) {
  Submit("a", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  const auto submit = [this](const std::string& uid, auto change) {
    JobSpec spec = SpecOf(1, 1000);
    change(&spec);
    Submit(uid, spec, "INSUFFICIENT_RESOURCES");
  };
  submit("same", [](JobSpec* spec) { spec->mutable_task_groups(0)->set_name("other"); });
  submit("preferred",
         [](JobSpec* spec) { spec->mutable_topology()->set_preferred(Topology::LEVEL_RACK); });
  submit("band", [](JobSpec* spec) { spec->set_priority(99); });
  submit("priority", [](JobSpec* spec) { spec->set_priority(-1); });
  submit("rack",
         [](JobSpec* spec) { spec->mutable_topology()->set_required(Topology::LEVEL_RACK); });
  submit("cluster", [](JobSpec* spec) { spec->add_clusters("c"); });
  submit("queue", [](JobSpec* spec) { spec->set_queue("queues/q"); });
  submit("memory", [](JobSpec* spec) {
    spec->mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
  });
  submit("group", [](JobSpec* spec) {
    spec->mutable_task_groups(0)->mutable_topology()->set_required(Topology::LEVEL_RACK);
  });
  submit("both", [](JobSpec* spec) {
    *spec->add_task_groups() = spec->task_groups(0);
    spec->mutable_task_groups(1)->set_replicas(5);
  });
  submit("mixed", [](JobSpec* spec) {
    *spec->add_task_groups() = spec->task_groups(0);
    spec->mutable_task_groups(1)->mutable_resources()->set_cpu_millis(50);
  });
  Run(absl::Minutes(1));
  std::map<std::string, int64_t> gangs;
  const UnmetDemand told = Told();
  for (const DemandClass& of : told.classes()) gangs[of.largest_job()] = of.gangs();
  EXPECT_EQ(gangs.size(), 8u);
  EXPECT_EQ(gangs["projects/p/jobs/both"], 5) << "a, same, preferred, band and both";
  EXPECT_EQ(book_.Told("c").classes_size(), 8) << "the others may run anywhere";
  EXPECT_EQ(book_.Told("d").classes_size(), 7);
  jobs_.at("a").state.set_data_cluster("d");
  Set("a", "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  EXPECT_EQ(book_.Told("d").classes_size(), 8) << "its data is there by now";
  EXPECT_EQ(book_.Told("e").classes_size(), 7);
}

// An order names it, in whatever process.
TEST_F(DemandTest, SaysWhatNodesMustBeLike) {
  JobSpec spec = SpecOf(1, 1000);
  Submit("plain", spec, "INSUFFICIENT_RESOURCES");
  const auto ask = [](const std::string& key, std::vector<std::string> values, auto* list) {
    auto& one = *list->Add();
    one.set_key(key);
    one.set_operator_(v1::NodeRequirement::OPERATOR_IN);
    one.mutable_values()->Assign(values.begin(), values.end());
  };
  ask("zone", {"b", "a"}, spec.mutable_node_requirements());
  ask("gpu", {"h100"}, spec.mutable_node_requirements());
  ask("disk", {"fast"}, spec.mutable_task_groups(0)->mutable_node_requirements());
  spec.add_tolerations()->set_key("team");
  Submit("a", spec, "INSUFFICIENT_RESOURCES");
  // In another order it is the same.
  spec.clear_node_requirements();
  ask("gpu", {"h100"}, spec.mutable_node_requirements());
  ask("zone", {"a", "b"}, spec.mutable_node_requirements());
  Submit("b", spec, "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  const UnmetDemand told = Told();
  ASSERT_EQ(told.classes_size(), 2);
  const DemandClass& of = told.classes(0);
  EXPECT_EQ(of.gangs(), 2);
  ASSERT_EQ(of.node_requirements_size(), 2);
  EXPECT_EQ(of.node_requirements(0).key(), "gpu");
  EXPECT_EQ(of.node_requirements(1).key(), "zone");
  EXPECT_EQ(of.node_requirements(1).values(0), "a");
  ASSERT_EQ(of.shapes(0).node_requirements_size(), 1);
  EXPECT_EQ(of.shapes(0).node_requirements(0).key(), "disk");
  ASSERT_EQ(of.tolerations_size(), 1);
  EXPECT_EQ(of.tolerations(0).key(), "team");
  EXPECT_EQ(told.classes(1).node_requirements_size(), 0);
  EXPECT_NE(of.id(), told.classes(1).id());
}

TEST_F(DemandTest, AClassIsKnownByItsId) {
  Submit("a", SpecOf(3, 1000, 8), "INSUFFICIENT_RESOURCES");
  Submit("b", SpecOf(5, 1000, 8), "INSUFFICIENT_RESOURCES");
  Submit("other", SpecOf(3, 1000, 4), "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  const UnmetDemand told = Told();
  ASSERT_EQ(told.classes_size(), 2);
  EXPECT_EQ(told.classes(0).id(), DemandClassId(DemandNeed::Of(jobs_.at("a")).key));
  EXPECT_EQ(told.classes(0).id(), DemandClassId(DemandNeed::Of(jobs_.at("b")).key));
  EXPECT_EQ(told.classes(1).id(), DemandClassId(DemandNeed::Of(jobs_.at("other")).key));
  EXPECT_NE(told.classes(0).id(), told.classes(1).id());
  EXPECT_EQ(told.classes(0).id().size(), 16u);
}

TEST_F(DemandTest, WhatNoNodeWouldHelpIsHeldBackAtOnce) {
  Submit("a", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  for (const char* cause : {"QUEUE_LIMIT", "QUEUE_HELD", "ORDERED", "BACK_OFF", "DEPENDENCY",
                            "ARRAY_LIMIT", "AWAITING_DATA", "A_REASON_OF_A_LATER_VERSION"}) {
    SCOPED_TRACE(cause);
    Set("a", "INSUFFICIENT_RESOURCES");
    Run(absl::Seconds(30));
    ASSERT_EQ(GangsTold(), 1);
    Set("a", cause);
    EXPECT_EQ(Run(kStep), 1);
    EXPECT_EQ(GangsTold(), 0);
    EXPECT_EQ(Told().held_back(0).jobs(), 1);
    Run(absl::Hours(1));
    EXPECT_EQ(GangsTold(), 0);
  }
  EXPECT_EQ(HeldBack(), "1 OTHER");
}

TEST_F(DemandTest, NobodyIsToldOfWhoseQueueStartsNothing) {
  JobSpec spec = SpecOf(1, 1000);
  spec.set_queue("queues/part");
  Submit("a", spec, "INSUFFICIENT_RESOURCES");
  Submit("b", spec, "WAITING");
  Submit("c", spec, "DEPENDENCY");
  Submit("other", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  ASSERT_EQ(GangsTold(), 2);
  std::map<std::string, rec::QueueRecord> queues;
  queues["part"].mutable_queue()->set_parent("queues/team");
  queues["default"];
  queues["team"];
  book_.SetQueues(queues, now_);
  EXPECT_EQ(Run(kStep), 0);
  for (const bool drain : {false, true}) {
    // Their records say so later, or never.
    queues["team"].mutable_queue()->set_hold(!drain);
    queues["team"].mutable_queue()->set_drain(drain);
    book_.SetQueues(queues, now_);
    EXPECT_EQ(Run(kStep), 1);
    EXPECT_EQ(GangsTold(), 1);
    EXPECT_EQ(HeldBack(), "1 DEPENDENCY, 2 QUEUE_HELD");
    Set("b", "INSUFFICIENT_RESOURCES");
    EXPECT_EQ(Run(absl::Minutes(1)), 0);
    Set("b", "WAITING");
    queues["team"].clear_queue();
    book_.SetQueues(queues, now_);
    EXPECT_EQ(Run(absl::Seconds(29)), 0) << "it has to hold again";
    EXPECT_EQ(Run(kStep), 1);
    EXPECT_EQ(GangsTold(), 2);
  }
}

TEST_F(DemandTest, AGangThatHasStartedIsNotBoughtForTwice) {
  Submit("a", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Submit("b", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  Set("a", "PLACED", Job::STATE_PREPARING);
  book_.Update("b", nullptr, now_);
  EXPECT_EQ(Run(kStep), 1);
  EXPECT_EQ(GangsTold(), 0);
  EXPECT_EQ(HeldBack(), "");
  Set("a", "PREEMPTED");
  EXPECT_EQ(Run(absl::Seconds(29)), 0) << "it has to hold again";
  EXPECT_EQ(Run(kStep), 1);
  EXPECT_EQ(Told().classes(0).reasons(0).reason(), "PREEMPTED");
}

TEST_F(DemandTest, WhatOnlySeemsToPassIsTakenBackLate) {
  for (const char* cause : {"WAITING", "MAKING_ROOM", "QUEUE_RATE"}) {
    SCOPED_TRACE(cause);
    Submit(cause, SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
    Run(absl::Minutes(1));
    ASSERT_EQ(GangsTold(), 1);
    // It comes and goes, and nothing is told of it.
    for (int i = 0; i < 10; ++i) {
      Set(cause, cause);
      EXPECT_EQ(Run(absl::Seconds(119)), 0);
      Set(cause, "INSUFFICIENT_RESOURCES");
      EXPECT_EQ(Run(kStep), 0);
    }
    Set(cause, cause);
    EXPECT_EQ(Run(absl::Seconds(119)), 0);
    EXPECT_EQ(HeldBack(), "");
    EXPECT_EQ(Run(kStep), 1);
    EXPECT_EQ(GangsTold(), 0);
    EXPECT_EQ(HeldBack(), absl::StrCat("1 ", cause));
    book_.Update(cause, nullptr, now_);
  }
}

TEST_F(DemandTest, WhatStartsSoonNeedsNoNodes) {
  Submit("a", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Estimate("a", absl::Minutes(4), /*assumed=*/false);
  Run(absl::Minutes(1));
  EXPECT_EQ(GangsTold(), 0);
  EXPECT_EQ(HeldBack(), "1 STARTS_SOON");
  Estimate("a", absl::Minutes(4), /*assumed=*/true);
  Run(absl::Minutes(1));
  EXPECT_EQ(GangsTold(), 1) << "a guess is nothing to wait for";
  // Far off, then by the passing of time alone near, and at last near for long enough.
  Estimate("a", absl::Minutes(15), /*assumed=*/false);
  EXPECT_EQ(Run(absl::Minutes(12) - kStep), 0);
  EXPECT_EQ(Run(kStep), 1);
  EXPECT_EQ(GangsTold(), 0);
  EXPECT_EQ(HeldBack(), "1 STARTS_SOON");
}

TEST_F(DemandTest, ReasonsThatTakeTurnsAreToldOnceOneHolds) {
  Submit("a", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  for (int i = 0; i < 20; ++i) {
    Set("a", i % 2 == 0 ? "RESERVED" : "INSUFFICIENT_RESOURCES");
    EXPECT_EQ(Run(absl::Seconds(20)), 0);
  }
  Set("a", "RESERVED");
  EXPECT_EQ(Run(absl::Seconds(29)), 0);
  EXPECT_EQ(Run(kStep), 1);
  EXPECT_EQ(Told().classes(0).reasons(0).reason(), "RESERVED");
  EXPECT_EQ(Told().classes(0).gangs(), 1);
  const auto by_reason = book_.ToldByReason();
  EXPECT_EQ(by_reason.at("RESERVED"), (DemandBook::Count{1, 1}));
  EXPECT_EQ(by_reason.at("INSUFFICIENT_RESOURCES"), DemandBook::Count());
}

TEST_F(DemandTest, SmallChangesAreNotToldButTheLargestGangIs) {
  for (int i = 0; i < 100; ++i) {
    Submit(absl::StrCat("j", i), SpecOf(10, 1000), "INSUFFICIENT_RESOURCES");
  }
  Run(absl::Minutes(1));
  ASSERT_EQ(GangsTold(), 100);
  for (int i = 1; i <= 10; ++i) book_.Update(absl::StrCat("j", i), nullptr, now_);
  EXPECT_EQ(Run(absl::Hours(1)), 0);
  EXPECT_EQ(GangsTold(), 100);
  book_.Update("j11", nullptr, now_);
  EXPECT_EQ(Run(kStep), 1);
  EXPECT_EQ(GangsTold(), 89);
  ASSERT_EQ(Told().classes(0).largest_job(), "projects/p/jobs/j0");
  book_.Update("j0", nullptr, now_);
  EXPECT_EQ(Run(kStep), 1) << "who is named waits";
  EXPECT_EQ(Told().classes(0).largest_job(), "projects/p/jobs/j12");
  Submit("large", SpecOf(11, 1000), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(Run(absl::Minutes(1)), 1) << "there must be room for all of it";
  EXPECT_EQ(Told().classes(0).largest_tasks(), 11);
}

TEST_F(DemandTest, ALargeNumberOfClassesIsSummed) {
  const int count = static_cast<int>(kMaxDemandClasses) + 44;
  for (int i = 1; i <= count; ++i) {
    Submit(absl::StrCat("j", i), SpecOf(i, 1000 + i), "INSUFFICIENT_RESOURCES");
  }
  Run(absl::Minutes(1));
  const UnmetDemand told = Told();
  ASSERT_EQ(told.classes_size(), static_cast<int>(kMaxDemandClasses));
  EXPECT_EQ(told.classes(0).tasks(), count) << "the greatest first";
  EXPECT_EQ(told.rest().classes(), 44);
  EXPECT_EQ(told.rest().gangs(), 44);
  EXPECT_EQ(told.rest().tasks(), 44 * 45 / 2);
  int64_t cpu = 0;
  for (int i = 1; i <= 44; ++i) cpu += static_cast<int64_t>(i) * (1000 + i);
  EXPECT_EQ(told.rest().resources().cpu_millis(), cpu);
}

TEST_F(DemandTest, AmountsBeyondAllNumbersAreTheLargest) {
  JobSpec spec = SpecOf(10'000, 1000);
  spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(int64_t{1} << 50);
  Submit("a", spec, "INSUFFICIENT_RESOURCES");
  Run(absl::Minutes(1));
  EXPECT_EQ(Told().classes(0).resources().memory_bytes(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Told().classes(0).resources().cpu_millis(), 10'000'000);
}

TEST_F(DemandTest, AProcessThatBeginsTellsAtOnceWhatHasLongBeenSo) {
  Submit("old", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Sleep(absl::Minutes(1));
  Submit("new", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  Submit("gone", SpecOf(1, 1000), "INSUFFICIENT_RESOURCES");
  jobs_.erase("gone");
  DemandBook other{DemandConfig()};
  other.Reset(Stored(), now_);
  EXPECT_TRUE(other.Advance(now_));
  EXPECT_EQ(other.Told("").classes(0).gangs(), 1);
  EXPECT_EQ(other.Told("").classes(0).largest_job(), "projects/p/jobs/old");
  // One that has missed changes keeps what it knows beside.
  book_.Reset(Stored(), now_);
  Run(kStep);
  EXPECT_EQ(GangsTold(), 1);
  EXPECT_EQ(HeldBack(), "1 TOO_NEW");
}

TEST_F(DemandTest, NobodyWhoWaitsForLessIsEverToldOf) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    for (int i = 0; i < 200; ++i) {
      const std::string uid = absl::StrCat("j", random.Below(8));
      if (jobs_.count(uid) == 0) Submit(uid, SpecOf(4, 1000), "WAITING");
      Set(uid, "INSUFFICIENT_RESOURCES");
      EXPECT_EQ(Run(random.Between(absl::ZeroDuration(), absl::Seconds(29))), 0);
      // Others may have begun to wait before, but none of them waits on.
      for (auto& [other, job] : jobs_) Set(other, random.OneIn(2) ? "QUEUE_HELD" : "WAITING");
      EXPECT_EQ(Run(random.Between(absl::ZeroDuration(), absl::Seconds(60))), 0);
    }
    EXPECT_EQ(GangsTold(), 0);
  }
}

// The reasons are the scheduler's own.
TEST_F(DemandTest, FollowsTheJobsOfAScheduler) {
  CoreConfig config;
  config.min_fence_after = absl::Seconds(1);
  CoreHarness harness(config);
  FakeExecutor executor("local", 2, 4000, &harness);
  executor.Connect();
  DemandBook book{DemandConfig()};
  book.Reset(harness.jobs(), harness.now());
  const auto pass = [&](absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= kStep) {
      executor.Renew();
      executor.Take(harness.Advance(kStep));
      for (const auto& [uid, job] : harness.jobs()) book.Update(uid, &job, harness.now());
      book.SetQueues(harness.core().model().queues, harness.now());
      book.Advance(harness.now());
    }
  };
  const auto waits = [&book] {
    std::map<std::string, int64_t> causes;
    const UnmetDemand told = book.Told("");
    for (const auto& held : told.held_back()) causes[held.cause()] = held.jobs();
    return causes;
  };
  executor.Take(harness.Submit("fits", CoreHarness::Spec(1, 4000)));
  executor.PrepareAll();
  executor.RunAll();
  executor.Take(harness.Submit("large", CoreHarness::Spec(3, 4000)));
  JobSpec after = CoreHarness::Spec(1, 1000);
  after.add_after()->set_job("fits");
  executor.Take(harness.Submit("after", after));
  pass(absl::Seconds(29));
  EXPECT_EQ(waits(), (std::map<std::string, int64_t>{{"DEPENDENCY", 1}, {"TOO_NEW", 1}}));
  pass(absl::Seconds(2));
  ASSERT_EQ(book.Told("").classes_size(), 1);
  EXPECT_EQ(book.Told("").classes(0).largest_job(), "projects/p/jobs/large");
  EXPECT_EQ(book.Told("").classes(0).tasks(), 3);
  EXPECT_EQ(waits(), (std::map<std::string, int64_t>{{"DEPENDENCY", 1}}));
  UpdateQueue hold;
  hold.call = harness.next_call();
  hold.queue_id = "default";
  hold.queue.set_hold(true);
  hold.update_mask.add_paths("hold");
  executor.Take(harness.Apply(hold));
  pass(absl::Seconds(1));
  EXPECT_EQ(book.Told("").classes_size(), 0);
  EXPECT_EQ(waits(), (std::map<std::string, int64_t>{{"DEPENDENCY", 1}, {"QUEUE_HELD", 1}}));
}

}  // namespace
}  // namespace capstan::scheduler
