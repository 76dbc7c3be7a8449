#include "libs/content/eviction.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::content {
namespace {

using Keys = std::vector<std::string>;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(EvictionTest, TheLeastRecentlyUsedLeavesAndNoMoreThanNeeded) {
  const std::vector<HeldContent> held = {
      {"new", 30, At(3), {}}, {"old", 30, At(1), {}}, {"held", 30, At(0), {"job-a"}}};
  EXPECT_EQ(*MakeRoom({100, 0}, held, 10, "x"), Keys{});
  EXPECT_EQ(*MakeRoom({100, 0}, held, 11, "x"), Keys{"old"});
  EXPECT_EQ(*MakeRoom({100, 0}, held, 70, "x"), (Keys{"old", "new"}));
  EXPECT_EQ(*MakeRoom({100, 10}, held, 10, "x"), Keys{"old"});
  EXPECT_EQ(*MakeRoom({0, 0}, held, 1 << 30, "x"), Keys{});
}

TEST(EvictionTest, WhatCannotFitSaysWhyAndWhoHoldsTheRoom) {
  const std::vector<HeldContent> held = {{"a", 60, At(1), {"job-a", "job-b"}},
                                         {"b", 20, At(2), {}}};
  const absl::Status full = MakeRoom({100, 5}, held, 50, "version v").status();
  EXPECT_EQ(status::Reason(full), "SITE_FULL");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"version v needs 50", "of 100 15 are free", "20 can be freed",
                           "60 are held by Jobs job-a, job-b"}) {
    EXPECT_TRUE(absl::StrContains(full.message(), part)) << full;
  }
  const absl::Status large = MakeRoom({100, 0}, {}, 101, "version v").status();
  EXPECT_EQ(status::Reason(large), "CONTENT_TOO_LARGE");
  EXPECT_EQ(large.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(EvictionTest, NeverRemovesWhatIsHeldAndAlwaysMakesEnoughRoom) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::map<std::string, HeldContent> held;
    std::vector<HeldContent> list;
    const SiteSpace space{static_cast<int64_t>(random.Below(1000)) + 1,
                          static_cast<int64_t>(random.Below(50))};
    int64_t used = space.reserved_bytes;
    for (uint64_t i = random.Below(12); i > 0; --i) {
      HeldContent content{absl::StrCat("k", i),
                          static_cast<int64_t>(random.Below(200)),
                          At(static_cast<int64_t>(random.Below(5))),
                          {}};
      if (random.Below(3) == 0) content.jobs = {"j"};
      used += content.bytes;
      held[content.key] = content;
      list.push_back(content);
    }
    const auto needed = static_cast<int64_t>(random.Below(1200));
    const auto leaving = MakeRoom(space, list, needed, "x");
    int64_t movable = 0;
    for (const auto& [key, content] : held) movable += content.jobs.empty() ? content.bytes : 0;
    EXPECT_EQ(leaving.ok(),
              needed <= space.limit_bytes && used - movable + needed <= space.limit_bytes);
    if (!leaving.ok()) continue;
    int64_t freed = 0;
    int64_t last = 0;
    absl::Time latest = absl::InfinitePast();
    for (const std::string& key : *leaving) {
      EXPECT_TRUE(held.at(key).jobs.empty());
      EXPECT_GE(held.at(key).last_use, latest);
      latest = held.at(key).last_use;
      last = held.at(key).bytes;
      freed += last;
    }
    EXPECT_LE(used - freed + needed, space.limit_bytes);
    if (leaving->empty()) continue;
    EXPECT_GT(used - freed + last + needed, space.limit_bytes);
  }
}

}  // namespace
}  // namespace capstan::content
