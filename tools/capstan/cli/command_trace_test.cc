#include "tools/capstan/cli/command_trace.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/system_clock.h"
#include "libs/trace/context.h"
#include "libs/trace/tracer.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {
namespace {

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class CommandTraceTest : public ::testing::Test {
 protected:
  CommandTraceTest() {
    invocation_.clock = &clock_;
    invocation_.random = &random_;
    invocation_.data_dir = ::testing::TempDir() + "/no_platform";
  }

  const SystemClock clock_;
  Random random_{3};
  Invocation invocation_;
};

TEST_F(CommandTraceTest, ContinuesTheTraceOfTheEnvironment) {
  {
    CommandTrace trace("job list", kTraceparent, invocation_);
    EXPECT_EQ(trace::TraceIdOf(trace.context()), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_NE(trace.context().span, trace::Parse(kTraceparent)->span);
    EXPECT_TRUE(trace.context().sampled);
    EXPECT_EQ(trace::Scope::Current(), trace.context());
    trace.End(absl::OkStatus());
  }
  EXPECT_EQ(trace::Scope::Current(), absl::nullopt);
}

TEST_F(CommandTraceTest, BeginsOneOtherwise) {
  for (const char* wrong : {static_cast<const char*>(nullptr), "", "nonsense"}) {
    CommandTrace trace("job list", wrong, invocation_);
    EXPECT_NE(trace.context().span, 0u);
    // Nobody would record it.
    EXPECT_FALSE(trace.context().sampled);
  }
}

TEST_F(CommandTraceTest, AReceiverThatCannotBeUsedIsNoReasonToFail) {
  invocation_.data_dir = ::testing::TempDir();
  std::ofstream file(invocation_.data_dir + "/endpoints.json");
  file << R"({"traces": {"otlp_address": "127.0.0.1:1", "ca_file": "/no/such/file"}})";
  file.close();
  CommandTrace trace("job list", nullptr, invocation_);
  EXPECT_FALSE(trace.context().sampled);
  trace.End(absl::InternalError("x"));
}

TEST_F(CommandTraceTest, RecordsWhereThePlatformDoes) {
  invocation_.data_dir = ::testing::TempDir();
  std::ofstream file(invocation_.data_dir + "/endpoints.json");
  file << R"({"traces": {"otlp_address": "127.0.0.1:1"}})";
  file.close();
  CommandTrace trace("job list", nullptr, invocation_);
  EXPECT_TRUE(trace.context().sampled);
  // Nobody listens there: soon over all the same.
  trace.End(absl::OkStatus());
}

}  // namespace
}  // namespace capstan::cli
