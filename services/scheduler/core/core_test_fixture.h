#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_TEST_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_TEST_FIXTURE_H_

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// A scheduler core and one executor with two Nodes.
class SchedulerCoreTest : public ::testing::Test {
 protected:
  static CoreConfig Config() {
    CoreConfig config;
    config.min_fence_after = absl::Seconds(1);
    return config;
  }
  v1::Job::State StateOf(const std::string& uid) { return harness_.job(uid).state.state(); }
  std::string ReasonOf(const std::string& uid) { return harness_.job(uid).state.reason(); }
  void Submit(const std::string& id, v1::JobSpec spec) {
    executor_.Take(harness_.Submit(id, spec));
  }
  void Advance(absl::Duration d) { executor_.Take(harness_.Advance(d)); }
  // Advances while the executor renews.
  void AdvanceHeard(absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(3)) {
      executor_.Renew();
      Advance(std::min(d, absl::Seconds(3)));
    }
  }
  void RunJob(const std::string& id, v1::JobSpec spec) {
    Submit(id, spec);
    executor_.PrepareAll();
    executor_.RunAll();
    ASSERT_EQ(StateOf(id), v1::Job::STATE_RUNNING);
  }

  // As of what is stored.
  v1::ExplainJobResponse Explained(const std::string& uid) {
    const Model& model = harness_.core().model();
    NodeUsage usage;
    for (const auto& [id, job] : model.jobs) usage.Update(id, &job);
    const absl::Time now = harness_.now().wall;
    return ExplainJob(model, harness_.job(uid), Standings(model, usage, {}, {}, now), now);
  }

  CoreHarness harness_{Config()};
  FakeExecutor executor_{"local", 2, 4000, &harness_};
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_TEST_FIXTURE_H_
