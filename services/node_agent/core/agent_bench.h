// An agent's core with a store, a machine and an executor made of plain values, for its tests.
// Every step is checked: memory and store agree, a core read from the store agrees with both, a key
// is started once, a deadline given to a shim only rises and is never beyond the truth.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_BENCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_BENCH_H_

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/deadline.h"
#include "services/node_agent/core/keys.h"

namespace capstan::node_agent {

class AgentBench {
 public:
  using DesiredTask = capstan::type::v1::DesiredTask;
  using TaskEnd = capstan::type::v1::TaskEnd;
  using TaskObservation = capstan::type::v1::TaskObservation;
  using TaskId = session::TaskId;

  // What is on the machine of a Task.
  struct OnMachine {
    bool has_spec = false;
    int64_t shim_pid = 0;
  };
  // A call that waits for its answer.
  struct Call {
    std::string name;
    TaskId id;
    Ticket ticket = 0;
    std::vector<int32_t> ports;
  };

  AgentBench() { Restart(false); }

  // A crash of the agent. With `machine_stays`, what is on the machine is found again.
  void Restart(bool machine_stays) {
    pending.clear();
    session = 0;
    renewals.clear();
    if (!machine_stays) machine.clear();
    core = std::make_unique<AgentCore>(AgentCore::Load(Config(), Records(), now).value());
    // Deadlines given to shims hold; a shim that is gone has none.
    Discovered discovered;
    for (const auto& [id, what] : machine) {
      Remains remains{id.ToProto(), what.has_spec, {}, what.shim_pid != 0, what.shim_pid == 0};
      remains.status.set_shim_pid(what.shim_pid);
      discovered.found.push_back(std::move(remains));
    }
    Apply(discovered);
  }

  CoreConfig Config() const {
    CoreConfig config;
    config.cluster = "c1";
    config.node = "n1";
    config.host = "10.0.0.1";
    config.boot_id = boot_id;
    config.chooses_gpus = chooses_gpus;
    config.isolation.namespaces = namespaces;
    return config;
  }

  static DesiredTask Want(const TaskId& id, DesiredTask::Phase phase, bool output,
                          absl::Duration grace = absl::Seconds(10)) {
    DesiredTask task;
    *task.mutable_key() = id.ToProto();
    task.set_node("n1");
    task.set_phase(phase);
    task.set_unix_uid(1234);
    auto* launch = task.mutable_launch();
    launch->add_argv("/bin/true");
    launch->add_ports("master");
    launch->set_job("projects/p/jobs/j");
    launch->set_service_account("projects/p/serviceAccounts/default");
    *launch->mutable_fence_after() = session::ToProto(absl::Seconds(60));
    *launch->mutable_stop_grace() = session::ToProto(absl::Seconds(10));
    if (output) {
      launch->set_output("projects/p/jobs/j/output");
      launch->set_bundle("sha256:ab");
      launch->add_datasets()->set_dataset("projects/p/datasets/d");
      launch->mutable_datasets(0)->set_version("v1");
    }
    if (phase != DesiredTask::PHASE_PREPARE) task.mutable_rendezvous()->set_world_size(1);
    if (phase == DesiredTask::PHASE_STOP) {
      task.mutable_stop()->set_reason(capstan::type::v1::Stop::REASON_CANCELLED);
      *task.mutable_stop()->mutable_grace() = session::ToProto(grace);
    }
    return task;
  }

  void Apply(const Event& event) {
    Step step = core->Apply(event, now);
    for (const store::Put& put : step.puts) store[put.key] = put.value;
    for (const store::Delete& key : step.deletes) store.erase(key.key);
    if (core->confirmed_at() == absl::nullopt) store.erase(kConfirmedKey);
    EXPECT_EQ(core->Snapshot(), store);
    const auto again = AgentCore::Load(Config(), Records(), now);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->Snapshot(), store);
    for (Effect& effect : step.after) Note(effect);
  }

  // --- The executor ---

  void Connect() {
    session = ++last_session;
    renewals.clear();
    Apply(UpConnected{session});
  }
  void Order(const std::vector<DesiredTask>& tasks, bool snapshot = false, bool complete = false) {
    UpMessage message{session, {}};
    auto* desired = message.message.mutable_desired();
    desired->mutable_token()->set_store_incarnation(1);
    desired->mutable_token()->set_leader_epoch(epoch);
    desired->set_revision(++revision);
    desired->set_snapshot(snapshot);
    desired->set_sync_complete(complete);
    for (const DesiredTask& task : tasks) *desired->add_tasks() = task;
    Apply(message);
  }
  void Forget(const TaskId& id) {
    UpMessage message{session, {}};
    message.message.mutable_desired()->mutable_token()->set_store_incarnation(1);
    message.message.mutable_desired()->mutable_token()->set_leader_epoch(epoch);
    *message.message.mutable_desired()->add_forgotten() = id.ToProto();
    Apply(message);
  }
  // Answers the newest Renewal, sent now.
  void Confirm(absl::Duration age = absl::ZeroDuration()) {
    Apply(Tick{});
    if (renewals.empty() || renewals.rbegin()->second != now.boot) {
      Advance(absl::Seconds(3));
      Apply(Tick{});
    }
    ASSERT_FALSE(renewals.empty());
    Answer(renewals.rbegin()->first, age);
  }
  void Answer(int64_t sequence, absl::Duration age) {
    const BootTime truth = renewals.at(sequence) - age;
    if (!confirmed_truth.has_value() || *confirmed_truth < truth) confirmed_truth = truth;
    UpMessage message{session, {}};
    auto* answer = message.message.mutable_renewal_answer();
    answer->set_sequence(sequence);
    *answer->mutable_confirmation_age() = session::ToProto(age);
    answer->mutable_token()->set_store_incarnation(1);
    answer->mutable_token()->set_leader_epoch(epoch);
    renewals.erase(sequence);
    Apply(message);
  }

