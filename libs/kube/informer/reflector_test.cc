#include "libs/kube/informer/reflector.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::kube {
namespace {

template <typename Effect>
const Effect* Find(const ReflectorStep& step) {
  for (const auto& effect : step.effects) {
    if (const auto* found = std::get_if<Effect>(&effect)) return found;
  }
  return nullptr;
}

class ReflectorTest : public ::testing::Test {
 protected:
  void Make(bool watch_list) {
    ReflectorOptions options;
    options.watch_list = watch_list;
    reflector_ = std::make_unique<Reflector>(options, &random_);
  }
  // Lists one page and begins the watch, whose attempt it gives.
  uint64_t Sync() {
    const ReflectorStep start = reflector_->Start(now_);
    const ReflectorStep listed =
        reflector_->OnPage(Find<ListPageRequest>(start)->attempt, "10", "", now_);
    EXPECT_EQ(listed.objects, Objects::kCommitFirst);
    return Find<WatchRequest>(listed)->attempt;
  }

  Random random_{1};
  std::unique_ptr<Reflector> reflector_;
  BootTime now_ = BootTime::FromNanoseconds(1'000'000'000'000);
};

TEST_F(ReflectorTest, ListsInPagesThenWatchesFromTheList) {
  Make(false);
  ReflectorStep step = reflector_->Start(now_);
  EXPECT_EQ(Find<ListPageRequest>(step)->limit, 500);
  step = reflector_->OnPage(Find<ListPageRequest>(step)->attempt, "10", "token", now_);
  EXPECT_EQ(step.objects, Objects::kStageFirst);
  EXPECT_EQ(Find<ListPageRequest>(step)->continue_token, "token");
  EXPECT_FALSE(reflector_->synced());
  step = reflector_->OnPage(Find<ListPageRequest>(step)->attempt, "10", "", now_);
  EXPECT_EQ(step.objects, Objects::kCommit);
  EXPECT_TRUE(reflector_->synced());
  EXPECT_EQ(Find<WatchRequest>(step)->resource_version, "10");
  EXPECT_FALSE(Find<WatchRequest>(step)->initial_events);
}

TEST_F(ReflectorTest, APageThatExpiredIsFollowedByAListWithoutPages) {
  Make(false);
  ReflectorStep step = reflector_->Start(now_);
  step = reflector_->OnPage(Find<ListPageRequest>(step)->attempt, "10", "token", now_);
  step = reflector_->OnEnd(Find<ListPageRequest>(step)->attempt, RequestEnd::kExpired,
                           absl::nullopt, now_);
  const SleepUntil sleep = *Find<SleepUntil>(step);
  EXPECT_LE(sleep.when - now_, absl::Milliseconds(501));
  step = reflector_->OnTimer(sleep.attempt, sleep.when);
  EXPECT_EQ(Find<ListPageRequest>(step)->limit, 0);
  EXPECT_EQ(Find<ListPageRequest>(step)->continue_token, "");
}

TEST_F(ReflectorTest, ResumesFromTheLastEventOrBookmark) {
  Make(false);
  uint64_t watch = Sync();
  EXPECT_EQ(reflector_->OnEvent(watch, "11", now_).objects, Objects::kApply);
  now_ = now_ + absl::Minutes(7);
  ReflectorStep step = reflector_->OnEnd(watch, RequestEnd::kClean, absl::nullopt, now_);
  ASSERT_NE(Find<WatchRequest>(step), nullptr);
  EXPECT_EQ(Find<WatchRequest>(step)->resource_version, "11");
  watch = Find<WatchRequest>(step)->attempt;
  reflector_->OnBookmark(watch, "20", false, now_);
  // Torn at once: with a back-off, and from the bookmark.
  step = reflector_->OnEnd(watch, RequestEnd::kFailed, absl::nullopt, now_);
  const SleepUntil sleep = *Find<SleepUntil>(step);
  EXPECT_GT(sleep.when, now_);
  EXPECT_EQ(reflector_->OnEvent(watch, "21", now_).objects, Objects::kIgnore);
  step = reflector_->OnTimer(sleep.attempt, sleep.when);
  EXPECT_EQ(Find<WatchRequest>(step)->resource_version, "20");
}

TEST_F(ReflectorTest, ListsAgainAfter410) {
  Make(false);
  const uint64_t watch = Sync();
  now_ = now_ + absl::Minutes(1);
  const ReflectorStep step = reflector_->OnEnd(watch, RequestEnd::kExpired, absl::nullopt, now_);
  ASSERT_NE(Find<ListPageRequest>(step), nullptr);
  EXPECT_EQ(Find<ListPageRequest>(step)->limit, 500);
}

TEST_F(ReflectorTest, WatchListCommitsAtItsBookmarkAndGoesOn) {
  Make(true);
  ReflectorStep step = reflector_->Start(now_);
  const WatchRequest watch = *Find<WatchRequest>(step);
  EXPECT_TRUE(watch.initial_events);
  EXPECT_EQ(watch.resource_version, "");
  EXPECT_EQ(reflector_->OnEvent(watch.attempt, "3", now_).objects, Objects::kStageEvent);
  EXPECT_EQ(reflector_->OnBookmark(watch.attempt, "4", false, now_).objects, Objects::kIgnore);
  EXPECT_FALSE(reflector_->synced());
  EXPECT_EQ(reflector_->OnBookmark(watch.attempt, "9", true, now_).objects, Objects::kCommit);
  EXPECT_TRUE(reflector_->synced());
  EXPECT_EQ(reflector_->OnEvent(watch.attempt, "12", now_).objects, Objects::kApply);
  EXPECT_EQ(reflector_->resource_version(), "12");
}

TEST_F(ReflectorTest, AWatchListThatIsTornBeforeItsBookmarkBeginsAnew) {
  Make(true);
  ReflectorStep step = reflector_->Start(now_);
  const uint64_t watch = Find<WatchRequest>(step)->attempt;
  reflector_->OnEvent(watch, "3", now_);
  step = reflector_->OnEnd(watch, RequestEnd::kFailed, absl::nullopt, now_);
  step = reflector_->OnTimer(Find<SleepUntil>(step)->attempt, now_ + absl::Seconds(1));
  EXPECT_TRUE(Find<WatchRequest>(step)->initial_events);
  EXPECT_EQ(Find<WatchRequest>(step)->resource_version, "");
}

TEST_F(ReflectorTest, FallsBackToListsWhereWatchListsAreNotKnownOrSilent) {
  Make(true);
  ReflectorStep step = reflector_->Start(now_);
  step = reflector_->OnEnd(Find<WatchRequest>(step)->attempt, RequestEnd::kInvalid, absl::nullopt,
                           now_);
  EXPECT_NE(Find<ListPageRequest>(step), nullptr);
  EXPECT_FALSE(reflector_->watch_list_supported());

  Make(true);
  step = reflector_->Start(now_);
  const uint64_t watch = Find<WatchRequest>(step)->attempt;
  reflector_->OnEvent(watch, "3", now_ + absl::Seconds(50));
  step = reflector_->OnTimer(watch, now_ + absl::Seconds(60));
  EXPECT_EQ(Find<SleepUntil>(step)->when, now_ + absl::Seconds(110));
  step = reflector_->OnTimer(watch, now_ + absl::Seconds(110));
  EXPECT_EQ(Find<CancelRequest>(step)->attempt, watch);
  EXPECT_NE(Find<ListPageRequest>(step), nullptr);
}

TEST_F(ReflectorTest, CancelsAWatchThatHangs) {
  Make(false);
  const uint64_t watch = Sync();
  const ReflectorStep step = reflector_->OnTimer(watch, now_ + absl::Minutes(12));
  EXPECT_EQ(Find<CancelRequest>(step)->attempt, watch);
  EXPECT_EQ(Find<WatchRequest>(step)->resource_version, "10");
}

TEST_F(ReflectorTest, BacksOffWithinBoundsAndAsTheServerSays) {
  Make(false);
  ReflectorStep step = reflector_->Start(now_);
  absl::Duration ceiling = absl::Milliseconds(500);
  for (int i = 0; i < 12; ++i) {
    step = reflector_->OnEnd(Find<ListPageRequest>(step)->attempt, RequestEnd::kFailed,
                             absl::nullopt, now_);
    const SleepUntil sleep = *Find<SleepUntil>(step);
    EXPECT_GE(sleep.when - now_, ceiling / 2);
    EXPECT_LE(sleep.when - now_, ceiling + absl::Nanoseconds(1));
    ceiling = std::min(ceiling * 2, absl::Seconds(30));
    now_ = sleep.when;
    step = reflector_->OnTimer(sleep.attempt, now_);
  }
  step = reflector_->OnEnd(Find<ListPageRequest>(step)->attempt, RequestEnd::kFailed,
                           absl::Minutes(2), now_);
  EXPECT_EQ(Find<SleepUntil>(step)->when - now_, absl::Minutes(2));
}

TEST_F(ReflectorTest, NothingFollowsStop) {
  Make(false);
  const uint64_t watch = Sync();
  EXPECT_EQ(Find<CancelRequest>(reflector_->Stop())->attempt, watch);
  EXPECT_TRUE(reflector_->OnEnd(watch, RequestEnd::kFailed, absl::nullopt, now_).effects.empty());
  EXPECT_TRUE(reflector_->OnTimer(watch, now_).effects.empty());
  EXPECT_EQ(reflector_->OnEvent(watch, "11", now_).objects, Objects::kIgnore);
}

}  // namespace
}  // namespace capstan::kube
