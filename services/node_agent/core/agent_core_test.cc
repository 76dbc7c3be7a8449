#include "services/node_agent/core/agent_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/node_agent/core/agent_bench.h"
#include "services/node_agent/core/deadline.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

const TaskId kA{"job", 1, "w", 0};

// Brings kA to PREPARED, answering all that is asked.
void PrepareA(AgentBench& bench, bool output = true) {
  bench.Connect();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, output)});
  bench.AnswerAll();
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
}

void RunA(AgentBench& bench, bool output = true) {
  PrepareA(bench, output);
  bench.Confirm();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, output)});
  bench.AnswerAll();
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_STARTING);
  bench.Shim(kA, 77);
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_RUNNING);
}

TEST(AgentCoreTest, PrepareOpensTheOutputBeforeAnythingElse) {
  AgentBench bench;
  PrepareA(bench);
  EXPECT_EQ(bench.asked,
            (std::vector<std::string>{"OpenOutput", "PinBundle", "PinVersion", "MakePlace",
                                      "Furnish", "IssueIdentity", "CheckPorts"}));
  const auto last = bench.LastReport(kA);
  EXPECT_EQ(last.state(), capstan::type::v1::TaskObservation::STATE_PREPARED);
  EXPECT_EQ(last.ports().count("master"), 1u);
  EXPECT_EQ(last.host(), "10.0.0.1");
}

TEST(AgentCoreTest, SupersededGenerationFailsPrepareAndAsksNothingMore) {
  AgentBench bench;
  bench.Connect();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, true)});
  bench.AnswerNext(absl::FailedPreconditionError("a higher generation is open"));
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_PREPARE_FAILED);
  EXPECT_EQ(bench.asked, (std::vector<std::string>{"OpenOutput"}));
}

TEST(AgentCoreTest, AnIdentityIsAskedForHalfAMinuteLong) {
  AgentBench bench;
  bench.Connect();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false)});
  while (bench.pending.front().name != "IssueIdentity") bench.AnswerNext(absl::OkStatus());
  const BootTime first = bench.now.boot;
  while (bench.Stage(kA) == TaskRecord::STAGE_PREPARING && !bench.pending.empty() &&
         bench.pending.front().name == "IssueIdentity") {
    bench.AnswerNext(absl::UnavailableError("credentials is away"));
    if (!bench.pending.empty()) break;
    EXPECT_EQ(bench.LastReport(kA).progress(), "credentials is away");
    bench.Advance(absl::Seconds(15));
    bench.Apply(Tick{});
  }
  EXPECT_GE(bench.now.boot - first, absl::Seconds(30));
  bench.AnswerAll();
  // No outage of credentials stops a Job.
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
  EXPECT_EQ(bench.core->tasks().at(kA).record.svid_directory(), "");
}

TEST(AgentCoreTest, ARefusedIdentityIsNotAskedForAgain) {
  AgentBench bench;
  bench.Connect();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false)});
  while (bench.pending.front().name != "IssueIdentity") bench.AnswerNext(absl::OkStatus());
  bench.AnswerNext(absl::PermissionDeniedError("no"));
  ASSERT_FALSE(bench.pending.empty());
  EXPECT_EQ(bench.pending.front().name, "CheckPorts");
}

DesiredTask WithInstance(DesiredTask task, int gpu, int start) {
  task.mutable_launch()->mutable_mig_instance()->set_gpu(gpu);
  task.mutable_launch()->mutable_mig_instance()->set_model("H100-80GB");
  task.mutable_launch()->mutable_mig_instance()->set_profile("1g.10gb");
  task.mutable_launch()->mutable_mig_instance()->set_start(start);
  return task;
}

TEST(AgentCoreTest, AMigInstanceIsMadeWithTheTaskAndRemovedBeforeItsEndIsTold) {
  AgentBench bench;
  bench.Connect();
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false), 1, 4)});
  while (bench.pending.front().name != "MakeMigInstance") bench.AnswerNext(absl::OkStatus());
  // What had its place before is still ending: it waits, however long.
  for (int i = 0; i < 8; ++i) {
    bench.AnswerNext(absl::UnavailableError("another Task still has its place"));
    EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARING);
    bench.Advance(absl::Minutes(1));
    bench.Apply(Tick{});
    ASSERT_FALSE(bench.pending.empty());
  }
  bench.AnswerAll();
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
  EXPECT_EQ(bench.core->tasks().at(kA).record.mig_device(), "MIG-x");
  bench.Restart(true);
  bench.Connect();
  EXPECT_EQ(bench.core->tasks().at(kA).record.mig_device(), "MIG-x");
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_STOP, false), 1, 4)});
  ASSERT_FALSE(bench.pending.empty());
  EXPECT_EQ(bench.pending.front().name, "RemoveMigInstance");
  EXPECT_NE(bench.LastReport(kA).state(), capstan::type::v1::TaskObservation::STATE_ENDED);
  bench.AnswerNext(absl::UnavailableError("the driver is busy"));
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_ENDING);
  bench.Restart(true);
  ASSERT_FALSE(bench.pending.empty());
  EXPECT_EQ(bench.pending.front().name, "RemoveMigInstance");
  bench.Connect();
  bench.AnswerAll();
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_ENDED);
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_STOPPED);
}

