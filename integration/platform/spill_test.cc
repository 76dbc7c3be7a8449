// telemetry is down for longer than what waits for it may grow: logs lose their oldest lines, and
// say how many; new Jobs are refused; nothing else is lost, and what runs goes on.
#include <signal.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kConfig[] =
    "scheduler: {max_waiting_events: 30}\n"
    "node_agent:\n"
    "  log_limit: 1Mi\n"
    "  reserved: {cpu: 0, memory: 0}\n";

constexpr int64_t kBefore = 100;
// About six times what the spill takes.
constexpr int64_t kMeanwhile = 60'000;
constexpr int64_t kAfter = 100;
const std::string* const kPadding = new std::string(90, 'x');

std::string LineAt(int64_t number) { return absl::StrCat("line ", number, " ", *kPadding); }

// telemetry is dead, and nobody starts it again until End.
class Outage {
 public:
  explicit Outage(TestPlatform* platform) : platform_(platform) {
    platform_->Signal("supervisor", SIGSTOP);
    platform_->Signal("telemetry", SIGKILL);
    EXPECT_TRUE(platform_->Await([&] { return !platform_->Part("telemetry").has_value(); }));
  }
  ~Outage() { platform_->Signal("supervisor", SIGCONT); }
  Outage(const Outage&) = delete;
  Outage& operator=(const Outage&) = delete;

 private:
  TestPlatform* const platform_;
};

class SpillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(kConfig);
    platform_->Up();
  }

  // One Task that runs a shell script, with its signs in $SIGNS.
  std::string JobOf(absl::string_view id, absl::string_view script) const {
    return absl::StrCat("job_id: ", id,
                        "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                        "      argv: [/bin/sh, -c, \"",
                        script, "\"]\n      env: {SIGNS: ", platform_->folder(),
                        "/witness}\n      resources: {cpu: 10m, memory: 64Mi}\n"
                        "  retry: {max_restarts: 0}\n  stop_grace: 1s\n");
  }
  void MustSubmit(absl::string_view id, absl::string_view script) {
    const CommandResult submitted = platform_->SubmitText(id, JobOf(id, script));
    ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  }
  std::string Sign(absl::string_view name) const {
    return absl::StrCat(platform_->folder(), "/witness/", name);
  }
  void Give(absl::string_view sign) { std::ofstream(Sign(sign)).flush(); }
  bool AwaitSign(absl::string_view sign) {
    return platform_->Await([&] { return std::ifstream(Sign(sign)).good(); });
  }
  // Follows until the log is said to be complete: an agent that had no answer pauses for a while.
  std::string WholeLog(const std::string& job, const std::vector<std::string>& more = {}) {
    std::vector<std::string> line = {"job", "logs", job, "--follow", "--rank", "0"};
    line.insert(line.end(), more.begin(), more.end());
    CommandResult read;
    EXPECT_TRUE(platform_->Await([&] {
      read = platform_->Capstan(line);
      return read.exit_code == 0 && read.err.empty();
    })) << read.err;
    return read.out;
  }

  std::unique_ptr<TestPlatform> platform_;
};

// Lines $1 to $2 of LineAt, in a script within double quotes.
std::string Loop(int64_t first, int64_t last) {
  return absl::StrCat("i=", first, "; while [ $i -le ", last, " ]; do echo line $i ", *kPadding,
                      "; i=$((i+1)); done; ");
}

std::string WaitFor(absl::string_view sign) {
  return absl::StrCat("while [ ! -e $SIGNS/", sign, " ]; do sleep 0.1; done; ");
}

