#include "services/node_agent/core/shim_deadline.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimControl;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

BootTime At(double seconds) { return BootTime() + absl::Seconds(seconds); }

ShimControl Deadline(double seconds) {
  ShimControl control;
  control.set_deadline_boottime_ns(At(seconds).ToNanoseconds());
  return control;
}

ShimControl StopAt(double deadline, double asked, int64_t grace,
                   Stop::Reason reason = Stop::REASON_CANCELLED) {
  ShimControl control = Deadline(deadline);
  control.set_stop_boottime_ns(At(asked).ToNanoseconds());
  control.mutable_stop()->set_reason(reason);
  control.mutable_stop()->mutable_grace()->set_seconds(grace);
  return control;
}

ProgramEnd Exited(int code) {
  ProgramEnd end;
  end.code = code;
  return end;
}

ProgramEnd Signaled(int signal) {
  ProgramEnd end;
  end.signaled = true;
  end.code = signal;
  return end;
}

constexpr ShimActions kNothing{};
constexpr ShimActions kTerminate{true, false};
constexpr ShimActions kKill{false, true};
constexpr ShimActions kBoth{true, true};

TEST(ShimDeadlineTest, TerminatesBeforeAndKillsAtTheDeadline) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.NextTick(), At(90));
  EXPECT_EQ(shim.OnTick(At(89.9)), kNothing);
  EXPECT_EQ(shim.OnTick(At(90)), kTerminate);
  EXPECT_EQ(shim.NextTick(), At(100));
  EXPECT_EQ(shim.OnTick(At(99)), kNothing) << "each action is given once";
  EXPECT_EQ(shim.OnTick(At(100)), kKill);
  EXPECT_EQ(shim.NextTick(), absl::nullopt);
  EXPECT_EQ(shim.OnTick(At(200)), kNothing);
  EXPECT_EQ(shim.Classify({}).cause(), TaskEnd::CAUSE_FENCED);
}

TEST(ShimDeadlineTest, AShimThatSleptPastItsDeadlineKillsAtOnce) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.OnTick(At(500)), kBoth);
}

TEST(ShimDeadlineTest, IsRaisedButNeverLowered) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.OnControl(Deadline(200), At(1)), kNothing);
  EXPECT_EQ(shim.KillTime(), At(200));
  EXPECT_EQ(shim.OnControl(Deadline(50), At(60)), kNothing);
  EXPECT_EQ(shim.KillTime(), At(200));
}

TEST(ShimDeadlineTest, ARaiseThatComesAfterTerminationIsTooLate) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.OnControl(Deadline(300), At(95)), kTerminate);
  EXPECT_EQ(shim.KillTime(), At(100));
  EXPECT_EQ(shim.OnTick(At(100)), kKill);
}

TEST(ShimDeadlineTest, StopTerminatesNowAndKillsAtTheEndOfItsGrace) {
  ShimDeadline shim(At(1000), absl::Seconds(10));
  EXPECT_EQ(shim.OnControl(StopAt(1000, 20, 30), At(21)), kTerminate);
  EXPECT_EQ(shim.NextTick(), At(50));
  EXPECT_EQ(shim.OnControl(StopAt(1000, 20, 30), At(22)), kNothing);
  EXPECT_EQ(shim.OnTick(At(50)), kKill);
  EXPECT_EQ(shim.Classify({}).cause(), TaskEnd::CAUSE_STOPPED);
}

TEST(ShimDeadlineTest, StopNeverOutlivesTheDeadline) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.OnControl(StopAt(100, 20, 3600), At(20)), kTerminate);
  EXPECT_EQ(shim.KillTime(), At(100));
}

TEST(ShimDeadlineTest, ASecondStopOnlyBringsTheKillForward) {
  ShimDeadline shim(At(1000), absl::Seconds(10));
  shim.OnControl(StopAt(1000, 20, 30), At(20));
  EXPECT_EQ(shim.OnControl(StopAt(1000, 25, 300), At(25)), kNothing);
  EXPECT_EQ(shim.KillTime(), At(50));
  EXPECT_EQ(shim.OnControl(StopAt(1000, 26, 0), At(26)), kKill);
}

