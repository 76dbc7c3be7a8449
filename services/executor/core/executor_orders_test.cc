// Random orders of everything that can happen to an executor's core, with restarts. Truth is kept
// beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "libs/random/random.h"
#include "services/executor/core/executor_bench.h"

namespace capstan::executor {
namespace {

class RandomOrders : public testing::TestWithParam<int> {};

TEST_P(RandomOrders, KeepThePromises) {
  Random random(GetParam());
  Bench bench;
  SessionId next = 1;
  SessionId up = 0;
  int64_t epoch = 5;
  int64_t highest_seen = 0;
  std::map<std::string, SessionId> agents;
  // Send time of each renewal of the open session, and the newest that was answered in this life.
  std::map<int64_t, BootTime> renewals;
  absl::optional<BootTime> confirmed;
  std::map<TaskId, TaskObservation::State> seen;
  const auto note = [&](const std::vector<Effect>& effects) {
    for (const SendUp& send : Of<SendUp>(effects)) {
      if (send.message.has_renewal()) {
        renewals[send.message.renewal().sequence()] = bench.now_.boot;
      }
      for (const auto& task : send.message.observations().tasks()) {
        auto& before = seen[TaskId::Of(task.key())];
        EXPECT_GE(task.state(), before) << "states only move forward";
        before = task.state();
      }
    }
    for (const SendAgent& send : Of<SendAgent>(effects)) {
      if (send.message.has_renewal_answer()) {
        ASSERT_TRUE(confirmed.has_value());
        EXPECT_GE(session::FromProto(send.message.renewal_answer().confirmation_age()),
                  bench.now_.boot - *confirmed)
            << "an age less than the truth";
      }
      for (const auto& task : send.message.desired().tasks()) {
        EXPECT_GT(task.unix_uid(), 0);
        // Erased since, if the Node's first report did not name it.
        if (bench.core_->tasks().Find(TaskId::Of(task.key())) != nullptr) {
          EXPECT_EQ(task.unix_uid(), bench.core_->tasks().Uid(task.key().job_uid()));
        }
        if (seen[TaskId::Of(task.key())] == TaskObservation::STATE_ENDED) {
          EXPECT_EQ(task.phase(), DesiredTask::PHASE_STOP) << "an ended Task ordered to begin";
        }
      }
    }
    if (!Of<CloseUp>(effects).empty()) up = 0;
    for (const CloseAgent& close : Of<CloseAgent>(effects)) {
      std::erase_if(agents, [&](const auto& agent) { return agent.second == close.session; });
    }
  };
  for (int i = 0; i < 400; ++i) {
    const std::string node = random.OneIn(2) ? "n1" : "n2";
    const int index = static_cast<int>(random.Below(4));
    const TaskId id{random.OneIn(2) ? "ja" : "jb", random.Between(int64_t{1}, int64_t{2}),
                    node == "n1" ? "a" : "b", index};
    const SessionId agent = agents.count(node) != 0 ? agents[node] : 0;
    switch (random.Below(11)) {
      case 0:
        up = next++;
        renewals.clear();
        note(bench.Apply(UpConnected{up}));
        break;
      case 1:
        agents[node] = next;
        note(bench.ConnectAgent(next++, node));
        break;
      case 2:
      case 3:
        if (up != 0) {
          const auto phase =
              static_cast<DesiredTask::Phase>(random.Between(int64_t{1}, int64_t{3}));
          const int64_t token = random.OneIn(10) ? epoch - 1 : epoch;
          highest_seen = std::max(highest_seen, token);
          // What was forgotten by all begins anew.
          if (bench.core_->tasks().Find(id) == nullptr) seen.erase(id);
          note(bench.Desire(up, token, {Want(id, node, phase)}, random.OneIn(6)));
        }
        break;
      case 4:
        if (up != 0) note(bench.Desire(up, epoch, {}, false, {id}));
        highest_seen = up != 0 ? std::max(highest_seen, epoch) : highest_seen;
        break;
      case 5:
        if (agent != 0 && bench.core_->tasks().Find(id) != nullptr) {
          note(bench.Report(agent, {Saw(id, static_cast<TaskObservation::State>(
                                                random.Between(int64_t{1}, int64_t{4})))}));
        }
        break;
      case 6:
        if (agent != 0) note(bench.Report(agent, {}, {id}));
        break;
      case 7:
        if (agent != 0) note(bench.RenewAgent(agent));
        break;
      case 8:
        if (up != 0 && !renewals.empty()) {
          const auto renewal = renewals.begin();
          if (!confirmed.has_value() || *confirmed < renewal->second) confirmed = renewal->second;
          const int64_t sequence = renewal->first;
          renewals.erase(renewal);
          bench.AnswerRenewal(up, sequence, epoch);
          highest_seen = std::max(highest_seen, epoch);
        }
        break;
      case 9:
        bench.Advance(random.Between(absl::ZeroDuration(), absl::Seconds(8)));
        note(bench.Apply(Tick{}));
        break;
      default:
        if (random.OneIn(4)) {
          bench.Restart();
          agents.clear();
          renewals.clear();
          confirmed.reset();
          up = 0;
        } else if (random.OneIn(4)) {
          ++epoch;
        }
        break;
    }
    EXPECT_GE(bench.core_->highest_token().leader_epoch(), highest_seen - 1);
    std::set<int64_t> uids;
    for (const auto& [job, uid] : bench.core_->tasks().uids()) {
      EXPECT_TRUE(uids.insert(uid).second) << "two Jobs with one uid";
    }
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOrders, testing::Range(1, 41));

}  // namespace
}  // namespace capstan::executor
