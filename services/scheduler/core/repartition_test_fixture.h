#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_REPARTITION_TEST_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_REPARTITION_TEST_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// n0 and n1 with an H100 in MIG mode each, n2 without any.
class SchedulerCoreRepartitionTest : public ::testing::Test {
 protected:
  explicit SchedulerCoreRepartitionTest(const CoreConfig& config = Config(),
                                        bool beside_anew = true)
      : harness_(config, nullptr, beside_anew) {
    executor_.set_mig_gpus(0, {"H100-80GB"});
    executor_.set_mig_gpus(1, {"H100-80GB"});
    executor_.Connect();
    executor_.set_slow_to_stop();
  }
  static CoreConfig Config() {
    CoreConfig config;
    config.min_runtime = absl::ZeroDuration();
    config.min_fence_after = absl::Seconds(1);
    config.repartition_max_cost = absl::Hours(1);
    return config;
  }
  static v1::JobSpec Sliced(int replicas, const std::string& profile) {
    v1::JobSpec spec = CoreHarness::Spec(replicas, 10);
    auto& mig = *spec.mutable_task_groups(0)->mutable_resources()->mutable_mig();
    mig.set_model("H100-80GB");
    mig.set_profile(profile);
    return spec;
  }
  void Submit(const std::string& id, const v1::JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void Cancel(const std::string& id) {
    harness_.Deliver(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
  }
  void SetMinRuntime(absl::Duration min_runtime) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = "default";
    *update.queue.mutable_min_runtime() = ToProto(min_runtime);
    update.update_mask.add_paths("min_runtime");
    harness_.Deliver(harness_.Apply(update));
  }
  // Prepares and starts what is to be.
  void Work() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  void Start(const std::string& id, const v1::JobSpec& spec) {
    Submit(id, spec);
    Work();
    ASSERT_EQ(StateOf(id), v1::Job::STATE_RUNNING) << id << ": " << MessageOf(id);
  }
  void Pass(absl::Duration d) {
    for (const BootTime end = harness_.now().boot + d; harness_.now().boot < end;) {
      executor_.Renew();
      harness_.Deliver(harness_.Advance(std::min(end - harness_.now().boot, absl::Seconds(5))));
    }
  }
  // Ends what was told to end; of one Job, if it is named.
  void EndStopped(const std::string& uid = "") {
    for (const std::string& key : executor_.Keys()) {
      const auto task = executor_.tasks().find(key);
      if (task == executor_.tasks().end()) continue;
      const capstan::type::v1::DesiredTask& desired = task->second.desired;
      if (!uid.empty() && desired.key().job_uid() != uid) continue;
      if (desired.phase() != capstan::type::v1::DesiredTask::PHASE_STOP) continue;
      executor_.End(key, capstan::type::v1::TaskEnd::CAUSE_STOPPED);
    }
  }
  void EndAll(const std::string& uid,
              capstan::type::v1::TaskEnd::Cause cause = capstan::type::v1::TaskEnd::CAUSE_EXITED) {
    for (const std::string& key : executor_.Keys()) {
      const auto task = executor_.tasks().find(key);
      if (task == executor_.tasks().end() || task->second.desired.key().job_uid() != uid) continue;
      if (task->second.running()) executor_.End(key, cause);
    }
  }
  void NewLeader() {
    executor_.Disconnect();
    harness_.Deliver(harness_.NewLeader());
    executor_.Connect();
  }
  // One 1g on each GPU: `one` and `other`, with `spec` of one such Task.
  void Scatter(const v1::JobSpec& spec) {
    Start("one", spec);
    Start("filler", Sliced(6, "1g.10gb"));
    Start("other", spec);
    EndAll("filler");
    ASSERT_NE(harness_.job("one").gang->nodes, harness_.job("other").gang->nodes);
  }
  // Which of the two is told to make way; "" if none is.
  std::string Mover() const {
    std::string mover;
    for (const char* uid : {"one", "other"}) {
      if (ReasonOf(uid) == "REPARTITIONED") mover = uid;
    }
    return mover;
  }
  v1::Job::State StateOf(const std::string& uid) const { return harness_.job(uid).state.state(); }
  std::string ReasonOf(const std::string& uid) const { return harness_.job(uid).state.reason(); }
  std::string MessageOf(const std::string& uid) const { return harness_.job(uid).state.message(); }
  // The memory slice at which its first instance begins.
  int StartOf(const std::string& uid) const { return MigInstanceOf(harness_.job(uid), 0)->start(); }
  int64_t GenerationOf(const std::string& uid) const {
    return harness_.job(uid).state.generation();
  }

  CoreHarness harness_;
  FakeExecutor executor_{"local", 3, 4000, &harness_};
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_REPARTITION_TEST_FIXTURE_H_