  // --- The machine ---

  void Shim(const TaskId& id, int64_t pid) {
    machine[id] = OnMachine{true, pid};
    capstan::nodeagent::v1::ShimStatus status;
    status.set_shim_pid(pid);
    Apply(ShimReported{id, status});
  }
  void ShimEnd(const TaskId& id, TaskEnd::Cause cause, int code) {
    capstan::nodeagent::v1::ShimStatus status;
    status.set_shim_pid(77);
    status.mutable_end()->set_cause(cause);
    status.mutable_end()->set_exit_code(code);
    machine[id] = OnMachine{true, 0};
    Apply(ShimReported{id, status});
  }
  // Answers the oldest call.
  void AnswerNext(absl::Status status) {
    ASSERT_FALSE(pending.empty());
    const Call call = pending.front();
    pending.pop_front();
    Answered answered{call.id, call.ticket, std::move(status), std::monostate()};
    if (answered.status.ok()) {
      if (call.name == "OpenOutput") {
        answered.answer =
            OpenedOutput{"", absl::StrCat("/site/", call.id.job_uid, "/", call.id.generation)};
      } else if (call.name == "PinBundle" || call.name == "PinVersion") {
        answered.answer = Directory{"/site/x"};
      } else if (call.name == "IssueIdentity") {
        answered.answer = Directory{"/tasks/identity"};
      } else if (call.name == "MakePlace") {
        answered.answer = Place{"/tasks/" + call.id.Path(), {}};
        machine.try_emplace(call.id);
      } else if (call.name == "MakeMigInstance") {
        answered.answer = MigDevice{"MIG-x"};
      } else if (call.name == "ListGpus") {
        answered.answer = ListedGpus{gpus};
      } else if (call.name == "FindMigFiles") {
        GpuFileNumbers numbers;
        numbers.files.add_minors(0);
        numbers.files.add_capabilities(30);
        numbers.files.add_capabilities(31);
        answered.answer = std::move(numbers);
      } else if (call.name == "CheckPorts") {
        TakenPorts taken;
        for (const int32_t port : call.ports) {
          if (taken_ports.count(port) != 0) taken.ports.push_back(port);
        }
        answered.answer = std::move(taken);
      } else if (call.name == "StartTask") {
        machine[call.id].has_spec = true;
      } else if (call.name == "KillTask") {
        machine[call.id].shim_pid = 0;
      } else if (call.name == "RemovePlace") {
        machine.erase(call.id);
      }
    }
    Apply(answered);
  }
  void AnswerAll() {
    for (int i = 0; i < 100 && !pending.empty(); ++i) AnswerNext(absl::OkStatus());
  }
  void Advance(absl::Duration d) {
    now.boot = now.boot + d;
    now.wall += d;
  }

  // --- What is seen ---

  AgentCore::TaskRecord::Stage Stage(const TaskId& id) const {
    return core->tasks().at(id).record.stage();
  }
  TaskEnd End(const TaskId& id) const {
    const auto& record = core->tasks().at(id).record;
    EXPECT_EQ(record.stage(), AgentCore::TaskRecord::STAGE_ENDED);
    return record.end();
  }
  TaskObservation LastReport(const TaskId& id) const {
    const auto it = reports.find(id);
    return it == reports.end() ? TaskObservation() : it->second;
  }

  Now now = {absl::FromUnixSeconds(1'700'000'000), BootTime::FromNanoseconds(100'000'000'000)};
  std::string boot_id = "boot-1";
  std::map<std::string, std::string> store;
  std::unique_ptr<AgentCore> core;
  std::map<TaskId, OnMachine> machine;
  std::set<int32_t> taken_ports;
  // As the last MakeMigInstance had them.
  std::vector<capstan::type::v1::MigInstance> mig_others;
  // What a Node that chooses GPUs has of them.
  std::vector<WholeGpu> gpus;
  bool chooses_gpus = false;
  bool namespaces = false;
  // With which Tasks were started.
  std::map<TaskId, capstan::nodeagent::v1::ShimSpec> specs;
  int64_t epoch = 1;
  int64_t revision = 0;
  SessionId session = 0;
  SessionId last_session = 0;
  std::map<int64_t, BootTime> renewals;
  absl::optional<BootTime> confirmed_truth;
  std::deque<Call> pending;
  std::vector<std::string> asked;
  std::map<TaskId, HoldGrant> grants;
  std::vector<trace::Span> spans;
  std::map<TaskId, int> starts;
  std::map<TaskId, int> kills;
  std::set<TaskId> stops;
  std::map<TaskId, BootTime> deadlines;
  std::map<TaskId, TaskObservation> reports;
  std::set<TaskId> gone;
  std::set<std::string> alarms;
  std::vector<std::string> checkpoints;

