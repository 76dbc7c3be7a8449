#include "services/scheduler/core/job_spans.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/variant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using ::capstan::type::v1::TaskEnd;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kCaller[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kUnsampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

class JobSpansTest : public SchedulerCoreTest {
 protected:
  JobSpansTest() { executor_.Connect(); }

  // `name < parent` of each span told, `?` for a parent that was not told.
  std::vector<std::string> Tree() const {
    std::vector<std::string> lines;
    for (const trace::Span& span : harness_.spans()) {
      std::string parent = span.parent == trace::Parse(kCaller)->span ? "caller" : "?";
      for (const trace::Span& other : harness_.spans()) {
        if (other.context.span == span.parent) parent = other.name;
      }
      lines.push_back(absl::StrCat(span.name, " < ", parent));
    }
    return lines;
  }
  const trace::Span& Find(const std::string& name) const {
    return *std::find_if(harness_.spans().begin(), harness_.spans().end(),
                         [&](const trace::Span& span) { return span.name == name; });
  }
  static std::string TextOf(const trace::Span& span, const std::string& key) {
    for (const trace::Attribute& attribute : span.attributes) {
      if (attribute.key != key) continue;
      if (const auto* number = absl::get_if<int64_t>(&attribute.value)) {
        return absl::StrCat(*number);
      }
      return absl::get<std::string>(attribute.value);
    }
    return "";
  }
};

TEST_F(JobSpansTest, TheLifeOfAJobIsOneTree) {
  harness_.set_traceparent(kCaller);
  RunJob("a", CoreHarness::Spec(2, 1000));
  const absl::Time started = harness_.now().wall;
  AdvanceHeard(absl::Seconds(9));
  for (const std::string& key : executor_.Keys()) {
    executor_.End(key, TaskEnd::CAUSE_EXITED);
  }
  ASSERT_EQ(StateOf("a"), v1::Job::STATE_SUCCEEDED);
  EXPECT_THAT(Tree(),
              ElementsAre("job.submit < caller", "job.queue < job", "job.place < job.generation",
                          "job.prepare < job.generation", "job.generation < job",
                          "job.run < job.generation", "job < caller"));
  for (const trace::Span& span : harness_.spans()) {
    EXPECT_EQ(trace::TraceIdOf(span.context), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_FALSE(span.failed);
    EXPECT_LE(span.begin, span.end);
    EXPECT_EQ(TextOf(span, "capstan.job"), "projects/p/jobs/a");
    EXPECT_EQ(TextOf(span, "capstan.job_uid"), "a");
  }
  const trace::Span& run = Find("job.run");
  EXPECT_EQ(run.begin, started);
  EXPECT_EQ(run.end - run.begin, absl::Seconds(9));
  const trace::Span& generation = Find("job.generation");
  EXPECT_EQ(TextOf(generation, "capstan.generation"), "1");
  EXPECT_EQ(TextOf(generation, "capstan.cluster"), "local");
  EXPECT_EQ(TextOf(generation, "capstan.task_count"), "2");
  EXPECT_NE(TextOf(generation, "capstan.nodes"), "");
}

TEST_F(JobSpansTest, TheOrdersCarryTheGenerationsSpan) {
  harness_.set_traceparent(kCaller);
  RunJob("a", CoreHarness::Spec(2, 1000));
  ASSERT_EQ(executor_.Keys().size(), 2u);
  for (const auto& [key, task] : executor_.tasks()) {
    EXPECT_EQ(task.desired.launch().traceparent(),
              trace::ToTraceparent(*GenerationTrace(harness_.job("a"))));
  }
}

TEST_F(JobSpansTest, ANewLeaderTellsOfTheSameSpans) {
  harness_.set_traceparent(kCaller);
  RunJob("a", CoreHarness::Spec(1, 1000));
  const absl::Time started = harness_.now().wall;
  AdvanceHeard(absl::Seconds(6));
  harness_.NewLeader();
  executor_.Disconnect();
  executor_.Connect();
  executor_.End(executor_.Keys().front(), TaskEnd::CAUSE_EXITED);
  ASSERT_EQ(StateOf("a"), v1::Job::STATE_SUCCEEDED);
  EXPECT_EQ(Find("job.run").begin, started);
  EXPECT_EQ(Tree().back(), "job < caller");
  EXPECT_EQ(Find("job").begin, Find("job.submit").begin);
}

TEST_F(JobSpansTest, ARestartIsAGenerationMore) {
  harness_.set_traceparent(kCaller);
  RunJob("a", CoreHarness::Spec(1, 1000));
  executor_.End(executor_.Keys().front(), TaskEnd::CAUSE_EXITED, /*code=*/1);
  Advance(absl::Minutes(1));
  executor_.PrepareAll();
  executor_.RunAll();
  ASSERT_EQ(harness_.job("a").state.generation(), 2);
  const trace::Span& first = Find("job.generation");
  EXPECT_TRUE(first.failed);
  EXPECT_EQ(TextOf(first, "capstan.generation"), "1");
  EXPECT_NE(GenerationTrace(harness_.job("a"))->span, first.context.span);
  const std::vector<std::string> tree = Tree();
  EXPECT_EQ(std::count(tree.begin(), tree.end(), "job.back_off < ?"), 1);
}

TEST_F(JobSpansTest, NothingIsToldOfAJobThatNobodyWantsRecorded) {
  harness_.set_traceparent(kUnsampled);
  RunJob("a", CoreHarness::Spec(1, 1000));
  harness_.set_traceparent("");
  RunJob("b", CoreHarness::Spec(1, 1000));
  for (const std::string& key : executor_.Keys()) {
    executor_.End(key, TaskEnd::CAUSE_EXITED);
  }
  EXPECT_THAT(harness_.spans(), IsEmpty());
  // Carried on all the same.
  for (const auto& [key, task] : executor_.tasks()) {
    EXPECT_EQ(task.desired.launch().traceparent().empty(), key.front() == 'b');
  }
}

}  // namespace
}  // namespace capstan::scheduler
