#include "libs/log/log.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/spdlog_sink.h"
#include "libs/log/testing_sink.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::log {
namespace {

Now TestStart() { return {absl::FromUnixMicros(1'700'000'000'123'456), BootTime()}; }

TEST(LogTest, WritesMessageAndFieldsInBothFormats) {
  SimulatedClock clock(TestStart());
  TestingSink sink;
  const Logger logger("scheduler", &clock, &sink);
  logger.Info("job placed", {{"job", "projects/p/jobs/j"}, {"nodes", 3}, {"forced", false}});
  ASSERT_EQ(sink.records().size(), 1u);
  EXPECT_EQ(FormatRecord(sink.records()[0], Format::kHuman),
            "2023-11-14T22:13:20.123456Z I scheduler: job placed job=projects/p/jobs/j nodes=3 "
            "forced=false");
  EXPECT_EQ(FormatRecord(sink.records()[0], Format::kJson),
            R"({"time":"2023-11-14T22:13:20.123456Z","level":"info","logger":"scheduler",)"
            R"("message":"job placed","job":"projects/p/jobs/j","nodes":3,"forced":false})");
}

TEST(LogTest, DropsRecordsBelowItsLevel) {
  SimulatedClock clock;
  TestingSink sink;
  const Logger logger("a", &clock, &sink, Level::kWarning);
  logger.Debug("d");
  logger.Info("i");
  logger.Warning("w");
  logger.Error("e");
  ASSERT_EQ(sink.records().size(), 2u);
  EXPECT_EQ(sink.records()[0].message, "w");
}

TEST(LogTest, ChildCarriesContext) {
  SimulatedClock clock;
  TestingSink sink;
  const Logger logger("agent", &clock, &sink);
  logger.With("runtime", {{"task", "w-0"}}).Info("started", {{"pid", 7}});
  ASSERT_EQ(sink.records().size(), 1u);
  EXPECT_EQ(sink.records()[0].logger, "agent.runtime");
  ASSERT_EQ(sink.records()[0].fields.size(), 2u);
  EXPECT_EQ(sink.records()[0].fields[0].text(), "w-0");
}

TEST(LogTest, NoValueForgesALineOrATerminalsCommand) {
  Record record;
  record.logger = "a";
  record.message = "m";
  record.fields = {{"k", "x\u0085y\u009b31mz\u2028\x1b[2J"}, {"bytes", "\xff\x9b"}};
  EXPECT_EQ(FormatRecord(record, Format::kHuman),
            "1970-01-01T00:00:00.000000Z I a: m "
            R"(k="x\u0085y\u009b31mz\u2028\u001b[2J" bytes=)"
            "\"\uFFFD\uFFFD\"");
  EXPECT_EQ(FormatRecord(record, Format::kJson),
            R"({"time":"1970-01-01T00:00:00.000000Z","level":"info","logger":"a","message":"m",)"
            R"("k":"x\u0085y\u009b31mz\u2028\u001b[2J","bytes":")"
            "\uFFFD\uFFFD\"}");
}

TEST(LogTest, SecretsAreRedactedByMarkAndByName) {
  SimulatedClock clock;
  TestingSink sink;
  const Logger logger("a", &clock, &sink);
  logger.Info("joined", {Secret("key"), {"join_token", "abc.def"}, {"Password", "hunter2"}});
  for (const Format format : {Format::kHuman, Format::kJson}) {
    const std::string line = FormatRecord(sink.records()[0], format);
    EXPECT_FALSE(absl::StrContains(line, "abc.def")) << line;
    EXPECT_FALSE(absl::StrContains(line, "hunter2")) << line;
    EXPECT_TRUE(absl::StrContains(line, "[redacted]")) << line;
  }
}

TEST(LogTest, NoValueCanForgeALine) {
  SimulatedClock clock;
  TestingSink sink;
  const Logger logger("a", &clock, &sink);
  logger.Info("m", {{"v", absl::string_view("x\n2023 I root: fine\x1b[2J\"", 23)}});
  for (const Format format : {Format::kHuman, Format::kJson}) {
    const std::string line = FormatRecord(sink.records()[0], format);
    EXPECT_FALSE(absl::StrContains(line, "\n")) << line;
    EXPECT_FALSE(absl::StrContains(line, "\x1b")) << line;
    EXPECT_TRUE(absl::StrContains(line, "\\u001b")) << line;
  }
}

TEST(LogTest, FormatsStatusAndNonFiniteNumbers) {
  const Field failed("error", status::Error(absl::StatusCode::kNotFound, "NO_SUCH", "not there"));
  EXPECT_EQ(failed.text(), "NOT_FOUND: not there [NO_SUCH]");
  const Field infinite("rate", std::numeric_limits<double>::infinity());
  EXPECT_TRUE(infinite.quoted());
  EXPECT_EQ(Field("took", absl::Milliseconds(1500)).text(), "1.5s");
}

TEST(SpdlogSinkTest, FileGetsWholeLines) {
  SimulatedClock clock(TestStart());
  const std::string path = absl::StrCat(::testing::TempDir(), "/part.log");
  auto sink = MakeFileSink({.path = path});
  ASSERT_TRUE(sink.ok()) << sink.status();
  const Logger logger("a", &clock, sink->get());
  logger.Info("one {} %s");
  logger.Info("two");
  std::ifstream in(path);
  const std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(absl::StrContains(content, "\"message\":\"one {} %s\"}\n")) << content;
  EXPECT_TRUE(absl::EndsWith(content, "\"message\":\"two\"}\n")) << content;
}

TEST(SpdlogSinkTest, AFolderThatCannotBeMadeIsAnError) {
  const auto sink = MakeFileSink({.path = "/proc/none/part.log"});
  EXPECT_EQ(status::Reason(sink.status()), "LOG_FILE_NOT_WRITABLE");
}

}  // namespace
}  // namespace capstan::log
