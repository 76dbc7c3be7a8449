#include "services/scheduler/core/shared_state.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/simulated_state.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::SimulatePlacementRequest;

JobEntry JobOf(int number, Random* random) {
  JobEntry job;
  job.spec.set_uid(absl::StrCat("u", number));
  job.spec.set_name(absl::StrCat("projects/p/jobs/j", number));
  job.spec.set_submit_sequence(number);
  job.spec.mutable_spec()->set_priority(static_cast<int>(random->Between(0, 2)));
  (*job.spec.mutable_spec()->mutable_labels())["run"] = random->Uuid4();
  job.state.set_state(Job::STATE_QUEUED);
  if (random->OneIn(3)) {
    job.state.set_state(Job::STATE_RUNNING);
    job.gang.emplace();
    job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
    job.gang->nodes = {"n"};
    job.gang->tasks.resize(1);
  } else if (random->OneIn(3)) {
    job.state.set_state(Job::STATE_SUCCEEDED);
  } else {
    job.state.set_reason(random->OneIn(3) ? "DEPENDENCY" : "INSUFFICIENT_RESOURCES");
  }
  return job;
}

// Whose one Job comes after some, of which some are not there.
SimulatePlacementRequest After(int jobs, Random* random) {
  SimulatePlacementRequest request;
  auto& spec = *request.add_jobs();
  for (int64_t n = random->Between(0, 4); n > 0; --n) {
    spec.add_after()->set_job(absl::StrCat("projects/p/jobs/j", random->Between(1, jobs + 2)));
  }
  return request;
}

SimulatedState Copied(const Model& model) {
  StateCopy copy;
  while (!copy.Copy(model, 7)) {
  }
  return copy.Take();
}

void ExpectSame(const SimulatedState& a, const SimulatedState& b, uint64_t seed) {
  EXPECT_EQ(AllRecords(a.model), AllRecords(b.model)) << "seed " << seed;
  EXPECT_EQ(a.waiting, b.waiting);
  EXPECT_EQ(a.left_out, b.left_out);
}

TEST(SharedStateTest, EachIsWhatOneAloneWouldHaveHad) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    auto model = std::make_unique<Model>();
    const int jobs = static_cast<int>(random.Between(1, 100));
    for (int i = 1; i <= jobs; ++i) model->jobs.Add(JobOf(i, &random));
    model->jobs.Rest();
    model->nodes[{"c", "n"}].set_schema_version(1);
    std::vector<SimulatePlacementRequest> requests;
    std::vector<SimulatedState> alone;
    for (int i = 0; i < 6; ++i) {
      requests.push_back(After(jobs, &random));
      alone.push_back(StateForSimulation(*model, requests.back()));
    }
    SharedState shared(Copied(*model), *model, requests);
    // What it was copied from is no longer needed.
    model = nullptr;
    for (size_t i = 0; i + 1 < requests.size(); ++i) {
      SimulatedState state = shared.For(requests[i]);
      ExpectSame(state, alone[i], seed);
      // What becomes of one is nothing to the others.
      state.model.jobs.Add(JobOf(jobs + 1, &random));
      state.model.nodes.clear();
      if (JobEntry* const job = state.model.jobs.Find("u1")) job->state.set_reason("CHANGED");
      state.model.jobs.Rest();
    }
    ExpectSame(shared.TakeFor(requests.back()), alone.back(), seed);
  }
}

TEST(SharedStateTest, ThoseLeftOutStayCounted) {
  Model model;
  for (size_t i = 0; i < kMaxSimulatedWaiting + 5; ++i) {
    JobEntry job;
    job.spec.set_uid(absl::StrCat("u", i));
    job.spec.set_name(absl::StrCat("projects/p/jobs/j", i));
    job.spec.set_submit_sequence(static_cast<int64_t>(i));
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    model.jobs.Add(std::move(job));
  }
  model.jobs.Rest();
  const SharedState shared(Copied(model), model, {});
  const SimulatedState state = shared.For({});
  EXPECT_EQ(state.waiting, static_cast<int>(kMaxSimulatedWaiting));
  EXPECT_EQ(state.left_out, 5);
  EXPECT_EQ(state.model.jobs.size(), kMaxSimulatedWaiting);
}

}  // namespace
}  // namespace capstan::scheduler
