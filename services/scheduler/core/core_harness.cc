#include "services/scheduler/core/core_harness.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/closure_check.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/label_check.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;

namespace {

std::vector<std::string> WrittenIn(const Step& step) {
  std::vector<std::string> all;
  for (const Write& write : step.persist) {
    for (const store::Put& put : write.puts) all.push_back(absl::StrCat(put.key, "=", put.value));
    for (const store::Delete& erase : write.deletes) {
      all.push_back(absl::StrCat(erase.key, "..", erase.end));
    }
  }
  return all;
}

std::string TextOf(const TaskKey& key) {
  return absl::StrCat(key.job_uid(), "/", key.generation(), "/", key.group(), "-", key.index());
}

}  // namespace

CoreHarness::CoreHarness(const CoreConfig& config, Observer observer, bool beside_anew)
    : config_(config),
      observer_(std::move(observer)),
      now_{absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)},
      beside_anew_(beside_anew) {
  NewLeader();
}

std::unique_ptr<SchedulerCore> CoreHarness::Rebuild(const CoreConfig& config) const {
  std::vector<store::KeyValue> kvs;
  for (const auto& [key, value] : records_) {
    store::KeyValue kv;
    kv.key = key;
    kv.value = value;
    kvs.push_back(std::move(kv));
  }
  auto core = SchedulerCore::Load(config, kvs);
  EXPECT_TRUE(core.ok()) << core.status();
  return core.ok() ? std::move(core).value() : nullptr;
}

std::vector<Effect> CoreHarness::NewLeader() {
  core_ = Rebuild();
  if (beside_anew_) {
    CoreConfig anew = config_;
    anew.begin_anew = true;
    anew_ = Rebuild(anew);
  }
  queue_checks_.NewLeader();
  LeadershipGained gained;
  gained.token.set_store_incarnation(1);
  gained.token.set_leader_epoch(++epoch_);
  if (observer_) observer_(*core_, gained, now_, nullptr, records_);
  return Apply(gained);
}

Step CoreHarness::Take(const Event& event) {
  Step step = core_->Apply(event, now_);
  if (anew_ != nullptr) {
    const Step other = anew_->Apply(event, now_);
    EXPECT_EQ(WrittenIn(step), WrittenIn(other)) << "where rounds begin anew the step is another";
    EXPECT_EQ(step.after.size(), other.after.size());
    EXPECT_TRUE(core_->NextDeadline() == anew_->NextDeadline());
  }
  if (observer_) observer_(*core_, event, now_, &step, records_);
  return step;
}

void CoreHarness::Commit(const Write& write) {
  std::set<std::string> named;
  std::vector<std::string> deleted;
  for (const store::Put& put : write.puts) {
    EXPECT_TRUE(named.insert(put.key).second) << put.key << " is put twice in one write";
    EXPECT_LE(put.value.size(), 64u * 1024) << put.key;
    records_[put.key] = put.value;
  }
  for (const store::Delete& erase : write.deletes) {
    const std::string end = erase.end.empty() ? erase.key + '\0' : erase.end;
    for (const std::string& key : named) {
      EXPECT_FALSE(key >= erase.key && key < end) << key << " is put and deleted";
    }
    const auto first = records_.lower_bound(erase.key);
    const auto last = records_.lower_bound(end);
    for (auto it = first; it != last; ++it) deleted.push_back(it->first);
    records_.erase(first, last);
  }
  room_checks_.Apply(write, deleted);
  events_.insert(events_.end(), write.events.begin(), write.events.end());
}

std::vector<Effect> CoreHarness::Apply(const Event& event) {
  Step step = Take(event);
  for (const Write& write : step.persist) Commit(write);
  Check(!step.persist.empty());
  for (TellSpan& told : Of<TellSpan>(step.after)) {
    if (told.until_stored) told.span.end = now_.wall;
    spans_.push_back(std::move(told.span));
  }
  return std::move(step.after);
}

