// What executors that keep to the encoding alone may report, and what callers may ask for once
// their requests have passed validation: the store is what memory holds, the next leader can read
// it, and a spec that was accepted is as bounded as the rules say.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/status/error.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/job_change.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::TaskGroup;
using capstan::scheduler::v1::UpdateJobRequest;
using capstan::type::v1::Hello;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::Observations;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;
using fuzzing::FuzzInput;
using fuzzing::Require;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"c1",
                                                           "n1",
                                                           "n2",
                                                           "job1",
                                                           "job2",
                                                           "worker",
                                                           "default",
                                                           "queues/default",
                                                           "queues/q1",
                                                           "q1",
                                                           "/bin/true",
                                                           "1h",
                                                           "projects/p/datasets/d",
                                                           "clusters/c1",
                                                           "capstan/rack",
                                                           "rack",
                                                           "projects/p",
                                                           ""};
  return words;
}

class Scheduler {
 public:
  Scheduler() { NewLeader(); }

  void Step(FuzzInput* input) {
    switch (input->Below(9)) {
      case 0:
        Connect(input);
        break;
      case 1:
        Submit(input);
        break;
      case 2:
        Apply(ObservationsReceived{session_, fuzzing::MakeMessage<Observations>(Words(), input)});
        break;
      case 3:
      case 4:
        Report(input);
        break;
      case 5:
        Apply(RenewalReceived{session_, input->Number(), now_.boot + absl::Seconds(10)});
        break;
      case 6:
        Tell(input);
        break;
      case 7:
        StepQueue(input);
        break;
      default: {
        const absl::Duration passed = absl::Milliseconds(500) * input->Below(250);
        now_.wall += passed;
        now_.boot = now_.boot + passed;
        Apply(Tick{});
      }
    }
  }

  void NewLeader() {
    core_ = Load();
    session_ = 0;
    LeadershipGained gained;
    gained.token.set_store_incarnation(1);
    gained.token.set_leader_epoch(++epoch_);
    Apply(gained);
  }

  // What every state keeps to.
  void Check() const {
    const std::map<std::string, std::string> mine = AllRecords(core_->model());
    Require(mine == store_);
    Require(AllRecords(Load()->model()) == mine);
  }

  // A record of the store is not what was written: it is refused, or read as something else.
  void Damage(FuzzInput* input) {
    if (store_.empty()) return;
    auto record = store_.begin();
    for (size_t i = input->Below(store_.size()); i > 0; --i) ++record;
    std::string& value = record->second;
    if (input->Flag()) {
      value.resize(input->Below(value.size() + 1));
    } else if (!value.empty()) {
      value[input->Below(value.size())] ^= static_cast<char>(1 + input->Below(255));
    }
    const auto core = SchedulerCore::Load(config_, Records());
    if (core.ok()) (void)AllRecords((*core)->model());
  }