TEST(AgentCoreTest, AGpuThatIsNotThereFailsPrepare) {
  AgentBench bench;
  bench.Connect();
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false), 7, 0)});
  while (bench.pending.front().name != "MakeMigInstance") bench.AnswerNext(absl::OkStatus());
  bench.AnswerNext(absl::FailedPreconditionError("the Node has no GPU 7 in MIG mode"));
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_PREPARE_FAILED);
  EXPECT_EQ(bench.End(kA).message(), "the Node has no GPU 7 in MIG mode");
}

TEST(AgentCoreTest, TheInstancesOfOthersAreNotInAnyonesWay) {
  const TaskId b{kA.job_uid, kA.generation, kA.group, kA.index + 1};
  AgentBench bench;
  bench.Connect();
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false), 0, 0)});
  bench.AnswerAll();
  EXPECT_TRUE(bench.mig_others.empty());
  bench.Order({WithInstance(AgentBench::Want(b, DesiredTask::PHASE_PREPARE, false), 0, 1)});
  bench.AnswerAll();
  ASSERT_EQ(bench.mig_others.size(), 1u);
  EXPECT_EQ(bench.mig_others[0].start(), 0);
}

TEST(AgentCoreTest, ATaskThatEndsLeavesAnInstanceThatAnotherHas) {
  const TaskId b{"other", 1, "w", 0};
  AgentBench bench;
  bench.Connect();
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false), 0, 0)});
  bench.AnswerAll();
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
  // Its place was given away as if kA were over; it waits, and is told to end.
  bench.Order({WithInstance(AgentBench::Want(b, DesiredTask::PHASE_PREPARE, false), 0, 0)});
  while (bench.pending.front().name != "MakeMigInstance") bench.AnswerNext(absl::OkStatus());
  bench.AnswerNext(absl::UnavailableError("another Task still has its place"));
  bench.asked.clear();
  bench.Order({WithInstance(AgentBench::Want(b, DesiredTask::PHASE_STOP, false), 0, 0)});
  bench.AnswerAll();
  EXPECT_EQ(bench.Stage(b), TaskRecord::STAGE_ENDED);
  EXPECT_EQ(std::count(bench.asked.begin(), bench.asked.end(), "RemoveMigInstance"), 0);
  bench.Order({WithInstance(AgentBench::Want(kA, DesiredTask::PHASE_STOP, false), 0, 0)});
  bench.AnswerAll();
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_ENDED);
  EXPECT_EQ(std::count(bench.asked.begin(), bench.asked.end(), "RemoveMigInstance"), 1);
}

DesiredTask Granted(DesiredTask task, absl::Time signed_at) {
  capstan::type::v1::Placement placement;
  *placement.mutable_sign_time() = capstan::ToProto(signed_at);
  task.mutable_grant()->set_placement(placement.SerializeAsString());
  return task;
}

TEST(AgentCoreTest, TheGrantOfAnOrderIsShownFromBeginningToEnd) {
  const absl::Time then = absl::FromUnixSeconds(1'800'000'000);
  const DesiredTask prepare = AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, true);
  AgentBench bench;
  bench.Connect();
  bench.Order({Granted(prepare, then)});
  const std::string first = Granted(prepare, then).grant().SerializeAsString();
  ASSERT_EQ(bench.grants[kA].grant, first);
  EXPECT_EQ(bench.grants[kA].job, "projects/p/jobs/j");
  // Signed anew with each session: nothing is written for that.
  bench.grants.clear();
  bench.Order({Granted(prepare, then + absl::Hours(1))});
  EXPECT_TRUE(bench.grants.empty());
  bench.AnswerAll();
  // An agent that begins anew shows it again.
  bench.Restart(true);
  EXPECT_EQ(bench.grants[kA].grant, first);
  // In time it is replaced.
  bench.Connect();
  bench.Order({Granted(prepare, then + absl::Hours(24 * 31))});
  EXPECT_NE(bench.grants[kA].grant, first);
}