void CoreHarness::Deliver(const std::vector<Effect>& effects) {
  inbox_.push_back(effects);
  // What an executor says to it comes after what others have not been told yet.
  if (inbox_.size() > 1) return;
  while (!inbox_.empty()) {
    for (FakeExecutor* executor : executors_) executor->Take(inbox_.front());
    inbox_.pop_front();
  }
}

std::vector<Effect> CoreHarness::CrashIn(const Event& event, size_t writes) {
  Step step = Take(event);
  for (size_t i = 0; i < std::min(writes, step.persist.size()); ++i) Commit(step.persist[i]);
  return NewLeader();
}

void CoreHarness::CompareWithStore(bool rebuild) const {
  const std::map<std::string, std::string> mine = AllRecords(core_->model());
  for (const auto& [key, value] : mine) {
    auto it = records_.find(key);
    ASSERT_TRUE(it != records_.end()) << key << " was not stored";
    ASSERT_TRUE(it->second == value) << key << " is not stored as it is";
  }
  for (const auto& [key, value] : records_) {
    ASSERT_TRUE(mine.count(key) > 0) << key << " is stored but unknown";
  }
  if (rebuild) {
    ASSERT_TRUE(AllRecords(Rebuild()->model()) == mine);
  }
}

void CoreHarness::Check(bool rebuild) {
  if (++steps_ % compare_every_ == 0) CompareWithStore(rebuild || compare_every_ > 1);
  if (::testing::Test::HasFatalFailure()) return;
  CheckOrder();
  CheckNominees();
  for (const auto& [uid, job] : core_->model().jobs) {
    const bool begun = job.state.state() != Job::STATE_QUEUED && !job.final();
    ASSERT_TRUE(DependenciesMet(job) || (!begun && job.state.generation() == 0)) << uid;
    CheckDisruptions(job);
    if (!job.gang) continue;
    CheckSizes(job);
    if (!job.live()) continue;
    CheckTopology(job);
    const bool is_new =
        std::exchange(placed_[job.uid()], job.state.generation()) < job.state.generation();
    CheckWindows(job, is_new);
    if (is_new) CheckAdmission(job);
    ASSERT_FALSE(is_new && job.state.hold()) << uid << " is held and has begun a generation";
    const bool started = job.gang->head.phase() == rec::GangHeadRecord::PHASE_STARTED;
    for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
      ASSERT_TRUE(!started || job.gang->tasks[rank].state() >= TaskObservation::STATE_PREPARED);
    }
  }
  RoomChecks::Check(core_->model());
  CheckMig();
  queue_checks_.Check(core_->model(), events_, now_);
}

// By what is stored and reported alone, and the table of states.
void CoreHarness::CheckMig() const {
  // By Node, number and model of the GPU.
  std::map<std::tuple<NodeId, int, std::string>, std::vector<mig::Position>> gpus;
  for (const auto& [uid, job] : core_->model().jobs) {
    if (!job.live()) continue;
    for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
      const auto [group, index] = GroupOf(job, static_cast<int>(rank));
      const auto& resources = job.spec.spec().task_groups(group).resources();
      const auto instance = MigInstanceOf(job, static_cast<int>(rank));
      ASSERT_EQ(instance.has_value(), resources.has_mig()) << uid << " rank " << rank;
      if (!instance.has_value() || job.gang->ended(static_cast<int>(rank))) continue;
      ASSERT_EQ(instance->profile(), resources.mig().profile()) << uid;
      const auto model = mig::FindDeviceModel(instance->model());
      ASSERT_TRUE(model.ok() && instance->model() == resources.mig().model()) << uid;
      gpus[{job.gang->node(static_cast<int>(rank)), instance->gpu(), instance->model()}].push_back(
          {*mig::ParseProfile(*model, instance->profile()), instance->start()});
    }
  }
  for (const auto& [where, positions] : gpus) {
    const auto& [id, number, model] = where;
    const auto& node = core_->model().nodes.at(id);
    const auto& reported = node.observation().mig_gpus();
    const bool is_there =
        std::any_of(reported.begin(), reported.end(), [&, gpu = number, of = model](const auto& r) {
          return r.index() == gpu && r.model() == of;
        });
    ASSERT_TRUE(is_there) << id.Name() << " has no such GPU: " << number;
    const mig::StateTable& table = mig::Layouts::Of(mig::ModelIndex(model)).table();
    const auto state = table.FromPositions(positions);
    ASSERT_TRUE(state.ok()) << id.Name() << " GPU " << number << ": " << state.status();
  }
}

