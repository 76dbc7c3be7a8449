#include "libs/trace/tracer.h"

#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/metrics/registry.h"
#include "libs/time/simulated_clock.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "libs/trace/span_queue.h"

namespace capstan::trace {
namespace {

Span SpanOf(const Context& context) {
  Span span;
  span.context = context;
  return span;
}

class TracerTest : public ::testing::Test {
 protected:
  metrics::Counter Dropped() { return registry_.AddCounter("spans_total", "Spans."); }

  metrics::Registry registry_{"process"};
  SimulatedClock clock_;
  SpanQueue queue_{3, Dropped()};
};

TEST_F(TracerTest, ATraceThatBeginsHereIsSampledByTheRatioOfItsId) {
  Tracer tracer({.ratio = 0.25, .background_ratio = 0}, &clock_, 7, &queue_);
  int sampled = 0;
  for (int i = 0; i < 4000; ++i) {
    const Context context = tracer.NewTrace(/*background=*/false);
    EXPECT_NE(context.span, 0u);
    if (context.sampled) ++sampled;
    EXPECT_FALSE(tracer.NewTrace(/*background=*/true).sampled);
  }
  EXPECT_GT(sampled, 900);
  EXPECT_LT(sampled, 1100);
}

TEST_F(TracerTest, WhoContinuesATraceFollowsItsBeginner) {
  Tracer tracer({.ratio = 0}, &clock_, 7, &queue_);
  for (const bool sampled : {true, false}) {
    const Context parent{.trace_high = 1, .trace_low = 2, .span = 3, .sampled = sampled};
    const Context child = tracer.NewChild(parent);
    EXPECT_EQ(child.trace_high, 1u);
    EXPECT_EQ(child.trace_low, 2u);
    EXPECT_NE(child.span, 3u);
    EXPECT_EQ(child.sampled, sampled);
    tracer.End(SpanOf(child));
  }
  EXPECT_EQ(queue_.size(), 1u);
}

TEST_F(TracerTest, WithoutASinkNothingIsSampled) {
  Tracer tracer({.ratio = 1, .background_ratio = 1}, &clock_, 7, nullptr);
  EXPECT_FALSE(tracer.records());
  EXPECT_FALSE(tracer.NewTrace(false).sampled);
}

TEST_F(TracerTest, AfterCloseTheSinkIsNotUsed) {
  Tracer tracer({}, &clock_, 7, &queue_);
  clock_.Advance(absl::Seconds(5));
  tracer.EndNow(SpanOf(tracer.NewTrace(false)));
  const std::vector<Span> spans = queue_.Take(1);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].end, clock_.Read().wall);
  const Context late = tracer.NewTrace(false);
  tracer.Close();
  tracer.EndNow(SpanOf(late));
  tracer.End(SpanOf(late));
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(TracerTest, AFullQueueDropsAndCounts) {
  const Context context{.trace_high = 1, .trace_low = 2, .span = 3, .sampled = true};
  int notices = 0;
  queue_.NotifyAt(2, [&] { ++notices; });
  for (int i = 0; i < 5; ++i) queue_.End(SpanOf(context));
  EXPECT_EQ(queue_.size(), 3u);
  EXPECT_EQ(notices, 1);
  EXPECT_EQ(Dropped().value(), 2);
  EXPECT_EQ(queue_.Take(2).size(), 2u);
  EXPECT_EQ(queue_.Take(2).size(), 1u);
}

TEST_F(TracerTest, AScopeIsOfItsThreadAndNests) {
  const Context outer{.trace_high = 1, .trace_low = 1, .span = 1};
  const Context inner{.trace_high = 2, .trace_low = 2, .span = 2};
  const Context process{.trace_high = 3, .trace_low = 3, .span = 3};
  EXPECT_EQ(Scope::Current(), absl::nullopt);
  {
    const Scope first(outer);
    EXPECT_EQ(Scope::Current(), outer);
    {
      const Scope second(inner);
      EXPECT_EQ(Scope::Current(), inner);
    }
    EXPECT_EQ(Scope::Current(), outer);
    std::thread([] { EXPECT_EQ(Scope::Current(), absl::nullopt); }).join();
  }
  EXPECT_EQ(Scope::Current(), absl::nullopt);
  Scope::SetProcessContext(process);
  std::thread([&] { EXPECT_EQ(Scope::Current(), process); }).join();
  Scope::SetProcessContext(absl::nullopt);
}

TEST_F(TracerTest, ManyThreadsEndSpansWhileItIsClosed) {
  Tracer tracer({}, &clock_, 7, &queue_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) tracer.EndNow(SpanOf(tracer.NewTrace(false)));
    });
  }
  tracer.Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(queue_.size(), 3u);
}

}  // namespace
}  // namespace capstan::trace