TEST(AgentCoreTest, AnOrderFromBeforeTheUpgradeGetsItsGrantLater) {
  const DesiredTask prepare = AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, true);
  AgentBench bench;
  bench.Connect();
  bench.Order({prepare});
  EXPECT_TRUE(bench.grants.empty());
  bench.Order({Granted(prepare, absl::FromUnixSeconds(1'800'000'000))});
  EXPECT_EQ(bench.grants.count(kA), 1u);
}

TEST(AgentCoreTest, UnavailableLoaderIsAskedAgainAndAStopDoesNotWaitForIt) {
  AgentBench bench;
  bench.Connect();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, true)});
  bench.AnswerNext(absl::UnavailableError("loader is away"));
  EXPECT_EQ(bench.LastReport(kA).progress(), "loader is away");
  EXPECT_TRUE(bench.pending.empty());
  bench.Advance(absl::Seconds(1));
  bench.Apply(Tick{});
  EXPECT_EQ(bench.pending.size(), 1u);
  bench.AnswerNext(absl::UnavailableError("loader is away"));
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_STOP, true)});
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_STOPPED);
}

TEST(AgentCoreTest, PortsInUseAreChosenAnew) {
  AgentBench bench;
  bench.Connect();
  bench.taken_ports.insert(20000);
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false)});
  bench.AnswerAll();
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
  EXPECT_EQ(bench.LastReport(kA).ports().at("master"), 20001);
}

TEST(AgentCoreTest, PortTakenBetweenPrepareAndStart) {
  AgentBench bench;
  PrepareA(bench);
  bench.Confirm();
  bench.taken_ports.insert(20000);
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, true)});
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN);
  EXPECT_EQ(bench.starts[kA], 0);
}

TEST(AgentCoreTest, NothingStartsWithoutAConfirmation) {
  AgentBench bench;
  PrepareA(bench);
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, true)});
  bench.AnswerAll();
  EXPECT_EQ(bench.starts[kA], 0);
  bench.Confirm();
  bench.AnswerAll();
  EXPECT_EQ(bench.starts[kA], 1);
}

TEST(AgentCoreTest, StartWithoutAPrepareHereIsLost) {
  AgentBench bench;
  bench.Connect();
  bench.Confirm();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, true)});
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_LOST);
  EXPECT_TRUE(bench.pending.empty());
}

TEST(AgentCoreTest, SuccessIsReportedOnlyAfterTheOutputIsCommitted) {
  AgentBench bench;
  RunA(bench);
  bench.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 0);
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_ENDING);
  EXPECT_NE(bench.LastReport(kA).state(), capstan::type::v1::TaskObservation::STATE_ENDED);
  bench.AnswerNext(absl::UnavailableError("loader is away"));
  bench.Advance(absl::Seconds(2));
  bench.Apply(Tick{});
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(bench.LastReport(kA).state(), capstan::type::v1::TaskObservation::STATE_ENDED);
}

TEST(AgentCoreTest, RefusedCommitIsOutputFailed) {
  AgentBench bench;
  RunA(bench);
  bench.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 0);
  bench.AnswerNext(absl::FailedPreconditionError("a higher generation is open"));
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_OUTPUT_FAILED);
}

TEST(AgentCoreTest, FailureAndExit98NeedNoCommit) {
  AgentBench failed;
  RunA(failed);
  failed.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 3);
  EXPECT_EQ(failed.End(kA).exit_code(), 3);
  AgentBench taken;
  RunA(taken);
  taken.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 98);
  EXPECT_EQ(taken.End(kA).cause(), TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN);
}

TEST(AgentCoreTest, DeadlineIsEnforcedOnTheCgroupAlsoIfTheShimSaysNothing) {
  AgentBench bench;
  RunA(bench);
  const BootTime kill = *bench.core->KillTime(bench.core->tasks().at(kA));
  EXPECT_EQ(*bench.core->NextDeadline() <= kill, true);
  bench.now.boot = kill - absl::Nanoseconds(1);
  bench.Apply(Tick{});
  EXPECT_EQ(bench.kills[kA], 0);
  bench.now.boot = kill;
  bench.Apply(Tick{});
  EXPECT_EQ(bench.kills[kA], 1);
  EXPECT_NE(bench.LastReport(kA).state(), capstan::type::v1::TaskObservation::STATE_ENDED);
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_FENCED);
}