TEST_F(SpillTest, LinesAndGapsAddUpAndNothingElseIsLost) {
  const int64_t all = kBefore + kMeanwhile + kAfter;
  MustSubmit("writer", absl::StrCat(Loop(1, kBefore), WaitFor("go"),
                                    Loop(kBefore + 1, kBefore + kMeanwhile), ": > $SIGNS/written; ",
                                    WaitFor("end"), Loop(kBefore + kMeanwhile + 1, all)));
  ASSERT_TRUE(platform_->Await([&] {
    return absl::StrContains(platform_->MustCapstan({"job", "logs", "writer"}), LineAt(kBefore));
  }));

  std::vector<std::string> taken;
  {
    Outage outage(platform_.get());
    Give("go");
    ASSERT_TRUE(AwaitSign("written")) << "a Task is not held up by what becomes of its log";
    // Each Job tells of itself until no more may wait; then new ones are refused, and those alone.
    CommandResult refused;
    refused.exit_code = 0;
    for (int i = 0; i < 60 && refused.exit_code == 0; ++i) {
      const std::string id = absl::StrCat("told-", i);
      refused = platform_->SubmitText(id, JobOf(id, i == 0 ? "sleep 3600" : "true"));
      if (refused.exit_code == 0) taken.push_back(id);
    }
    EXPECT_EQ(refused.exit_code, static_cast<int>(cli::ExitCode::kExhausted)) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("try again"));
    ASSERT_GT(taken.size(), 1u);
    platform_->MustCapstan({"job", "cancel", "told-0"});
    EXPECT_TRUE(platform_->Await(
        [&] { return platform_->Get("told-0").state() == scheduler::v1::Job::STATE_CANCELLED; }));
    EXPECT_EQ(platform_->Get("writer").state(), scheduler::v1::Job::STATE_RUNNING);
  }
  ASSERT_TRUE(platform_->AwaitReady());
  Give("end");
  EXPECT_EQ(platform_->MustSucceed("writer").generation(), 1);

  int64_t next = 1;
  int64_t gaps = 0;
  int64_t bytes = 0;
  for (const absl::string_view record :
       absl::StrSplit(WholeLog("writer", {"-o", "jsonpath={.kind}:{.payload}"}), '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(record, ':');
    std::string payload;
    ASSERT_TRUE(absl::Base64Unescape(parts.second, &payload)) << record;
    if (parts.first == "gap") {
      event::v1::GapRecord gap;
      ASSERT_TRUE(gap.ParseFromString(payload));
      ++gaps;
      EXPECT_EQ(gap.reason(), "SPILL_FULL");
      EXPECT_GT(gap.dropped_records(), 0);
      int64_t missing = 0;
      for (int64_t i = 0; i < gap.dropped_records(); ++i) {
        missing += static_cast<int64_t>(LineAt(next + i).size());
      }
      EXPECT_EQ(gap.dropped_bytes(), missing) << "of lines " << next << " and on";
      next += gap.dropped_records();
      bytes += gap.dropped_bytes();
    } else if (!record.empty()) {
      ASSERT_EQ(payload, LineAt(next));
      bytes += static_cast<int64_t>(payload.size());
      ++next;
    }
  }
  EXPECT_EQ(next, all + 1);
  EXPECT_GT(gaps, 0);
  int64_t written = 0;
  for (int64_t i = 1; i <= all; ++i) written += static_cast<int64_t>(LineAt(i).size());
  EXPECT_EQ(bytes, written);

  // Of what happened to the Jobs nothing is missing, and new ones are taken again.
  for (const std::string& id : taken) {
    const std::string end = id == "told-0" ? "CANCELLED" : "SUCCEEDED";
    std::string events;
    EXPECT_TRUE(platform_->Await([&] {
      events = platform_->Capstan({"job", "events", id}).out;
      return absl::StrContains(events, end);
    })) << id
        << "\n"
        << events;
    EXPECT_THAT(events, HasSubstr("QUEUED"));
    EXPECT_THAT(events, Not(HasSubstr("gap")));
  }
  EXPECT_TRUE(platform_->Await(
      [&] { return platform_->SubmitText("later", JobOf("later", "true")).exit_code == 0; }));
  platform_->MustSucceed("later");
}

TEST_F(SpillTest, LastLinesThatAreNotHereYetAreSaidToBeMissing) {
  MustSubmit("late", absl::StrCat("echo first; ", WaitFor("end"), "echo last"));
  ASSERT_TRUE(platform_->Await(
      [&] { return absl::StrContains(platform_->MustCapstan({"job", "logs", "late"}), "first"); }));
  {
    Outage outage(platform_.get());
    Give("end");
    ASSERT_TRUE(platform_->Await(
        [&] { return platform_->Get("late").state() == scheduler::v1::Job::STATE_SUCCEEDED; }));
    platform_->Signal("node_agent", SIGSTOP);
  }
  CommandResult read;
  ASSERT_TRUE(platform_->Await([&] {
    read = platform_->Capstan({"job", "logs", "late"});
    return read.exit_code == 0;
  })) << read.err;
  EXPECT_THAT(read.out, HasSubstr("first"));
  EXPECT_THAT(read.out, Not(HasSubstr("last")));
  EXPECT_THAT(read.err, HasSubstr("generation 1 w-0; `--follow` waits"));
  EXPECT_EQ(read.err.find('\n'), read.err.size() - 1) << read.err;

  platform_->Signal("node_agent", SIGCONT);
  EXPECT_THAT(WholeLog("late"), HasSubstr("last"));
  read = platform_->Capstan({"job", "logs", "late"});
  EXPECT_EQ(read.exit_code, 0);
  EXPECT_THAT(read.out, HasSubstr("last"));
  EXPECT_EQ(read.err, "");
}

}  // namespace
}  // namespace capstan::integration
