#include "services/executor/core/executor_core.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/random/random.h"
#include "libs/session/fencing_token.h"
#include "services/executor/core/keys.h"

namespace capstan::executor {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::DesiredTasks;
using capstan::type::v1::FencingToken;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;
using session::TaskId;

FencingToken Token(int64_t epoch) {
  FencingToken token;
  token.set_store_incarnation(1);
  token.set_leader_epoch(epoch);
  return token;
}

DesiredTask Want(const TaskId& id, const std::string& node, DesiredTask::Phase phase,
                 absl::Duration fence = absl::Seconds(60)) {
  DesiredTask task;
  *task.mutable_key() = id.ToProto();
  task.set_node(node);
  task.set_phase(phase);
  *task.mutable_launch()->mutable_fence_after() = session::ToProto(fence);
  task.mutable_launch()->add_argv("/bin/true");
  if (phase == DesiredTask::PHASE_STOP) {
    task.mutable_stop()->set_reason(capstan::type::v1::Stop::REASON_CANCELLED);
  }
  return task;
}

TaskObservation Saw(const TaskId& id, TaskObservation::State state) {
  TaskObservation task;
  *task.mutable_key() = id.ToProto();
  task.set_state(state);
  if (state == TaskObservation::STATE_ENDED) task.mutable_end()->set_cause(TaskEnd::CAUSE_EXITED);
  return task;
}

// A core with the store that its steps make; checks at each step that memory and store agree.
class Bench {
 public:
  Bench() { Restart(); }

  void Restart() {
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store_) records.push_back({.key = key, .value = value});
    core_ = std::make_unique<ExecutorCore>(ExecutorCore::Load(Config(), records, now_).value());
    Apply(Started{});
  }

  static CoreConfig Config() {
    CoreConfig config;
    config.cluster = "c1";
    config.first_uid = 100;
    config.last_uid = 103;
    return config;
  }

  std::vector<Effect> Apply(const Event& event) {
    Step step = core_->Apply(event, now_);
    std::set<std::string> keys;
    for (const store::Put& put : step.puts) {
      EXPECT_TRUE(keys.insert(put.key).second) << put.key;
      store_[put.key] = put.value;
    }
    for (const store::Delete& key : step.deletes) {
      EXPECT_TRUE(keys.insert(key.key).second) << key.key;
      store_.erase(key.key);
    }
    EXPECT_EQ(core_->Snapshot(), store_);
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store_) records.push_back({.key = key, .value = value});
    const auto again = ExecutorCore::Load(Config(), records, now_);
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->Snapshot(), store_);
    return std::move(step.after);
  }

  std::vector<Effect> Desire(SessionId session, int64_t epoch,
                             const std::vector<DesiredTask>& tasks, bool snapshot,
                             const std::vector<TaskId>& forgotten = {}) {
    UpMessage message{session, {}};
    DesiredTasks* desired = message.message.mutable_desired();
    *desired->mutable_token() = Token(epoch);
    desired->set_revision(++revision_);
    desired->set_snapshot(snapshot);
    desired->set_sync_complete(snapshot);
    for (const DesiredTask& task : tasks) *desired->add_tasks() = task;
    for (const TaskId& id : forgotten) *desired->add_forgotten() = id.ToProto();
    return Apply(message);
  }

  std::vector<Effect> ConnectAgent(SessionId session, const std::string& node) {
    Apply(AgentConnected{session, node});
    AgentMessage hello{session, {}};
    hello.message.mutable_hello()->set_cluster("c1");
    hello.message.mutable_hello()->set_node(node);
    std::vector<Effect> effects = Apply(hello);
    AgentMessage report{session, {}};
    auto* observations = report.message.mutable_observations();
    observations->add_nodes()->set_node(node);
    observations->set_sync_complete(true);
    Apply(report);
    return effects;
  }

  std::vector<Effect> Report(SessionId session, const std::vector<TaskObservation>& tasks,
                             const std::vector<TaskId>& gone = {}) {
    AgentMessage report{session, {}};
    for (const auto& task : tasks) *report.message.mutable_observations()->add_tasks() = task;
    for (const auto& id : gone) *report.message.mutable_observations()->add_gone() = id.ToProto();
    report.message.mutable_observations()->set_journal_sequence(++journal_);
    return Apply(report);
  }

  std::vector<Effect> RenewAgent(SessionId session) {
    AgentMessage renewal{session, {}};
    renewal.message.mutable_renewal()->set_sequence(++renewal_);
    return Apply(renewal);
  }

  void AnswerRenewal(SessionId session, int64_t sequence, int64_t epoch) {
    UpMessage answer{session, {}};
    answer.message.mutable_renewal_answer()->set_sequence(sequence);
    *answer.message.mutable_renewal_answer()->mutable_token() = Token(epoch);
    Apply(answer);
  }

  void Acknowledge(SessionId session, int64_t sequence, const std::vector<std::string>& returned) {
    UpMessage ack{session, {}};
    ack.message.mutable_observations_ack()->set_journal_sequence(sequence);
    for (const auto& node : returned) {
      ack.message.mutable_observations_ack()->add_returned_nodes(node);
    }
    Apply(ack);
  }

  void Advance(absl::Duration d) {
    now_.boot = now_.boot + d;
    now_.wall += d;
  }

  Now now_ = {absl::FromUnixSeconds(1'700'000'000), BootTime::FromNanoseconds(1'000'000'000)};
  std::map<std::string, std::string> store_;
  std::unique_ptr<ExecutorCore> core_;
  int64_t revision_ = 0;
  int64_t journal_ = 0;
  int64_t renewal_ = 0;
};

