#include "libs/store/shard_choice.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::store {
namespace {

std::set<std::string> Members(int count) {
  std::set<std::string> members;
  for (int i = 0; i < count; ++i) members.insert(absl::StrCat("replica-", i));
  return members;
}

TEST(ShardChoiceTest, NobodyGetsTwoMoreThanAnother) {
  for (int members = 1; members <= 7; ++members) {
    for (const int shards : {1, 2, 5, 16, 64}) {
      std::map<std::string, int> held;
      for (const std::string& member : Members(members)) held[member] = 0;
      for (const std::string& owner : AssignShards(Members(members), shards)) ++held.at(owner);
      int least = shards;
      int most = 0;
      for (const auto& [member, count] : held) {
        least = std::min(least, count);
        most = std::max(most, count);
      }
      EXPECT_LE(most - least, 1) << members << " members, " << shards << " shards";
    }
  }
}

TEST(ShardChoiceTest, NobodyThereMeansNobodyChosen) {
  EXPECT_EQ(AssignShards({}, 3), std::vector<std::string>(3));
}

TEST(ShardChoiceTest, MembersThatStayKeepMostOfTheirs) {
  constexpr int kShards = 64;
  for (int members = 2; members <= 6; ++members) {
    const std::vector<std::string> before = AssignShards(Members(members), kShards);
    const std::vector<std::string> after = AssignShards(Members(members - 1), kShards);
    const std::string gone = absl::StrCat("replica-", members - 1);
    int moved = 0;
    int of_the_gone = 0;
    for (int i = 0; i < kShards; ++i) {
      if (before[i] == gone) {
        ++of_the_gone;
      } else if (before[i] != after[i]) {
        ++moved;
      }
    }
    EXPECT_LE(moved, of_the_gone) << members;
  }
}

// Written down, for replicas of two versions must agree.
TEST(ShardChoiceTest, IsTheSameForEver) {
  EXPECT_EQ(ShardOf("clusters/local", 16), 8);
  EXPECT_EQ(ShardOf("clusters/east", 16), 6);
  EXPECT_EQ(AssignShards(Members(2), 4),
            (std::vector<std::string>{"replica-1", "replica-1", "replica-0", "replica-0"}));
}

}  // namespace
}  // namespace capstan::store
