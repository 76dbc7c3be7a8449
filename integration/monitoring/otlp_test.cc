// A whole platform sends its spans to a real OpenTelemetry Collector: what `capstan job submit`
// sets in motion is one trace, from the command to the Task.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/monitoring/otel_collector.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

// On which every span of the trace hangs.
constexpr char kRoot[] = "cli capstan job submit";
constexpr char kCreateJob[] = "capstan.scheduler.v1.JobService/CreateJob";

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

class OtlpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    folder_ = absl::StrCat(::testing::TempDir(), "/otlp");
    auto started = OtelCollector::Start(folder_);
    ASSERT_TRUE(started.ok()) << started.status();
    collector_ = *std::move(started);
    platform_ = std::make_unique<TestPlatform>(
        absl::StrCat("monitoring:\n  access_log: {calls: CALLS_ALL}\n  traces: {otlp_address: '",
                     collector_->address(), "'}\n"));
    ASSERT_TRUE(platform_->Await([&] { return collector_->Ready(); }))
        << Contents(folder_ + "/otel/log");
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
  }

  // Of the trace in which a command was run.
  std::vector<ReceivedSpan> TraceOf(const std::string& command) const {
    const std::vector<ReceivedSpan> all = collector_->Spans();
    std::vector<ReceivedSpan> trace;
    for (const ReceivedSpan& root : all) {
      if (root.name != command) continue;
      for (const ReceivedSpan& span : all) {
        if (span.trace_id == root.trace_id) trace.push_back(span);
      }
    }
    return trace;
  }
  static absl::optional<ReceivedSpan> Find(const std::vector<ReceivedSpan>& trace,
                                           const std::string& name, int kind) {
    for (const ReceivedSpan& span : trace) {
      if (span.name == name && span.kind == kind) return span;
    }
    return absl::nullopt;
  }
  // `service name` of a span and of all above it.
  static std::vector<std::string> PathUp(const std::vector<ReceivedSpan>& trace,
                                         ReceivedSpan span) {
    std::vector<std::string> path;
    while (path.size() < 20) {
      path.push_back(absl::StrCat(span.service, " ", span.name));
      const auto parent = std::find_if(trace.begin(), trace.end(), [&](const ReceivedSpan& other) {
        return other.span_id == span.parent_id;
      });
      if (parent == trace.end()) {
        if (!span.parent_id.empty()) path.emplace_back("a span that never came");
        break;
      }
      span = *parent;
    }
    return path;
  }

  std::string folder_;
  std::unique_ptr<OtelCollector> collector_;
  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(OtlpTest, WhatASubmitSetsInMotionIsOneTrace) {
  const CommandResult submitted = platform_->SubmitText(
      "traced",
      "job_id: traced\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
      "      argv: [/bin/sh, -c, 'echo seen $TRACEPARENT']\n"
      "      resources: {cpu: 10m, memory: 32Mi}\n");
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  platform_->MustSucceed("traced");
  const auto whole = [&] {
    const std::vector<ReceivedSpan> trace = TraceOf("capstan job submit");
    // Processes send theirs at times of their own: a child may come before its parent.
    return Find(trace, "job", 1).has_value() && Find(trace, "task.run", 1).has_value() &&
           std::all_of(trace.begin(), trace.end(), [&](const ReceivedSpan& span) {
             return PathUp(trace, span).back() == kRoot;
           });
  };
  ASSERT_TRUE(platform_->Await(whole)) << Contents(folder_ + "/otel/log");
  const std::vector<ReceivedSpan> trace = TraceOf("capstan job submit");

  std::set<std::string> services;
  std::set<std::string> names;
  std::set<std::string> ids;
  for (const ReceivedSpan& span : trace) {
    services.insert(span.service);
    names.insert(span.name);
    EXPECT_TRUE(ids.insert(span.span_id).second) << "twice: " << span.name;
    EXPECT_LE(span.begin_ns, span.end_ns) << span.name;
    EXPECT_EQ(PathUp(trace, span).back(), kRoot) << span.name;
  }
  EXPECT_THAT(services, IsSupersetOf({"cli", "scheduler", "executor", "node_agent"}));
  EXPECT_THAT(names, IsSupersetOf({"job.submit", "job.queue", "job.place", "job.prepare", "job.run",
                                   "job.generation", "executor.order_prepare", "task.prepare",
                                   "task.start"}));

  const ReceivedSpan run = *Find(trace, "task.run", 1);
  EXPECT_THAT(
      PathUp(trace, run),
      ElementsAre("node_agent task.run", "executor executor.order_start",
                  "scheduler job.generation", "scheduler job",
                  absl::StrCat("scheduler ", kCreateJob), absl::StrCat("cli ", kCreateJob), kRoot));
  EXPECT_EQ(run.attributes.at("capstan.job"), "projects/default/jobs/traced");
  EXPECT_EQ(run.attributes.at("capstan.generation"), "1");
  EXPECT_EQ(run.attributes.at("capstan.node"), "node-0");
  EXPECT_EQ(Find(trace, "job.generation", 1)->attributes.at("capstan.nodes"), "node-0");
  EXPECT_EQ(Find(trace, kCreateJob, 3)->attributes.at("rpc.grpc.status_code"), "0");

  // The Task was told to continue it.
  std::string logs;
  ASSERT_TRUE(platform_->Await([&] {
    logs = platform_->MustCapstan({"job", "logs", "traced"});
    return absl::StrContains(logs, "seen ");
  }));
  EXPECT_THAT(
      logs, ::testing::HasSubstr(absl::StrCat("seen 00-", run.trace_id, "-", run.span_id, "-01")));

  // The access log names the trace, and who called, and nothing of what was said.
  const std::string log = Contents(platform_->data_dir() + "/log/scheduler.log");
  const size_t line = log.find(absl::StrCat("method=/", kCreateJob));
  ASSERT_NE(line, std::string::npos) << log;
  const std::string call = log.substr(line, log.find('\n', line) - line);
  EXPECT_THAT(call, ::testing::HasSubstr(absl::StrCat("trace_id=", run.trace_id)));
  EXPECT_THAT(call, ::testing::HasSubstr("/person/"));
  EXPECT_THAT(call, ::testing::HasSubstr("code=OK"));
  EXPECT_FALSE(absl::StrContains(call, "echo seen"));
}

TEST_F(OtlpTest, NothingWaitsForACollectorThatIsGone) {
  collector_ = nullptr;
  const CommandResult submitted = platform_->SubmitText(
      "alone",
      "job_id: alone\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
      "      argv: [/bin/true]\n      resources: {cpu: 10m, memory: 32Mi}\n");
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  platform_->MustSucceed("alone");
}

}  // namespace
}  // namespace capstan::integration