template <typename T>
std::vector<T> Of(const std::vector<Effect>& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* value = std::get_if<T>(&effect)) found.push_back(*value);
  }
  return found;
}

bool HasAlarm(const std::vector<Effect>& effects, const std::string& reason) {
  for (const Alarm& alarm : Of<Alarm>(effects)) {
    if (alarm.reason == reason) return true;
  }
  return false;
}

absl::optional<absl::Duration> AgeIn(const std::vector<Effect>& effects) {
  for (const SendAgent& send : Of<SendAgent>(effects)) {
    if (send.message.has_renewal_answer()) {
      return session::FromProto(send.message.renewal_answer().confirmation_age());
    }
  }
  return absl::nullopt;
}

const TaskId kA{"job", 1, "w", 0};
const TaskId kB{"job", 1, "w", 1};

TEST(ExecutorCoreTest, SaysHelloThenReportsEverythingThenRenews) {
  Bench bench;
  const auto sent = Of<SendUp>(bench.Apply(UpConnected{1}));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].message.hello().cluster(), "c1");
  EXPECT_NE(sent[0].message.hello().incarnation(), 0);
  EXPECT_TRUE(sent[1].message.observations().sync_complete());
  EXPECT_TRUE(sent[2].message.has_renewal());
}

TEST(ExecutorCoreTest, RefusesALowerTokenAlsoAfterARestart) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.Desire(1, 5, {}, true);
  bench.Restart();
  bench.Apply(UpConnected{2});
  const auto effects = bench.Desire(2, 4, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, false);
  EXPECT_EQ(Of<CloseUp>(effects).size(), 1u);
  EXPECT_TRUE(HasAlarm(effects, "LOWER_TOKEN"));
  EXPECT_EQ(bench.core_->tasks().Find(kA), nullptr);
  EXPECT_FALSE(bench.core_->up_connected());
}

TEST(ExecutorCoreTest, AnswersNoAgentBeforeARenewalOfThisLifeWasAnswered) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  bench.Advance(absl::Seconds(2));
  bench.AnswerRenewal(1, 1, 5);
  bench.Advance(absl::Seconds(1));
  // Sent three seconds ago, answered one second ago: the former counts.
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::Seconds(3));
  bench.Restart();
  bench.Apply(UpConnected{2});
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(11)), absl::nullopt);
}

TEST(ExecutorCoreTest, SilentNodeIsRenewedOnlyAfterItsReturnIsAcknowledged) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.AnswerRenewal(1, 1, 5);
  bench.ConnectAgent(10, "n1");
  bench.Advance(absl::Seconds(15));
  auto effects = bench.Apply(Tick{});
  EXPECT_TRUE(HasAlarm(effects, "NODE_SILENT"));
  const auto reports = Of<SendUp>(effects);
  ASSERT_FALSE(reports.empty());
  const int64_t silent_sequence = bench.core_->nodes().at("n1").record.sequence();
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  EXPECT_FALSE(bench.core_->nodes().at("n1").silent());
  // An acknowledgement of what came before the return does not count.
  bench.Acknowledge(1, silent_sequence, {"n1"});
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  bench.Restart();
  bench.Apply(UpConnected{2});
  bench.AnswerRenewal(2, 1, 5);
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(11)), absl::nullopt);
  bench.Acknowledge(2, silent_sequence + 1, {"n1"});
  EXPECT_TRUE(AgeIn(bench.RenewAgent(11)).has_value());
}

TEST(ExecutorCoreTest, OwnPauseSilencesNoNode) {
  Bench bench;
  bench.ConnectAgent(10, "n1");
  bench.Advance(absl::Minutes(10));
  EXPECT_FALSE(HasAlarm(bench.Apply(Tick{}), "NODE_SILENT"));
  bench.Advance(absl::Seconds(6));
  EXPECT_TRUE(HasAlarm(bench.Apply(Tick{}), "NODE_SILENT"));
}

TEST(ExecutorCoreTest, AgentsHearSyncCompleteOnlyAfterTheScheduler) {
  Bench bench;
  const auto before = Of<SendAgent>(bench.ConnectAgent(10, "n1"));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_TRUE(before[0].message.desired().snapshot());
  EXPECT_FALSE(before[0].message.desired().sync_complete());
  bench.Apply(UpConnected{1});
  const auto after =
      Of<SendAgent>(bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true));
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(after[0].message.desired().sync_complete());
  EXPECT_EQ(after[0].message.desired().tasks(0).unix_uid(), bench.core_->tasks().Uid("job"));
}