void CoreHarness::CheckOrder() const {
  const Model& model = core_->model();
  std::set<std::pair<std::string, std::string>> singletons;
  std::map<std::string, int> begun;
  for (const auto& [uid, job] : model.jobs) {
    if (IsArray(job)) {
      const int size = job.spec.spec().array().size();
      ASSERT_TRUE(job.state.elements().made() && !job.live() && job.state.generation() == 0) << uid;
      ASSERT_EQ(job.final(), ProgressOf(job).ended() == size) << uid;
      for (int index = 0; index < size; ++index) {
        const JobEntry* element = model.FindJob(ElementUid(uid, index));
        ASSERT_TRUE(element != nullptr || HasEnded(job, index)) << uid << " lacks " << index;
        if (element == nullptr) continue;
        ASSERT_EQ(element->final(), HasEnded(job, index)) << uid << " " << index;
      }
      continue;
    }
    if (job.final() || !HasBegun(job)) continue;
    if (IsElement(job)) ++begun[job.spec.array_uid()];
    if (job.spec.spec().singleton().empty()) continue;
    ASSERT_TRUE(singletons.emplace(ProjectOf(job.spec.name()), job.spec.spec().singleton()).second)
        << uid << " has begun, and so has another " << job.spec.spec().singleton();
  }
  for (const auto& [uid, count] : begun) {
    const JobEntry* array = model.FindJob(uid);
    ASSERT_TRUE(array != nullptr) << uid;
    const int most = array->spec.spec().array().max_parallel();
    ASSERT_TRUE(most == 0 || count <= most) << count << " elements of " << uid << " have begun";
  }
}

void CoreHarness::CheckNominees() const {
  for (const auto& [id, record] : core_->model().capacity_orders) {
    if (record.used() || record.nominee_uid().empty()) continue;
    const JobEntry* job = core_->model().FindJob(record.nominee_uid());
    ASSERT_TRUE(job != nullptr && job->state.state() == Job::STATE_QUEUED) << id;
    ASSERT_EQ(job->state.reason(), "ORDERED") << id << ": " << job->uid();
  }
}

void CoreHarness::CheckSizes(const JobEntry& job) const {
  const JobSpec& spec = job.spec.spec();
  ASSERT_EQ(job.gang->head.group_sizes_size(), IsElastic(spec) ? spec.task_groups_size() : 0);
  int tasks = 0;
  std::vector<int> sizes;
  for (int group = 0; group < spec.task_groups_size(); ++group) {
    const int size = SizeOf(job, group);
    sizes.push_back(size);
    ASSERT_LE(size, spec.task_groups(group).replicas()) << job.uid() << " group " << group;
    ASSERT_EQ(size % SizeStep(spec.task_groups(group)), 0) << job.uid() << " group " << group;
    tasks += size;
  }
  ASSERT_TRUE(HasWholeParts(spec, sizes)) << job.uid() << " " << job.gang->head.ShortDebugString();
  ASSERT_EQ(job.gang->nodes.size(), static_cast<size_t>(tasks)) << job.uid();
  ASSERT_EQ(job.gang->tasks.size(), static_cast<size_t>(tasks)) << job.uid();
}

