#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ELASTIC_TEST_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ELASTIC_TEST_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Two Nodes of four cores each, which are connected.
class ElasticTest : public SchedulerCoreTest {
 protected:
  ElasticTest() { executor_.Connect(); }

  static v1::JobSpec Elastic(int least, int most, int64_t cpu_millis = 1000) {
    v1::JobSpec spec = CoreHarness::Spec(most, cpu_millis);
    spec.mutable_task_groups(0)->set_min_replicas(least);
    return spec;
  }
  int SizeNow(const std::string& uid, int group = 0) const {
    return SizeOf(harness_.job(uid), group);
  }
  int64_t GenerationOf(const std::string& uid) const {
    return harness_.job(uid).state.generation();
  }
  void Cancel(const std::string& uid) {
    executor_.Take(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", uid), ""}));
  }
  // With a guarantee of so much CPU, if it is not 0, and a bound of what it may borrow.
  void CreateCpuQueue(const std::string& id, int64_t guarantee,
                      absl::optional<int64_t> borrowing_limit = absl::nullopt) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    if (guarantee > 0) {
      auto& quota = *create.queue.add_quotas();
      quota.set_resource("cpu");
      quota.set_guarantee(guarantee);
      if (borrowing_limit.has_value()) {
        quota.mutable_borrowing_limit()->set_amount(*borrowing_limit);
      }
    }
    executor_.Take(harness_.Apply(create));
  }
  // Events of Jobs with this reason.
  int Told(const std::string& reason) const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(
        events.begin(), events.end(),
        [&reason](const auto& event) { return event.reason() == reason && !event.has_task(); }));
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ELASTIC_TEST_FIXTURE_H_
