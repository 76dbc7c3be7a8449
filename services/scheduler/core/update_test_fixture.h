#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_UPDATE_TEST_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_UPDATE_TEST_FIXTURE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

// Two Nodes of four cores each, and people who change Jobs of project p.
class UpdateTest : public SchedulerCoreTest {
 protected:
  static v1::JobSpec Spec(int replicas, int priority = 0,
                          absl::Duration time_limit = absl::InfiniteDuration()) {
    v1::JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_priority(priority);
    if (time_limit != absl::InfiniteDuration()) *spec.mutable_time_limit() = ToProto(time_limit);
    return spec;
  }
  static rec::JobChange Priority(int priority) {
    rec::JobChange change;
    change.set_priority(priority);
    return change;
  }
  // Zero: none.
  static rec::JobChange TimeLimit(absl::Duration limit) {
    rec::JobChange change;
    *change.mutable_time_limit() = ToProto(limit);
    return change;
  }
  static rec::JobChange Held(bool hold) {
    rec::JobChange change;
    change.set_hold(hold);
    return change;
  }
  UpdateJob UpdateOf(const std::string& id, const rec::JobChange& change) {
    UpdateJob update;
    update.call = harness_.next_call();
    update.name = absl::StrCat("projects/p/jobs/", id);
    update.change = change;
    return update;
  }
  absl::StatusOr<v1::Job> Apply(const UpdateJob& update) {
    const std::vector<Effect> effects = harness_.Apply(update);
    executor_.Take(effects);
    const std::vector<ReplyJob> replies = Of<ReplyJob>(effects);
    EXPECT_EQ(replies.size(), 1u);
    return replies.empty() ? absl::InternalError("no reply") : replies[0].job;
  }
  absl::StatusOr<v1::Job> Update(const std::string& id, const rec::JobChange& change) {
    return Apply(UpdateOf(id, change));
  }
  void Hold(const std::string& id) {
    const auto held = Update(id, Held(true));
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(held->hold());
  }
  void Release(const std::string& id) {
    const auto released = Update(id, Held(false));
    ASSERT_TRUE(released.ok()) << released.status();
    EXPECT_FALSE(released->hold());
  }
  void Reconnect() {
    executor_.Disconnect();
    harness_.NewLeader();
    executor_.Connect();
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  // All Tasks of that generation have done their work.
  void Finish(const std::string& uid, int64_t generation = 1) {
    const std::string prefix = absl::StrCat(uid, "/", generation, "/");
    for (const std::string& key : executor_.Keys()) {
      if (key.rfind(prefix, 0) == 0) {
        executor_.End(key, capstan::type::v1::TaskEnd::CAUSE_EXITED);
      }
    }
  }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_UPDATE_TEST_FIXTURE_H_
