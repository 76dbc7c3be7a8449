// Subscriptions on a whole platform: a person's reader goes on behind its cursor while telemetry
// and the reader itself are killed, misses nothing, and leaves its traces in the audit trail.
#include <signal.h>
#include <sys/wait.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kLines = 1200;

class SubscriptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
  }

  // A Job that writes its lines over a minute.
  void SubmitTicker() {
    const CommandResult result = platform_->SubmitText(
        "ticker",
        absl::StrCat("job_id: ticker\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                     "      argv: [/bin/sh, -c, \"i=0; while [ $i -lt ",
                     kLines,
                     " ]; do i=$((i+1)); echo tick $i; sleep 0.05; done\"]\n"
                     "      resources: {cpu: 10m, memory: 32Mi}\n"));
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  dev::Child StartReader() {
    dev::SpawnOptions spawn;
    spawn.argv = platform_->CommandLine({"subscription", "read", "s", "--follow"});
    spawn.output_file = absl::StrCat(platform_->folder(), "/read.", readers_++);
    auto child = dev::Child::Spawn(spawn);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  static void Kill(const dev::Child& child, int signal) {
    dev::SignalProcess(child.id(), signal);
    int wait_status = 0;
    waitpid(child.id().pid, &wait_status, 0);
  }
  void AwaitFailure(dev::Child& child) {
    absl::optional<int> wait_status;
    ASSERT_TRUE(platform_->Await([&] {
      wait_status = child.TryReap();
      return wait_status.has_value();
    }));
    EXPECT_TRUE(WIFEXITED(*wait_status) && WEXITSTATUS(*wait_status) != 0);
  }
  static std::string ReadFile(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  // The ticks that a reader has printed, as `offset … log tick N`; its offsets rise by one.
  static std::vector<int> Ticks(const std::string& text) {
    std::vector<int> ticks;
    int64_t last = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      int64_t offset = 0;
      if (!absl::SimpleAtoi(words[0], &offset)) {
        // What is told about the end of a reader.
        continue;
      }
      EXPECT_TRUE(last == 0 || offset == last + 1) << line << " after " << last;
      last = offset;
      int tick = 0;
      if (words.size() == 5 && words[3] == "tick" && absl::SimpleAtoi(words[4], &tick)) {
        ticks.push_back(tick);
      }
    }
    return ticks;
  }
  size_t Printed(int reader) const {
    return Ticks(ReadFile(absl::StrCat(platform_->folder(), "/read.", reader))).size();
  }
  int64_t Cursor() {
    int64_t cursor = 0;
    EXPECT_TRUE(absl::SimpleAtoi(platform_->MustCapstan({"subscription", "get", "s", "-o",
                                                         "jsonpath={.acknowledged_offset}"}),
                                 &cursor));
    return cursor;
  }

  std::unique_ptr<TestPlatform> platform_;
  int readers_ = 0;
};

TEST_F(SubscriptionTest, NothingIsMissedWhileTelemetryAndReadersAreKilled) {
  // The Stream is yet to come.
  platform_->MustCapstan({"subscription", "create", "s", "ticker"});
  SubmitTicker();
  int64_t cursor = 0;
  for (int round = 0; round < 4; ++round) {
    dev::Child reader = StartReader();
    const int number = readers_ - 1;
    ASSERT_TRUE(platform_->Await([&] { return Printed(number) >= 5; })) << "round " << round;
    const int64_t before = Cursor();
    EXPECT_GE(before, cursor);
    platform_->KillAndAwait("telemetry");
    // The reader comes back by itself.
    const size_t printed = Printed(number);
    ASSERT_TRUE(platform_->Await([&] { return Printed(number) >= printed + 5; }))
        << "round " << round << ": " << printed << " ticks, then none";
    cursor = Cursor();
    EXPECT_GE(cursor, before) << "an acknowledged cursor was lost";
    Kill(reader, SIGKILL);
  }
  platform_->MustSucceed("ticker");
  // What is on its way to telemetry arrives; then there is no more.
  std::set<int> ticks;
  for (int number = 0; number < readers_; ++number) {
    for (const int tick : Ticks(ReadFile(absl::StrCat(platform_->folder(), "/read.", number)))) {
      ticks.insert(tick);
    }
  }
  ASSERT_TRUE(platform_->Await([&] {
    for (const int tick : Ticks(platform_->MustCapstan({"subscription", "read", "s"}))) {
      ticks.insert(tick);
    }
    return ticks.count(kLines) > 0;
  }));
  for (int tick = 1; tick <= kLines; ++tick) {
    EXPECT_EQ(ticks.count(tick), 1u) << "tick " << tick << " was missed";
  }
  EXPECT_THAT(platform_->MustCapstan({"subscription", "get", "s"}),
              AllOf(HasSubstr("Lag:           0 records"), HasSubstr("Reader:        none")));
}

TEST_F(SubscriptionTest, AReaderIsReplacedAndActsAreAudited) {
  SubmitTicker();
  platform_->MustCapstan({"subscription", "create", "s", "ticker"});
  EXPECT_NE(platform_->Capstan({"subscription", "create", "s", "ticker"}).exit_code, 0);
  dev::Child first = StartReader();
  ASSERT_TRUE(platform_->Await([&] { return Printed(0) >= 5; }));
  dev::Child second = StartReader();
  ASSERT_TRUE(platform_->Await([&] { return Printed(1) >= 5; }));
  AwaitFailure(first);
  EXPECT_THAT(ReadFile(platform_->folder() + "/read.0"), HasSubstr("has taken over"));
  EXPECT_THAT(platform_->MustCapstan({"subscription", "list"}), HasSubstr("connected"));

  // To read again from where one likes ends whoever reads.
  platform_->MustCapstan({"subscription", "seek", "s", "--to", "2"});
  AwaitFailure(second);
  EXPECT_THAT(ReadFile(platform_->folder() + "/read.1"), HasSubstr("was moved"));
  EXPECT_EQ(Ticks(platform_->MustCapstan({"subscription", "read", "s", "--no-commit"})).front(), 2);
  EXPECT_EQ(Cursor(), 1);
  platform_->MustCapstan({"subscription", "commit", "s", "3"});
  EXPECT_EQ(Cursor(), 3);
  const CommandResult beyond = platform_->Capstan({"subscription", "commit", "s", "1000000"});
  EXPECT_NE(beyond.exit_code, 0);
  EXPECT_THAT(beyond.err, HasSubstr("its last record is"));
  platform_->MustCapstan({"subscription", "delete", "s"});
  EXPECT_NE(platform_->Capstan({"subscription", "read", "s"}).exit_code, 0);

  const std::string audit = ReadFile(platform_->data_dir() + "/telemetry/audit.chain");
  for (const char* act : {"CreateSubscription", "SeekSubscription", "DeleteSubscription"}) {
    EXPECT_THAT(audit, HasSubstr(act));
  }
  platform_->Capstan({"job", "cancel", "ticker"});
}

}  // namespace
}  // namespace capstan::integration