void CoreHarness::CheckTopology(const JobEntry& job) const {
  const JobSpec& spec = job.spec.spec();
  // By what must be in one domain of a level: the Job, a section, a group, a slice.
  std::map<std::string, std::set<std::string>> domains;
  for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
    NodeCapacity node;
    node.id = job.gang->node(static_cast<int>(rank));
    node.topology = NodeTopology::From(core_->model().nodes.at(node.id).observation().labels());
    const auto [g, index] = GroupOf(job, static_cast<int>(rank));
    const capstan::scheduler::v1::TaskGroup& group = spec.task_groups(g);
    domains["the Job"].insert(DomainOf(node, spec.topology().required()));
    domains["group " + group.name()].insert(DomainOf(node, group.topology().required()));
    for (int s = 0; s < group.slices_size(); ++s) {
      const int nth = index / group.slices(s).size();
      domains[absl::StrCat("slice ", s, " ", nth, " of ", group.name())].insert(
          DomainOf(node, group.slices(s).level()));
    }
    for (std::string name = group.section(); !name.empty();) {
      const auto section = std::find_if(spec.sections().begin(), spec.sections().end(),
                                        [&name](const auto& s) { return s.name() == name; });
      ASSERT_TRUE(section != spec.sections().end()) << name;
      domains["section " + name].insert(DomainOf(node, section->topology().required()));
      name = section->parent();
    }
  }
  for (const auto& [what, names] : domains) {
    ASSERT_EQ(names.size(), 1u) << job.uid() << " " << what << ": " << absl::StrJoin(names, " ");
    ASSERT_NE(*names.begin(), "") << job.uid() << " " << what;
  }
}

void CoreHarness::CheckDisruptions(const JobEntry& job) {
  const auto& all = job.state.disruptions();
  const int seen = std::exchange(disruptions_[job.uid()], all.size());
  if (all.size() == seen || all.size() >= kMaxDisruptions) return;
  ASSERT_EQ(all.size(), seen + 1) << job.uid();
  const std::string& reason = all[seen].reason();
  if (reason != "PREEMPTED" && reason != "SHRUNK" && reason != "REPARTITIONED") return;
  std::string queue = job.spec.spec().queue().substr(sizeof("queues/") - 1);
  while (!queue.empty() && !core_->model().queues.at(queue).queue().has_disruption_budget()) {
    const std::string& parent = core_->model().queues.at(queue).queue().parent();
    queue = parent.empty() ? "" : parent.substr(sizeof("queues/") - 1);
  }
  if (queue.empty()) return;
  const auto& budget = core_->model().queues.at(queue).queue().disruption_budget();
  int before = 0;
  for (int i = 0; i < seen; ++i) {
    before += ToTime(all[i].time()) > now_.wall - ToDuration(budget.period()) ? 1 : 0;
  }
  ASSERT_LT(before, budget.count()) << job.uid() << " is disrupted too often";
}

// By the words of the messages alone.
void CoreHarness::CheckAdmission(const JobEntry& job) const {
  const JobSpec& spec = job.spec.spec();
  for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
    const NodeId id = job.gang->node(rank);
    const NodeObservation& node = core_->model().nodes.at(id).observation();
    const absl::Status labels = CheckLabels(RequirementsOf(job, rank), node);
    ASSERT_TRUE(labels.ok()) << job.uid() << " is placed on " << id.Name() << ": " << labels;
    for (const auto& taint : node.taints()) {
      int tolerated = 0;
      for (const auto& toleration : spec.tolerations()) {
        const bool same_key = toleration.key().empty() || toleration.key() == taint.key();
        const bool same_value = toleration.any_value() || toleration.value() == taint.value();
        tolerated += same_key && same_value ? 1 : 0;
      }
      ASSERT_GT(tolerated, 0) << job.uid() << " is placed on " << id.Name() << ", which has "
                              << taint.ShortDebugString();
    }
  }
}