TEST(ShimDeadlineTest, AStopDatedInTheFutureCountsFromNow) {
  ShimDeadline shim(At(1000), absl::Seconds(10));
  shim.OnControl(StopAt(1000, 900, 5), At(20));
  EXPECT_EQ(shim.KillTime(), At(25));
}

TEST(ShimDeadlineTest, NegativeGracesAreNone) {
  ShimDeadline shim(At(100), absl::Seconds(-10));
  EXPECT_EQ(shim.NextTick(), At(100));
  EXPECT_EQ(shim.OnControl(StopAt(100, 20, -5), At(20)), kBoth);
}

TEST(ShimDeadlineTest, TheCauseIsWhatHadBeenDoneWhenTheProgramEnded) {
  ShimDeadline shim(At(100), absl::Seconds(10));
  EXPECT_EQ(shim.Classify(Exited(3)).exit_code(), 3);
  EXPECT_EQ(shim.Classify(Exited(3)).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(shim.Classify(Signaled(11)).cause(), TaskEnd::CAUSE_SIGNALED);
  EXPECT_EQ(shim.Classify(Signaled(11)).signal(), 11);
  ProgramEnd program = Signaled(9);
  program.out_of_memory_kills = 1;
  EXPECT_EQ(shim.Classify(program).cause(), TaskEnd::CAUSE_OUT_OF_MEMORY);
  program.signaled = false;
  program.code = 0;
  EXPECT_EQ(shim.Classify(program).cause(), TaskEnd::CAUSE_EXITED)
      << "a Task that got over a lost child has succeeded";
  program = Signaled(9);
  program.killed_by_agent = true;
  EXPECT_EQ(shim.Classify(program).cause(), TaskEnd::CAUSE_FENCED);
  program = ProgramEnd();
  program.exec_failed = true;
  program.message = "no such file";
  EXPECT_EQ(shim.Classify(program).cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_EQ(shim.Classify(program).message(), "no such file");
  shim.OnControl(StopAt(100, 1, 5), At(1));
  EXPECT_EQ(shim.Classify(Exited(0)).cause(), TaskEnd::CAUSE_STOPPED);
}

// Whatever the agent writes, in whatever order: the kill is given by the highest deadline that came
// in time, never before SIGTERM, and following NextTick alone is enough.
TEST(ShimDeadlineTest, PropertyAlwaysDeadByTheHighestDeadlineAsked) {
  Random random(20261121);
  for (int round = 0; round < 2000; ++round) {
    double now = 0;
    double highest = 1 + static_cast<double>(random.Below(100));
    ShimDeadline shim(At(highest), absl::Seconds(random.Between(0, 29)));
    bool terminated = false, killed = false;
    const auto take = [&](ShimActions actions) {
      EXPECT_FALSE(actions.terminate && terminated);
      EXPECT_FALSE(actions.kill && killed);
      terminated |= actions.terminate;
      EXPECT_TRUE(terminated || !actions.kill);
      killed |= actions.kill;
    };
    for (int step = 0; step < 20; ++step) {
      now += static_cast<double>(random.Below(1000)) / 100;
      // What a timer would have done in between.
      while (shim.NextTick().has_value() && *shim.NextTick() <= At(now)) {
        take(shim.OnTick(*shim.NextTick()));
      }
      const BootTime before = shim.KillTime();
      const double deadline = static_cast<double>(random.Below(300));
      const bool stop = random.Below(10) == 0;
      take(shim.OnControl(stop ? StopAt(deadline, now, random.Between(0, 39)) : Deadline(deadline),
                          At(now)));
      highest = std::max(highest, deadline);
      EXPECT_LE(shim.KillTime(), At(highest));
      EXPECT_TRUE(stop || shim.KillTime() >= before);
      EXPECT_EQ(killed, !shim.NextTick().has_value());
      EXPECT_EQ(terminated, shim.ending());
    }
    take(shim.OnTick(At(1e6)));
    EXPECT_TRUE(killed);
  }
}

}  // namespace
}  // namespace capstan::node_agent