 private:
  std::vector<store::KeyValue> Records() const {
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store_) records.push_back({.key = key, .value = value});
    return records;
  }

  std::unique_ptr<SchedulerCore> Load() const {
    auto core = SchedulerCore::Load(config_, Records());
    Require(core.ok());
    return *std::move(core);
  }

  void Connect(FuzzInput* input) {
    if (session_ != 0) Apply(SessionClosed{session_});
    session_ = ++last_session_;
    auto hello = fuzzing::MakeMessage<Hello>(Words(), input);
    // The engine has compared it with the certificate.
    hello.set_cluster("c1");
    Apply(HelloReceived{session_, std::move(hello)});
  }

  // A Job small enough to run here, with anything else besides, as the handler lets it through.
  void Submit(FuzzInput* input) {
    auto spec = fuzzing::MakeMessage<JobSpec>(Words(), input);
    if (spec.task_groups().empty()) spec.add_task_groups();
    while (spec.task_groups_size() > 2) spec.mutable_task_groups()->RemoveLast();
    for (TaskGroup& group : *spec.mutable_task_groups()) {
      group.set_replicas(1 + static_cast<int>(input->Below(3)));
      if (group.min_replicas() > group.replicas()) group.set_min_replicas(1);
      if (group.argv().empty()) group.add_argv("/bin/true");
      if (group.name().empty()) group.set_name("worker");
    }
    ApplyDefaults("projects/p", config_, &spec);
    status::FieldErrors errors;
    ValidateJobSpec("projects/p", config_, spec, "job.spec", &errors);
    if (!errors.ToStatus().ok()) return;
    Require(spec.ByteSizeLong() <= kMaxSpecBytes && MaxTaskCount(spec) <= kMaxTasks);
    CreateJob create;
    create.call = ++last_call_;
    create.project = "projects/p";
    create.uid = absl::StrCat("job", 1 + core_->model().jobs.size());
    create.job_id = create.uid;
    create.submitter = "person-1";
    create.traceparent = input->Word(Words());
    create.spec = std::move(spec);
    Apply(create);
  }

  // A report that is about Tasks there are, so that gangs come along.
  void Report(FuzzInput* input) {
    Observations report;
    report.set_journal_sequence(++journal_);
    report.set_sync_complete(input->Flag());
    if (input->Flag()) {
      auto& node = *report.add_nodes();
      node = fuzzing::MakeMessage<NodeObservation>(Words(), input);
      node.set_node(input->Flag() ? "n1" : "n2");
      node.set_silent(input->Below(5) == 1);
      node.mutable_allocatable()->set_cpu_millis(1'000'000);
      node.mutable_allocatable()->set_memory_bytes(int64_t{1} << 40);
    }
    const auto state = static_cast<TaskObservation::State>(input->Below(6));
    for (const auto& [uid, job] : core_->model().jobs) {
      if (!job.gang.has_value()) continue;
      for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
        auto& task = *report.add_tasks();
        if (input->Below(4) == 1) task = fuzzing::MakeMessage<TaskObservation>(Words(), input);
        const auto [group, index] = GroupOf(job, static_cast<int>(rank));
        TaskKey& key = *task.mutable_key();
        key.set_job_uid(uid);
        key.set_generation(job.gang->head.generation());
        key.set_group(job.spec.spec().task_groups(group).name());
        key.set_index(index);
        task.set_state(state);
      }
    }
    Apply(ObservationsReceived{session_, std::move(report)});
  }

  // What the data source and the archive answer, callers cancel and operators confirm.
  void Tell(FuzzInput* input) {
    const std::string uid = absl::StrCat("job", 1 + input->Below(4));
    const auto dataset = static_cast<int>(input->Number());
    switch (input->Below(9)) {
      case 0:
        Apply(DataReady{uid, dataset, input->Word(Words())});
        break;
      case 1:
        Apply(DataFailed{uid, dataset, input->Word(Words()), input->Word(Words())});
        break;
      case 2:
        Apply(DataProgressed{uid, dataset, input->Word(Words()), input->Number(), input->Number(),
                             1.0, absl::Seconds(input->Number())});
        break;
      case 3:
        Apply(PinsReleased{uid, input->Number()});
        break;
      case 4:
        Apply(JobsArchived{{uid, input->Word(Words())}});
        break;
      case 5:
        Apply(CancelJob{++last_call_, absl::StrCat("projects/p/jobs/", uid), ""});
        break;
      case 6:
        Apply(ConfirmSilence{++last_call_});
        break;
      case 7:
        Update(absl::StrCat("projects/p/jobs/", uid, input->Flag() ? "-0" : ""), input);
        break;
      default:
        NewLeader();
    }
  }

  void Update(const std::string& name, FuzzInput* input) {
    auto request = fuzzing::MakeMessage<UpdateJobRequest>(Words(), input);
    static constexpr const char* kPaths[] = {"spec.priority", "spec.time_limit", "hold"};
    request.clear_update_mask();
    for (const char* path : kPaths) {
      if (input->Flag()) request.mutable_update_mask()->add_paths(path);
    }
    status::FieldErrors errors;
    ValidateUpdateJob(request, &errors);
    if (!errors.ToStatus().ok()) return;
    UpdateJob update;
    update.call = ++last_call_;
    update.name = name;
    update.validate_only = request.validate_only();
    update.change = JobChangeOf(request);
    Apply(update);
  }

  void StepQueue(FuzzInput* input) {
    auto queue = fuzzing::MakeMessage<Queue>(Words(), input);
    status::FieldErrors errors;
    ValidateQueue("q1", queue, &errors);
    if (!errors.ToStatus().ok()) return;
    CreateQueue create;
    create.call = ++last_call_;
    create.queue_id = "q1";
    create.uid = absl::StrCat("queue", last_call_);
    create.queue = std::move(queue);
    Apply(create);
  }

  void Apply(const Event& event) {
    std::map<std::string, int64_t> held;
    for (const auto& [uid, job] : core_->model().jobs) {
      if (job.state.hold()) held.emplace(uid, job.state.generation());
    }
    scheduler::Step step = core_->Apply(event, now_);
    for (const auto& [uid, generation] : held) {
      const JobEntry* job = core_->model().FindJob(uid);
      Require(job == nullptr || !job->state.hold() || job->state.generation() == generation);
    }
    for (const Write& write : step.persist) {
      for (const store::Put& put : write.puts) store_[put.key] = put.value;
      for (const store::Delete& erase : write.deletes) {
        const std::string end = erase.end.empty() ? erase.key + '\0' : erase.end;
        store_.erase(store_.lower_bound(erase.key), store_.lower_bound(end));
      }
    }
    for (const Effect& effect : step.after) {
      const auto* close = std::get_if<CloseSession>(&effect);
      if (close == nullptr || close->session != session_) continue;
      session_ = 0;
      // The engine says so at once.
      return Apply(SessionClosed{close->session});
    }
    (void)core_->NextDeadline();
  }

  const CoreConfig config_;
  Now now_ = {absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)};
  std::map<std::string, std::string> store_;
  std::unique_ptr<SchedulerCore> core_;
  int64_t epoch_ = 0;
  int64_t journal_ = 0;
  CallId last_call_ = 0;
  SessionId last_session_ = 0;
  SessionId session_ = 0;
};

}  // namespace
}  // namespace capstan::scheduler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  capstan::fuzzing::FuzzInput damage(data, size < 8 ? size : 8);
  capstan::scheduler::Scheduler scheduler;
  while (!input.empty()) scheduler.Step(&input);
  scheduler.Check();
  scheduler.NewLeader();
  scheduler.Check();
  scheduler.Damage(&damage);
  return 0;
}