void CoreHarness::CheckWindows(const JobEntry& job, bool is_new) const {
  // What did not fit the step is done in the next, at once.
  const bool is_done = core_->NextDeadline() != BootTime::InfinitePast();
  const bool is_stopping = job.gang->head.phase() == rec::GangHeadRecord::PHASE_STOPPING;
  const auto& windows = core_->model().maintenance_windows;
  for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
    const NodeId id = job.gang->node(static_cast<int>(rank));
    const rec::NodeRecord& node = core_->model().nodes.at(id);
    if (is_new) {
      const absl::Status good = CheckStay(ClosuresBy(windows, id, node, now_.wall),
                                          absl::ZeroDuration(), LongestStay(job.spec.spec()));
      ASSERT_TRUE(good.ok()) << job.uid() << " is placed on " << id.Name() << ": " << good;
    }
    if (!is_done || is_stopping || job.gang->ended(static_cast<int>(rank))) continue;
    for (const auto& [of, record] : windows) {
      const auto& window = record.window();
      ASSERT_FALSE(window.evict() && IsOf(window, id, node) &&
                   now_.wall >= ToTime(window.start_time()) &&
                   now_.wall < ToTime(window.end_time()))
          << job.uid() << " is on " << id.Name() << " in " << window.name();
    }
  }
}

std::vector<Effect> CoreHarness::Advance(absl::Duration d) {
  std::vector<Effect> all;
  auto tick = [&] {
    for (Effect& effect : Apply(Tick{})) all.push_back(std::move(effect));
  };
  const BootTime end = now_.boot + d;
  for (int i = 0; i < 10'000; ++i) {
    const absl::optional<BootTime> next = core_->NextDeadline();
    if (!next || *next > end) break;
    if (*next > now_.boot) {
      now_.wall += *next - now_.boot;
      now_.boot = *next;
    }
    tick();
  }
  now_.wall += end - now_.boot;
  now_.boot = end;
  return all;
}

JobSpec CoreHarness::Spec(int replicas, int64_t cpu_millis) {
  JobSpec spec;
  capstan::scheduler::v1::TaskGroup& group = *spec.add_task_groups();
  group.set_name("worker");
  group.set_replicas(replicas);
  group.add_argv("/bin/true");
  group.mutable_resources()->set_cpu_millis(cpu_millis);
  group.mutable_resources()->set_memory_bytes(64 << 20);
  return spec;
}

std::vector<Effect> CoreHarness::Submit(const std::string& id, JobSpec spec) {
  return Apply(SubmitEvent(id, std::move(spec)));
}

CreateJob CoreHarness::SubmitEvent(const std::string& id, JobSpec spec) {
  CreateJob create;
  create.call = next_call();
  create.project = "projects/p";
  create.job_id = id;
  create.uid = id;
  create.submitter = "person-1";
  create.traceparent = traceparent_;
  ApplyDefaults("projects/p", config_, &spec);
  create.spec = std::move(spec);
  return create;
}

SessionId FakeExecutor::next_session_ = 1;

bool FakeExecutor::Task::alive(BootTime now) const {
  return running() && now < confirmed_at + ToDuration(desired.launch().fence_after());
}

FakeExecutor::FakeExecutor(std::string cluster, int nodes, int64_t cpu_millis, CoreHarness* harness)
    : cluster_(std::move(cluster)), nodes_(nodes), cpu_millis_(cpu_millis), harness_(harness) {
  harness_->executors().push_back(this);
}

FakeExecutor::~FakeExecutor() { std::erase(harness_->executors(), this); }

std::string FakeExecutor::NodeName(int index) const { return absl::StrCat("n", index); }

NodeObservation FakeExecutor::NodeReport(int index) const {
  NodeObservation node;
  node.set_node(NodeName(index));
  node.mutable_allocatable()->set_cpu_millis(cpu_millis_);
  node.mutable_allocatable()->set_memory_bytes(int64_t{1} << 30);
  node.set_host(absl::StrCat("10.0.0.", index));
  if (const auto taints = taints_.find(node.node()); taints != taints_.end()) {
    for (const auto& [key, value] : taints->second) {
      capstan::type::v1::Taint& taint = *node.add_taints();
      taint.set_key(key);
      taint.set_value(value);
    }
  }
  if (const auto gpus = mig_gpus_.find(node.node()); gpus != mig_gpus_.end()) {
    for (const std::string& model : gpus->second) {
      capstan::type::v1::MigGpu& gpu = *node.add_mig_gpus();
      gpu.set_index(node.mig_gpus_size() - 1);
      gpu.set_model(model);
    }
  }
  if (const auto labels = labels_.find(node.node()); labels != labels_.end()) {
    node.mutable_labels()->insert(labels->second.begin(), labels->second.end());
  }
  auto it = silent_.find(node.node());
  node.set_silent(it != silent_.end() && it->second);
  return node;
}