TEST(ExecutorCoreTest, BreakerKeepsWhatTheSchedulerNoLongerNames) {
  for (const int count : {10, 11}) {
    Bench bench;
    bench.Apply(UpConnected{1});
    std::vector<DesiredTask> tasks;
    for (int i = 0; i < count; ++i) {
      tasks.push_back(Want(TaskId{"job", 1, "w", i}, "n1", DesiredTask::PHASE_START));
    }
    bench.Desire(1, 5, tasks, true);
    bench.Apply(UpDisconnected{1});
    bench.Apply(UpConnected{2});
    const auto effects = bench.Desire(2, 5, {}, true);
    EXPECT_EQ(HasAlarm(effects, "BREAKER_TRIPPED"), count > 10);
    EXPECT_EQ(bench.core_->tasks().Find(kA)->observed.forgotten(), count <= 10);
  }
}

TEST(ExecutorCoreTest, ForgottenTaskIsStoppedEndedRemovedAndOnlyThenFreesItsUid) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_START)}, true);
  bench.Report(10, {Saw(kA, TaskObservation::STATE_RUNNING)});
  auto sent = Of<SendAgent>(bench.Desire(1, 5, {}, false, {kA}));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.desired().tasks(0).phase(), DesiredTask::PHASE_STOP);
  sent = Of<SendAgent>(bench.Report(10, {Saw(kA, TaskObservation::STATE_ENDED)}));
  ASSERT_EQ(sent.size(), 2u);
  const auto& told = sent[0].message.has_desired() ? sent[0] : sent[1];
  EXPECT_EQ(told.message.desired().forgotten_size(), 1);
  EXPECT_NE(bench.core_->tasks().Uid("job"), 0);
  bench.Report(10, {}, {kA});
  EXPECT_EQ(bench.core_->tasks().Find(kA), nullptr);
  EXPECT_EQ(bench.core_->tasks().Uid("job"), 0);
}

TEST(ExecutorCoreTest, JobsShareNoUidAndRunOutOfThem) {
  Bench bench;
  bench.Apply(UpConnected{1});
  std::set<int64_t> uids;
  for (int job = 0; job < 4; ++job) {
    const TaskId id{absl::StrCat("job", job), 1, "w", 0};
    bench.Desire(1, 5, {Want(id, "n1", DesiredTask::PHASE_PREPARE)}, false);
    uids.insert(bench.core_->tasks().Uid(id.job_uid));
  }
  EXPECT_EQ(uids, (std::set<int64_t>{100, 101, 102, 103}));
  const TaskId late{"job9", 1, "w", 0};
  const auto effects = bench.Desire(1, 5, {Want(late, "n1", DesiredTask::PHASE_PREPARE)}, false);
  EXPECT_TRUE(HasAlarm(effects, "UIDS_EXHAUSTED"));
  EXPECT_EQ(bench.core_->tasks().Find(late)->observed.observation().end().cause(),
            TaskEnd::CAUSE_PREPARE_FAILED);
}

TEST(ExecutorCoreTest, AgentThatLostItsStoreLosesItsTasksAndIsToldToBeginNone) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_START)}, true);
  bench.Report(10, {Saw(kA, TaskObservation::STATE_RUNNING)});
  bench.Apply(AgentDisconnected{10});
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(bench.core_->tasks().Find(kA)->observed.observation().end().cause(),
            TaskEnd::CAUSE_LOST);
  bench.Apply(AgentDisconnected{11});
  const auto sent = Of<SendAgent>(bench.ConnectAgent(12, "n1"));
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].message.desired().tasks(0).phase(), DesiredTask::PHASE_STOP);
}

TEST(ExecutorCoreTest, SecondSessionOfANodeEndsTheFirst) {
  Bench bench;
  bench.ConnectAgent(10, "n1");
  bench.Apply(AgentConnected{11, "n1"});
  AgentMessage hello{11, {}};
  hello.message.mutable_hello()->set_cluster("c1");
  hello.message.mutable_hello()->set_node("n1");
  const auto closed = Of<CloseAgent>(bench.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].session, 10u);
  EXPECT_TRUE(absl::IsAborted(closed[0].status));
}

TEST(ExecutorCoreTest, AgentThatKnowsALaterLeaderIsTurnedAway) {
  Bench bench;
  bench.Apply(AgentConnected{10, "n1"});
  AgentMessage hello{10, {}};
  hello.message.mutable_hello()->set_cluster("c1");
  hello.message.mutable_hello()->set_node("n1");
  *hello.message.mutable_hello()->mutable_highest_token() = Token(7);
  const auto closed = Of<CloseAgent>(bench.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(closed[0].status));
}

TEST(ExecutorCoreTest, JournalHoldsOneEntryATaskAndIsEmptiedByAcknowledgement) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true);
  for (int i = 0; i < 50; ++i) {
    TaskObservation task = Saw(kA, TaskObservation::STATE_PREPARING);
    task.set_progress(absl::StrCat(i));
    bench.Report(10, {task});
  }
  EXPECT_EQ(bench.core_->unacknowledged(), 2u);
  bench.Acknowledge(1, 1000, {});
  EXPECT_EQ(bench.core_->unacknowledged(), 0u);
}

// Random orders of everything, with restarts. Truth is kept beside.
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
