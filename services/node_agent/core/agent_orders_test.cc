// Random orders of everything that can happen to an agent's core; AgentBench checks each step.
#include <gtest/gtest.h>

#include <algorithm>

#include "libs/random/random.h"
#include "services/node_agent/core/agent_bench.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;

class RandomOrders : public testing::TestWithParam<int> {};

TEST_P(RandomOrders, KeepThePromises) {
  Random random(GetParam());
  AgentBench bench;
  int64_t generation = 1;
  for (int i = 0; i < 300; ++i) {
    const TaskId id{"job", random.Between(std::max<int64_t>(1, generation - 1), generation), "w",
                    static_cast<int32_t>(random.Below(3))};
    const auto task = bench.core->tasks().find(id);
    const bool running = task != bench.core->tasks().end() &&
                         (task->second.record.stage() == AgentCore::TaskRecord::STAGE_STARTING ||
                          task->second.record.stage() == AgentCore::TaskRecord::STAGE_RUNNING);
    const bool connected = bench.core->up_connected();
    // An executor never wants again what it forgot, or was told is gone.
    const bool fresh =
        bench.gone.count(id) == 0 &&
        (task != bench.core->tasks().end() ||
         bench.LastReport(id).state() != capstan::type::v1::TaskObservation::STATE_ENDED);
    switch (random.Below(14)) {
      case 0:
        bench.Connect();
        break;
      case 1:
      case 2:
      case 3:
        if (connected && fresh) {
          const auto phase = static_cast<DesiredTask::Phase>(
              random.OneIn(5) ? 3 : random.Between(int64_t{1}, int64_t{2}));
          bench.Order({AgentBench::Want(id, phase, random.OneIn(2))});
        }
        break;
      case 4:
        if (connected && fresh && random.OneIn(3)) {
          bench.Order({AgentBench::Want(id, DesiredTask::PHASE_PREPARE, true)}, true,
                      random.OneIn(2));
        }
        break;
      case 5:
        if (connected && random.OneIn(3)) bench.Forget(id);
        break;
      case 6:
        if (connected && !bench.renewals.empty()) {
          auto renewal = bench.renewals.begin();
          std::advance(renewal, random.Below(bench.renewals.size()));
          bench.Answer(renewal->first, random.Between(absl::ZeroDuration(), absl::Seconds(5)));
        }
        break;
      case 7:
      case 8:
      case 9:
        if (!bench.pending.empty()) {
          bench.AnswerNext(random.OneIn(6) ? absl::UnavailableError("away") : absl::OkStatus());
        }
        break;
      case 10:
        if (running && bench.machine[id].has_spec) {
          if (random.OneIn(3)) {
            bench.ShimEnd(id, TaskEnd::CAUSE_EXITED, static_cast<int>(random.Below(2)));
          } else {
            bench.Shim(id, random.OneIn(6) ? 0 : 77);
          }
        }
        break;
      case 11:
        bench.Advance(random.Between(absl::ZeroDuration(), absl::Seconds(12)));
        bench.Apply(Tick{});
        break;
      case 12:
        bench.Apply(LogsShipped{id});
        if (random.OneIn(4)) ++generation;
        break;
      default:
        if (random.OneIn(5)) bench.Restart(!random.OneIn(4));
        break;
    }
    // What has a process is dead by its deadline: the core has seen to it at the latest tick.
    for (const auto& [key, entry] : bench.core->tasks()) {
      const auto kill = bench.core->KillTime(entry);
      if (!kill.has_value()) continue;
      const auto next = bench.core->NextDeadline();
      ASSERT_TRUE(entry.ticket != 0 || (next.has_value() && *next <= *kill));
    }
    if (HasFailure()) {
      ADD_FAILURE() << "at step " << i;
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOrders, testing::Range(1, 61));

}  // namespace
}  // namespace capstan::node_agent