void FakeExecutor::Connect() {
  session_ = next_session_++;
  renewals_sent_.clear();
  HelloReceived hello;
  hello.session = session_;
  hello.hello.set_cluster(cluster_);
  hello.hello.set_incarnation(1);
  harness_->Deliver(harness_->Apply(hello));
  if (connected()) Observe(Keys(), /*nodes=*/true, /*sync_complete=*/true);
}

void FakeExecutor::Disconnect() {
  if (session_ == 0) return;
  SessionClosed closed;
  closed.session = std::exchange(session_, 0);
  harness_->Deliver(harness_->Apply(closed));
}

void FakeExecutor::Renew() {
  if (session_ == 0) return;
  RenewalReceived renewal;
  renewal.session = session_;
  renewal.sequence = ++renewals_;
  renewal.leader_until = harness_->now().boot + absl::Seconds(1);
  renewals_sent_[renewal.sequence] = harness_->now().boot;
  harness_->Deliver(harness_->Apply(renewal));
}

std::vector<std::string> FakeExecutor::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, task] : tasks_) keys.push_back(key);
  return keys;
}

void FakeExecutor::Take(const std::vector<Effect>& effects) {
  std::vector<std::string> changed;
  std::set<std::string> named;
  for (const CloseSession& close : Of<CloseSession>(effects)) {
    if (close.session == session_) session_ = 0;
  }
  for (const SendDown& send : Of<SendDown>(effects)) {
    if (session_ == 0 || send.session != session_) continue;
    if (send.message.has_renewal_answer()) {
      const BootTime sent = renewals_sent_[send.message.renewal_answer().sequence()];
      for (auto& [key, task] : tasks_) {
        if (hears(task.desired.node())) task.confirmed_at = std::max(task.confirmed_at, sent);
      }
    }
    for (const std::string& node : send.message.observations_ack().returned_nodes()) {
      auto it = silent_.find(node);
      if (it != silent_.end() && !it->second) silent_.erase(it);
    }
    for (const DesiredTask& desired : send.message.desired().tasks()) {
      const std::string key = TextOf(desired.key());
      auto [it, added] = tasks_.try_emplace(key);
      Task& task = it->second;
      if (added) {
        *task.observed.mutable_key() = desired.key();
        task.observed.set_node(desired.node());
        task.confirmed_at = harness_->now().boot;
      }
      if (!added && desired.phase() < task.desired.phase()) continue;
      task.desired = desired;
      if (desired.phase() == DesiredTask::PHASE_STOP && hears(desired.node()) && !slow_to_stop_ &&
          task.observed.state() != TaskObservation::STATE_ENDED) {
        task.observed.set_state(TaskObservation::STATE_ENDED);
        task.observed.mutable_end()->set_cause(TaskEnd::CAUSE_STOPPED);
        changed.push_back(key);
      }
    }
    for (const TaskKey& key : send.message.desired().forgotten()) {
      auto it = tasks_.find(TextOf(key));
      if (it == tasks_.end()) continue;
      EXPECT_EQ(it->second.observed.state(), TaskObservation::STATE_ENDED) << it->first;
      tasks_.erase(it);
    }
  }
  if (!changed.empty() && session_ != 0) Observe(changed, false, false);
}

