#include "libs/store/testing/linearizability.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace capstan::store {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
using Kind = RegisterOperation::Kind;

RegisterOperation Read(int64_t from, int64_t to, std::string value) {
  return {Kind::kRead, from, to, std::move(value), "", false};
}
RegisterOperation Write(int64_t from, int64_t to, std::string value) {
  return {Kind::kWrite, from, to, std::move(value), "", false};
}
RegisterOperation Cas(int64_t from, int64_t to, std::string expected, std::string desired,
                      bool succeeded) {
  return {Kind::kCompareAndSet, from, to, std::move(expected), std::move(desired), succeeded};
}

TEST(LinearizabilityTest, AcceptsSequentialAndOverlappingHistories) {
  EXPECT_TRUE(IsLinearizable({}));
  EXPECT_TRUE(IsLinearizable({Read(1, 2, ""), Write(3, 4, "a"), Read(5, 6, "a")}));
  // The read overlaps the write and may see either.
  EXPECT_TRUE(IsLinearizable({Write(1, 10, "a"), Read(2, 3, "")}));
  EXPECT_TRUE(IsLinearizable({Write(1, 10, "a"), Read(2, 3, "a")}));
  EXPECT_TRUE(IsLinearizable({Write(1, 10, "a"), Read(2, 3, ""), Read(4, 5, "a")}));
  EXPECT_TRUE(
      IsLinearizable({Write(1, 2, "a"), Cas(3, 6, "a", "b", true), Cas(4, 5, "a", "c", false)}));
}

TEST(LinearizabilityTest, RefusesAStaleRead) {
  EXPECT_FALSE(IsLinearizable({Write(1, 2, "a"), Read(3, 4, "")}));
  EXPECT_FALSE(IsLinearizable({Write(1, 2, "a"), Write(3, 4, "b"), Read(5, 6, "a")}));
}

TEST(LinearizabilityTest, RefusesTwoReadsThatGoBackInTime) {
  EXPECT_FALSE(IsLinearizable({Write(1, 10, "a"), Read(2, 3, "a"), Read(4, 5, "")}));
}

TEST(LinearizabilityTest, RefusesALostUpdate) {
  EXPECT_FALSE(
      IsLinearizable({Write(1, 2, "a"), Cas(3, 6, "a", "b", true), Cas(4, 5, "a", "c", true)}));
}

TEST(LinearizabilityTest, UnknownOutcomesMayOrMayNotHaveHappened) {
  EXPECT_TRUE(IsLinearizable({Write(1, kNever, "a"), Read(2, 3, "")}));
  EXPECT_TRUE(IsLinearizable({Write(1, kNever, "a"), Read(2, 3, ""), Read(8, 9, "a")}));
  EXPECT_FALSE(IsLinearizable({Write(4, kNever, "a"), Read(2, 3, "a")}));
}

TEST(LinearizabilityTest, ASettledUnknownOutcomeHappenedBeforeItsReturnOrNever) {
  RegisterOperation settled = Write(1, 4, "a");
  settled.settled_unknown = true;
  EXPECT_TRUE(IsLinearizable({settled, Read(5, 6, "")}));
  EXPECT_TRUE(IsLinearizable({settled, Read(2, 3, ""), Read(5, 6, "a")}));
  EXPECT_FALSE(IsLinearizable({settled, Read(5, 6, ""), Read(7, 8, "a")}));
  EXPECT_TRUE(IsLinearizable({settled, Write(2, 7, "b"), Read(5, 6, "b"), Read(8, 9, "b")}));
  EXPECT_FALSE(IsLinearizable({settled, Write(5, 6, "b"), Read(7, 8, "a")}));
}

}  // namespace
}  // namespace capstan::store
