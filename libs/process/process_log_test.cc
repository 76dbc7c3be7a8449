#include "libs/process/process_log.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/time/simulated_clock.h"

namespace capstan::process {
namespace {

using config::v1::Log;

// Keeps the messages that come through.
class Kept final : public log::Sink {
 public:
  explicit Kept(std::vector<std::string>* messages) : messages_(messages) {}
  void Write(const log::Record& record) override {
    messages_->push_back(std::string(record.message));
  }

 private:
  std::vector<std::string>* const messages_;
};

TEST(ProcessLogTest, LetsRecordsOfItsLevelAndAboveThrough) {
  std::vector<std::string> messages;
  ProcessLog sink(std::make_unique<Kept>(&messages), Log::LEVEL_WARNING);
  SimulatedClock clock;
  log::Logger logger("test", &clock, &sink, log::Level::kDebug);
  logger.Info("low");
  logger.Warning("at it");
  logger.Error("above");
  EXPECT_THAT(messages, testing::ElementsAre("at it", "above"));
}

TEST(ProcessLogTest, TheLevelChangesWhileItIsInUse) {
  std::vector<std::string> messages;
  ProcessLog sink(std::make_unique<Kept>(&messages), Log::LEVEL_UNSPECIFIED);
  SimulatedClock clock;
  log::Logger logger("test", &clock, &sink, log::Level::kDebug);
  logger.Debug("not by default");
  sink.SetLevel(Log::LEVEL_DEBUG);
  logger.Debug("now");
  sink.SetLevel(Log::LEVEL_ERROR);
  logger.Warning("no more");
  EXPECT_THAT(messages, testing::ElementsAre("now"));
}

TEST(ProcessLogTest, AFileThatCannotBeMadeIsNamed) {
  Log config;
  config.set_file("/dev/null/all.log");
  const auto opened = ProcessLog::Open(config);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(opened.status().message()), testing::HasSubstr("/dev/null/all.log"));
}

}  // namespace
}  // namespace capstan::process
