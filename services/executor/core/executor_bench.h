// An executor's core with a store, a scheduler and agents made of plain values, for its tests.
// Memory and store are compared at every step, also with a core that is read from the store.
#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_BENCH_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_BENCH_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/executor/core/executor_core.h"

namespace capstan::executor {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::DesiredTasks;
using capstan::type::v1::FencingToken;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;
using session::TaskId;

inline FencingToken Token(int64_t epoch) {
  FencingToken token;
  token.set_store_incarnation(1);
  token.set_leader_epoch(epoch);
  return token;
}

inline DesiredTask Want(const TaskId& id, const std::string& node, DesiredTask::Phase phase,
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

inline TaskObservation Saw(const TaskId& id, TaskObservation::State state) {
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

  std::vector<Effect> Acknowledge(SessionId session, int64_t sequence,
                                  const std::vector<std::string>& returned) {
    UpMessage ack{session, {}};
    ack.message.mutable_observations_ack()->set_journal_sequence(sequence);
    for (const auto& node : returned) {
      ack.message.mutable_observations_ack()->add_returned_nodes(node);
    }
    return Apply(ack);
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

inline bool HasAlarm(const std::vector<Effect>& effects, const std::string& reason) {
  for (const Alarm& alarm : Of<Alarm>(effects)) {
    if (alarm.reason == reason) return true;
  }
  return false;
}

inline absl::optional<absl::Duration> AgeIn(const std::vector<Effect>& effects) {
  for (const SendAgent& send : Of<SendAgent>(effects)) {
    if (send.message.has_renewal_answer()) {
      return session::FromProto(send.message.renewal_answer().confirmation_age());
    }
  }
  return absl::nullopt;
}

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_BENCH_H_