TEST(AgentCoreTest, AShimThatTakesUpNoLaterDeadlineLosesItsTask) {
  AgentBench bench;
  RunA(bench);
  const BootTime kept = *bench.core->KillTime(bench.core->tasks().at(kA));
  capstan::nodeagent::v1::ShimStatus status;
  status.set_shim_pid(77);
  status.set_deadline_boottime_ns(kept.ToNanoseconds());
  bench.Apply(ShimReported{kA, status});
  bench.Advance(absl::Seconds(20));
  bench.Confirm(absl::ZeroDuration());
  EXPECT_EQ(*bench.core->KillTime(bench.core->tasks().at(kA)), kept);
  bench.now.boot = kept;
  bench.Apply(Tick{});
  EXPECT_EQ(bench.kills[kA], 1);
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_FENCED);
  EXPECT_NE(bench.End(kA).message().find("shim"), std::string::npos);
}

TEST(AgentCoreTest, RenewalRaisesTheDeadlineByTheAgeAnswered) {
  AgentBench bench;
  RunA(bench);
  bench.Advance(absl::Seconds(20));
  bench.Confirm(absl::Seconds(5));
  const auto deadline =
      FenceDeadline(bench.core->tasks().at(kA).order.launch(), bench.now.boot - absl::Seconds(5));
  EXPECT_EQ(bench.deadlines[kA], *deadline);
  // An older answer changes nothing.
  bench.Confirm(absl::Seconds(15));
  EXPECT_EQ(bench.deadlines[kA], *deadline);
}

TEST(AgentCoreTest, StopGivesGraceThenKills) {
  AgentBench bench;
  RunA(bench);
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_STOP, true, absl::Seconds(7))});
  EXPECT_TRUE(bench.stops.count(kA));
  bench.Advance(absl::Seconds(7));
  bench.Apply(Tick{});
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_STOPPED);
}

TEST(AgentCoreTest, RunningTaskIsAdoptedAfterARestartAndNotStartedAgain) {
  AgentBench bench;
  RunA(bench);
  bench.Restart(true);
  EXPECT_EQ(bench.Stage(kA), TaskRecord::STAGE_RUNNING);
  bench.Connect();
  bench.AnswerAll();
  EXPECT_EQ(bench.starts[kA], 1);
  bench.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 1);
  EXPECT_EQ(bench.End(kA).exit_code(), 1);
}

TEST(AgentCoreTest, StartThatMayHaveBeenIsNeverTriedAgain) {
  AgentBench bench;
  PrepareA(bench);
  bench.Confirm();
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, true)});
  bench.AnswerNext(absl::OkStatus());  // the ports
  ASSERT_EQ(bench.starts[kA], 1);
  bench.Restart(true);
  bench.AnswerAll();
  EXPECT_EQ(bench.starts[kA], 1);
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_LOST);
}

TEST(AgentCoreTest, AnotherBootIsLost) {
  AgentBench bench;
  RunA(bench);
  bench.boot_id = "boot-2";
  bench.Restart(false);
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_LOST);
  EXPECT_EQ(bench.core->confirmed_at(), absl::nullopt);
}

TEST(AgentCoreTest, ShimThatDiedIsLostOnceTheCgroupIsEmpty) {
  AgentBench bench;
  RunA(bench);
  bench.Shim(kA, 0);
  EXPECT_EQ(bench.kills[kA], 1);
  bench.AnswerAll();
  EXPECT_EQ(bench.End(kA).cause(), TaskEnd::CAUSE_LOST);
}

TEST(AgentCoreTest, OrphanIsEndedOnlyAfterSyncComplete) {
  AgentBench bench;
  bench.machine[kA] = AgentBench::OnMachine{true, 55};
  bench.store.clear();
  bench.Restart(true);
  EXPECT_EQ(bench.kills[kA], 0);
  bench.Connect();
  bench.Order({}, true, false);
  EXPECT_EQ(bench.kills[kA], 0);
  bench.Order({}, true, true);
  EXPECT_EQ(bench.kills[kA], 1);
  bench.AnswerAll();
  EXPECT_EQ(bench.core->tasks().count(kA), 0u);
  EXPECT_EQ(bench.gone, std::set<TaskId>{kA});
}