void FakeExecutor::Observe(const std::vector<std::string>& keys, bool nodes, bool sync_complete) {
  if (session_ == 0) return;
  ObservationsReceived event;
  event.session = session_;
  event.observations.set_journal_sequence(++sequence_);
  event.observations.set_sync_complete(sync_complete);
  for (int i = 0; nodes && i < nodes_; ++i) *event.observations.add_nodes() = NodeReport(i);
  for (const std::string& key : keys) {
    const TaskObservation& observed = tasks_.at(key).observed;
    if (observed.state() == TaskObservation::STATE_UNSPECIFIED) continue;
    *event.observations.add_tasks() = observed;
  }
  harness_->Deliver(harness_->Apply(event));
}

void FakeExecutor::Report(const std::string& key) { Observe({key}, false, false); }

void FakeExecutor::PrepareAll() {
  std::vector<std::string> changed;
  for (auto& [key, task] : tasks_) {
    if (task.desired.phase() != DesiredTask::PHASE_PREPARE || !hears(task.desired.node()) ||
        task.observed.state() >= TaskObservation::STATE_PREPARED) {
      continue;
    }
    task.observed.set_state(TaskObservation::STATE_PREPARED);
    task.observed.set_host(absl::StrCat("host-", task.desired.node()));
    int port = 20000;
    for (const std::string& name : task.desired.launch().ports()) {
      (*task.observed.mutable_ports())[name] = port++;
    }
    changed.push_back(key);
  }
  if (!changed.empty()) Observe(changed, false, false);
}

void FakeExecutor::RunAll() {
  std::vector<std::string> changed;
  for (auto& [key, task] : tasks_) {
    if (task.desired.phase() != DesiredTask::PHASE_START || !hears(task.desired.node()) ||
        task.observed.state() >= TaskObservation::STATE_RUNNING) {
      continue;
    }
    task.observed.set_state(TaskObservation::STATE_RUNNING);
    changed.push_back(key);
  }
  if (!changed.empty()) Observe(changed, false, false);
}

void FakeExecutor::End(const std::string& key, TaskEnd::Cause cause, int code) {
  Task& task = tasks_.at(key);
  task.observed.set_state(TaskObservation::STATE_ENDED);
  task.observed.mutable_end()->set_cause(cause);
  if (cause == TaskEnd::CAUSE_SIGNALED) {
    task.observed.mutable_end()->set_signal(code);
  } else {
    task.observed.mutable_end()->set_exit_code(code);
  }
  if (hears(task.desired.node())) Report(key);
}

void FakeExecutor::ReportNode(int index, bool silent) {
  silent_[NodeName(index)] = silent;
  if (session_ == 0) return;
  ObservationsReceived event;
  event.session = session_;
  event.observations.set_journal_sequence(++sequence_);
  *event.observations.add_nodes() = NodeReport(index);
  harness_->Deliver(harness_->Apply(event));
  if (silent || session_ == 0) return;
  // What it missed while it did not hear the Node.
  std::vector<std::string> keys;
  for (auto& [key, task] : tasks_) {
    if (task.desired.node() != NodeName(index)) continue;
    if (task.desired.phase() == DesiredTask::PHASE_STOP &&
        task.observed.state() != TaskObservation::STATE_ENDED) {
      task.observed.set_state(TaskObservation::STATE_ENDED);
      task.observed.mutable_end()->set_cause(TaskEnd::CAUSE_STOPPED);
    }
    keys.push_back(key);
  }
  Observe(keys, false, false);
}

void FakeExecutor::Fence() {
  std::vector<std::string> ended;
  for (auto& [key, task] : tasks_) {
    if (!task.running()) continue;
    const absl::Duration fence_after = ToDuration(task.desired.launch().fence_after());
    if (harness_->now().boot < task.confirmed_at + fence_after) continue;
    task.observed.set_state(TaskObservation::STATE_ENDED);
    task.observed.mutable_end()->set_cause(TaskEnd::CAUSE_FENCED);
    if (hears(task.desired.node())) ended.push_back(key);
  }
  if (!ended.empty()) Observe(ended, false, false);
}

}  // namespace capstan::scheduler