 private:
  std::vector<store::KeyValue> Records() const {
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store) records.push_back({.key = key, .value = value});
    return records;
  }

  template <typename T>
  void Wait(const char* name, const T& effect, std::vector<int32_t> ports = {}) {
    asked.push_back(name);
    pending.push_back(Call{name, effect.id, effect.ticket, std::move(ports)});
  }

  void GiveDeadline(const TaskId& id, BootTime deadline) {
    const auto it = deadlines.find(id);
    if (it != deadlines.end()) {
      EXPECT_GE(deadline, it->second) << "a lowered deadline";
    }
    deadlines[id] = deadline;
    if (core->tasks().count(id) == 0) return;
    const auto& launch = core->tasks().at(id).order.launch();
    ASSERT_TRUE(confirmed_truth.has_value());
    EXPECT_LE(deadline, *confirmed_truth + FenceAfter(launch)) << "beyond the truth";
  }

  void Note(const Effect& effect) {
    if (const auto* up = std::get_if<SendUp>(&effect)) {
      if (up->message.has_renewal()) renewals[up->message.renewal().sequence()] = now.boot;
      for (const auto& task : up->message.observations().tasks()) {
        auto& before = reports[TaskId::Of(task.key())];
        EXPECT_GE(task.state(), before.state());
        if (before.state() == TaskObservation::STATE_ENDED) {
          EXPECT_EQ(task.end().cause(), before.end().cause()) << "the first end stands";
        }
        before = task;
      }
      for (const auto& key : up->message.observations().gone()) gone.insert(TaskId::Of(key));
    } else if (const auto* told = std::get_if<TellSpan>(&effect)) {
      spans.push_back(told->span);
    } else if (const auto* grant = std::get_if<HoldGrant>(&effect)) {
      grants[grant->id] = *grant;
    } else if (const auto* open = std::get_if<OpenOutput>(&effect)) {
      Wait("OpenOutput", *open);
    } else if (const auto* bundle = std::get_if<PinBundle>(&effect)) {
      Wait("PinBundle", *bundle);
    } else if (const auto* version = std::get_if<PinVersion>(&effect)) {
      Wait("PinVersion", *version);
    } else if (const auto* place = std::get_if<MakePlace>(&effect)) {
      Wait("MakePlace", *place);
    } else if (const auto* furnish = std::get_if<Furnish>(&effect)) {
      Wait("Furnish", *furnish);
    } else if (const auto* identity = std::get_if<IssueIdentity>(&effect)) {
      Wait("IssueIdentity", *identity);
    } else if (const auto* make = std::get_if<MakeMigInstance>(&effect)) {
      mig_others = make->others;
      Wait("MakeMigInstance", *make);
    } else if (const auto* list = std::get_if<ListGpus>(&effect)) {
      Wait("ListGpus", *list);
    } else if (const auto* find = std::get_if<FindMigFiles>(&effect)) {
      Wait("FindMigFiles", *find);
    } else if (const auto* unmake = std::get_if<RemoveMigInstance>(&effect)) {
      Wait("RemoveMigInstance", *unmake);
    } else if (const auto* check = std::get_if<CheckPorts>(&effect)) {
      Wait("CheckPorts", *check, check->ports);
    } else if (const auto* start = std::get_if<StartTask>(&effect)) {
      EXPECT_EQ(++starts[start->id], 1) << "started twice: " << start->id.Path();
      GiveDeadline(start->id, BootTime::FromNanoseconds(start->spec.deadline_boottime_ns()));
      specs[start->id] = start->spec;
      Wait("StartTask", *start);
    } else if (const auto* control = std::get_if<ControlTask>(&effect)) {
      // 0 leaves the shim's own deadline as it is.
      if (control->control.deadline_boottime_ns() != 0) {
        GiveDeadline(control->id,
                     BootTime::FromNanoseconds(control->control.deadline_boottime_ns()));
      }
      if (control->control.has_stop()) stops.insert(control->id);
    } else if (const auto* kill = std::get_if<KillTask>(&effect)) {
      ++kills[kill->id];
      Wait("KillTask", *kill);
    } else if (const auto* final = std::get_if<CommitFinal>(&effect)) {
      Wait("CommitFinal", *final);
    } else if (const auto* checkpoint = std::get_if<CommitCheckpoint>(&effect)) {
      checkpoints.push_back(checkpoint->directory);
    } else if (const auto* remove = std::get_if<RemovePlace>(&effect)) {
      Wait("RemovePlace", *remove);
    } else if (const auto* release = std::get_if<ReleasePins>(&effect)) {
      Wait("ReleasePins", *release);
    } else if (const auto* alarm = std::get_if<Alarm>(&effect)) {
      alarms.insert(alarm->reason);
    }
  }
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_BENCH_H_