TEST(AgentCoreTest, UnnamedTasksAreEndedWithinTheBreaker) {
  for (const int count : {10, 11}) {
    AgentBench bench;
    bench.Connect();
    std::vector<DesiredTask> orders;
    for (int i = 0; i < count; ++i) {
      orders.push_back(
          AgentBench::Want(TaskId{"job", 1, "w", i}, DesiredTask::PHASE_PREPARE, false));
    }
    bench.Order(orders);
    bench.AnswerAll();
    bench.Order({}, true, true);
    EXPECT_EQ(bench.alarms.count("BREAKER_TRIPPED"), count > 10 ? 1u : 0u);
    EXPECT_EQ(bench.Stage(TaskId{"job", 1, "w", 0}) == TaskRecord::STAGE_PREPARED, count > 10);
  }
}

TEST(AgentCoreTest, ForgottenTaskLeavesOnlyAfterItsLogIsShipped) {
  AgentBench bench;
  RunA(bench);
  bench.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 1);
  bench.Forget(kA);
  EXPECT_TRUE(bench.pending.empty());
  bench.Apply(LogsShipped{kA});
  bench.AnswerAll();
  EXPECT_EQ(bench.core->tasks().size(), 0u);
  EXPECT_EQ(bench.asked.back(), "ReleasePins");
  EXPECT_EQ(bench.gone, std::set<TaskId>{kA});
  // Of one that is not here it is said at once.
  const TaskId other{"job", 1, "w", 5};
  bench.Forget(other);
  EXPECT_EQ(bench.gone.count(other), 1u);
}

TEST(AgentCoreTest, LowerTokenIsRefusedAlsoAfterARestart) {
  AgentBench bench;
  bench.Connect();
  bench.epoch = 9;
  bench.Order({});
  bench.Restart(false);
  bench.Connect();
  bench.epoch = 8;
  bench.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, true)});
  EXPECT_FALSE(bench.core->up_connected());
  EXPECT_EQ(bench.core->tasks().size(), 0u);
}

TEST(AgentCoreTest, StopAllEndsEverythingRemovesItAndTakesNothingNew) {
  AgentBench bench;
  RunA(bench);
  bench.Apply(StopAll{});
  EXPECT_TRUE(bench.stops.count(kA));
  bench.ShimEnd(kA, TaskEnd::CAUSE_STOPPED, 0);
  bench.Apply(LogsShipped{kA});
  bench.AnswerAll();
  EXPECT_TRUE(bench.core->AllRemoved());
  const TaskId other{"job2", 1, "w", 0};
  bench.Order({AgentBench::Want(other, DesiredTask::PHASE_PREPARE, true)});
  EXPECT_EQ(bench.End(other).cause(), TaskEnd::CAUSE_STOPPED);
}

TEST(AgentCoreTest, CheckpointsAreTakenOnlyFromBelowTheOutput) {
  AgentBench bench;
  RunA(bench);
  bench.Apply(CheckpointAsked{kA, 1, "ckpt/step-1", 1});
  EXPECT_EQ(bench.checkpoints.back(), "/site/job/1/w-0/ckpt/step-1");
  bench.Apply(CheckpointAsked{kA, 2, "/site/job/1/w-0/x", 2});
  EXPECT_EQ(bench.checkpoints.back(), "/site/job/1/w-0/x");
  for (const char* bad : {"", ".", "..", "a/../../b", "/etc", "/site/job/1/w-00/x", "/"}) {
    const size_t before = bench.checkpoints.size();
    bench.Apply(CheckpointAsked{kA, 3, bad, 3});
    EXPECT_EQ(bench.checkpoints.size(), before) << bad;
  }
}

TEST(DeadlineTest, NeverPastFenceAfterAndRoomForTheGrace) {
  for (const absl::Duration fence : {absl::Seconds(2), absl::Minutes(1), absl::Hours(24)}) {
    capstan::type::v1::TaskLaunch launch;
    *launch.mutable_fence_after() = session::ToProto(fence);
    *launch.mutable_stop_grace() = session::ToProto(absl::Hours(1));
    const BootTime at = BootTime::FromNanoseconds(1'000'000'000'000);
    EXPECT_LT(*FenceDeadline(launch, at), at + fence);
    EXPECT_GT(*FenceDeadline(launch, at) - FenceGrace(launch), at + fence / 2);
  }
  EXPECT_EQ(FenceDeadline(capstan::type::v1::TaskLaunch(), absl::nullopt), absl::nullopt);
}

}  // namespace
}  // namespace capstan::node_agent
