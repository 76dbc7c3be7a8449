#include "services/scheduler/core/simulated_state.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;

// Jobs that come, go, start and end.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  const Model& model() const { return *model_; }

  std::string Submit() {
    JobEntry job;
    const std::string uid = absl::StrCat("u", ++last_);
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/j", last_));
    job.spec.set_submit_sequence(last_);
    job.spec.mutable_spec()->set_priority(static_cast<int>(random_.Between(0, 2)));
    // Enough of them that the codec learns while a copy is made.
    job.spec.mutable_spec()->set_queue(absl::StrCat("queues/", random_.Uuid4()));
    (*job.spec.mutable_spec()->mutable_labels())["run"] = random_.Uuid4();
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    model_->jobs.Add(std::move(job));
    model_->jobs.Rest();
    return uid;
  }
  // The uid of the Job that has changed.
  std::string Change() {
    const std::string uid = absl::StrCat("u", random_.Between(1, last_));
    JobEntry* const job = model_->jobs.Find(uid);
    if (job == nullptr || random_.OneIn(3)) return Submit();
    if (random_.OneIn(3)) {
      model_->jobs.Erase(uid);
    } else if (!job->gang.has_value()) {
      job->state.set_state(Job::STATE_RUNNING);
      job->gang.emplace();
      job->gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
      job->gang->nodes = {"n"};
      job->gang->tasks.resize(1);
    } else if (job->gang->live()) {
      job->gang->head.set_phase(rec::GangHeadRecord::PHASE_ENDED);
      const bool again = random_.OneIn(2);
      job->state.set_state(again ? Job::STATE_QUEUED : Job::STATE_SUCCEEDED);
      job->state.set_reason(again ? "INSUFFICIENT_RESOURCES" : "");
    }
    model_->jobs.Rest();
    return uid;
  }

 private:
  Random random_;
  int64_t last_ = 0;
  const std::unique_ptr<Model> model_ = std::make_unique<Model>();
};

TEST(StateCopyTest, OfWhatChangesMeanwhileIsAsOfItsEnd) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    World world(seed);
    const int64_t jobs = random.Between(0, 300);
    for (int64_t i = 0; i < jobs; ++i) world.Submit();
    for (int64_t i = 0; i < jobs; ++i) world.Change();
    StateCopy copy;
    while (!copy.Copy(world.model(), random.Between(1, 20))) {
      std::set<std::string> changed;
      for (int64_t n = random.Between(0, 5); n > 0; --n) changed.insert(world.Change());
      copy.JobsChanged(changed);
    }
    const SimulatedState state = copy.Take();
    const SimulatedState whole = StateForSimulation(world.model(), {});
    EXPECT_EQ(AllRecords(state.model), AllRecords(whole.model)) << "seed " << seed;
    EXPECT_EQ(state.waiting, whole.waiting);
    EXPECT_EQ(state.left_out, 0);
  }
}

TEST(StateCopyTest, OfAnotherModelItBeginsAnew) {
  World before(1);
  World after(2);
  for (int i = 0; i < 10; ++i) before.Submit();
  for (int i = 0; i < 3; ++i) after.Submit();
  StateCopy copy;
  ASSERT_FALSE(copy.Copy(before.model(), 4));
  copy.JobsChanged({"u9"});
  ASSERT_FALSE(copy.Copy(after.model(), 2));
  ASSERT_TRUE(copy.Copy(after.model(), 2));
  const SimulatedState state = copy.Take();
  EXPECT_EQ(AllRecords(state.model), AllRecords(StateForSimulation(after.model(), {}).model));
  EXPECT_EQ(state.waiting, 3);
}

TEST(StateCopyTest, OfTooManyThoseThatGoFirstAreTakenThoughTheyComeLate) {
  World world(1);
  // A third of them of each priority: the last that is taken has the middle one.
  for (size_t i = 0; i < 2 * kMaxSimulatedWaiting; ++i) world.Submit();
  StateCopy copy;
  ASSERT_FALSE(copy.Copy(world.model(), 1));
  std::set<std::string> late;
  for (int i = 0; i < 20; ++i) late.insert(world.Submit());
  copy.JobsChanged(late);
  ASSERT_TRUE(copy.Copy(world.model(), SIZE_MAX));
  const SimulatedState state = copy.Take();
  int first = 0;
  for (const std::string& uid : late) {
    const bool goes_first = world.model().jobs.Glance(uid)->priority == 2;
    first += goes_first ? 1 : 0;
    EXPECT_EQ(state.model.jobs.count(uid), goes_first ? 1u : 0u) << uid;
  }
  ASSERT_GT(first, 0);
  EXPECT_EQ(state.waiting, static_cast<int>(kMaxSimulatedWaiting) + first);
  EXPECT_EQ(state.waiting + state.left_out, static_cast<int>(2 * kMaxSimulatedWaiting) + 20);
}

}  // namespace
}  // namespace capstan::scheduler
