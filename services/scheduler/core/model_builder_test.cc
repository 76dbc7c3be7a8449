#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/records.pb.h"
#include "services/scheduler/core/restored_record.h"

namespace capstan::scheduler {
namespace {

constexpr int kNodes = 5;
constexpr int kWaiting = 40;

Model SomeModel() {
  Model model;
  bench_fleet::AddFull(kNodes, absl::UnixEpoch(), &model);
  for (int i = 0; i < kWaiting; ++i) {
    bench_fleet::AddQueued(bench_fleet::SpecOf(i % bench_fleet::kShapes, 0), absl::UnixEpoch(),
                           &model);
  }
  return model;
}

// In the order in which a RecordReader gives them: heads of gangs before specs, specs before
// states, Tasks last.
std::vector<std::pair<std::string, std::string>> InOrderOfReading(const Model& model) {
  const std::map<std::string, std::string> records = AllRecords(model);
  return {records.begin(), records.end()};
}

TEST(ModelBuilderTest, PagesOfAnySizeMakeTheSame) {
  const Model model = SomeModel();
  const auto records = InOrderOfReading(model);
  for (const size_t page : {1, 2, 7, 50, 1000}) {
    ModelBuilder builder;
    std::set<std::string> touched;
    for (size_t first = 0; first < records.size(); first += page) {
      const size_t end = std::min(records.size(), first + page);
      for (size_t i = first; i < end; ++i) {
        ASSERT_TRUE(builder.Apply(records[i].first, absl::string_view(records[i].second)).ok());
      }
      const absl::Status resolved =
          end == records.size() ? builder.Resolve() : builder.ResolveComplete();
      ASSERT_TRUE(resolved.ok()) << resolved;
      for (const std::string& uid : builder.TakeTouchedJobs()) {
        EXPECT_TRUE(touched.insert(uid).second) << uid << " is told of twice";
      }
    }
    EXPECT_EQ(touched.size(), static_cast<size_t>(kNodes + kWaiting));
    EXPECT_EQ(AllRecords(builder.model()), AllRecords(model)) << "pages of " << page;
    EXPECT_TRUE(builder.StaleChunks().empty());
  }
}

// Most Jobs wait: they are in the model as soon as their states are read, not all at once at the
// end. One whose Tasks are still to come is not.
TEST(ModelBuilderTest, WhatIsCompleteIsThereBeforeTheRestIsRead) {
  const Model model = SomeModel();
  ModelBuilder builder;
  for (const auto& [key, value] : InOrderOfReading(model)) {
    if (absl::StartsWith(key, absl::StrCat(kKeyPrefix, "tasks/"))) break;
    ASSERT_TRUE(builder.Apply(key, absl::string_view(value)).ok());
  }
  ASSERT_TRUE(builder.ResolveComplete().ok());
  EXPECT_EQ(builder.model().jobs.size(), static_cast<size_t>(kWaiting));
  EXPECT_EQ(builder.Resolve().code(), absl::StatusCode::kDataLoss);
}

// A builder may be left with records of which no Job was made, and outlive the Model.
TEST(ModelBuilderTest, OutlivesTheModelThatWasTakenFromIt) {
  const Model model = SomeModel();
  ModelBuilder builder;
  for (const auto& [key, value] : InOrderOfReading(model)) {
    if (absl::StartsWith(key, JobSpecKey(""))) continue;
    ASSERT_TRUE(builder.Apply(key, absl::string_view(value)).ok());
  }
  Model taken = builder.TakeModel();
  EXPECT_EQ(taken.jobs.size(), 0u);
}

TEST(ModelBuilderTest, AGenerationThatNoJobReachesIsDamage) {
  for (const auto set :
       {&rec::JobStateRecord::set_generation, &rec::JobStateRecord::set_generation_floor}) {
    rec::JobStateRecord state;
    state.set_schema_version(1);
    (state.*set)(kMaxGeneration);
    EXPECT_TRUE(ModelBuilder().Apply(JobStateKey("u-1"), state.SerializeAsString()).ok());
    (state.*set)(kMaxGeneration + 1);
    const absl::Status refused =
        ModelBuilder().Apply(JobStateKey("u-1"), state.SerializeAsString());
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "u-1")) << refused;
  }
}

}  // namespace
}  // namespace capstan::scheduler
