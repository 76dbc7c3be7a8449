#include "integration/platform/witness_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGood[] =
    "start 1 0 100 1\n"
    "start 1 1 110 1\n"
    "beat 1 0 120 4\n"
    "ask 1 0 125 4\n"
    "commit 1 0 130 4\n"
    "orphan 1 1 140 0\n"
    "start 2 0 200 5\n"
    "start 2 1 210 5\n"
    "end 2 0 300 9\n";

TEST(WitnessLogTest, FindsNothingWrongWithARestart) {
  const auto log = WitnessLog::Parse(kGood);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_THAT(log->Violations(), IsEmpty());
  EXPECT_EQ(log->last_generation(), 2);
  EXPECT_EQ(log->HighestBefore("commit", 2), 4);
  EXPECT_EQ(log->Count("start"), 4);
  EXPECT_EQ(log->Count("start", 2, 1), 1);
  EXPECT_TRUE(log->lives().at({2, 0}).ended);
}

TEST(WitnessLogTest, SeesWhatMustNeverBe) {
  const std::string twice = std::string(kGood) + "start 2 1 220 5\n";
  EXPECT_THAT(WitnessLog::Parse(twice)->Violations(), ElementsAre(HasSubstr("started 2 times")));
  // An orphan counts: it is a process of its generation.
  const std::string overlap = std::string(kGood) + "orphan 1 1 205 0\n";
  EXPECT_THAT(WitnessLog::Parse(overlap)->Violations(), ElementsAre(HasSubstr("was alive 5ns")));
  const std::string anew = std::string(kGood) + "start 3 0 400 1\n";
  EXPECT_THAT(WitnessLog::Parse(anew)->Violations(), ElementsAre(HasSubstr("began with step 1")));
}

TEST(WitnessLogTest, TakesOnlyWholeLines) {
  EXPECT_EQ(WitnessLog::Parse("start 1 0 100 1\nbeat 1 0 1")->lines().size(), 1u);
  EXPECT_TRUE(WitnessLog::Parse("")->lines().empty());
  EXPECT_FALSE(WitnessLog::Parse("start 1 0\n").ok());
}

}  // namespace
}  // namespace capstan::integration
