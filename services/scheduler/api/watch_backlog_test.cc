#include "services/scheduler/api/watch_backlog.h"

#include <algorithm>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

using Backlog = WatchBacklog<int>;

// Objects with the revisions of their last changes, which are all there is of their states, and a
// watcher of them.
class World {
 public:
  World(int objects, uint64_t seed) : random_(seed) {
    for (int i = 0; i < objects; ++i) Change(NewKey());
  }

  // What it was told before it comes again, as of `since`.
  void Watch(int64_t since) {
    if (since < 0) told_.clear();
    past_ = -1;
    backlog_.emplace_back(since, revision_);
  }
  void Change(int key) {
    objects_[key] = ++revision_;
    if (backlog_.empty()) return;
    const bool is_told = !backlog().IsLooking() || key <= past_;
    if (is_told && backlog().Changed(key, objects_.size())) past_ = -1;
    most_kept_ = std::max(most_kept_, backlog().kept());
  }
  void ChangeOne() {
    auto at = objects_.lower_bound(static_cast<int>(random_.Below(kKeys)));
    Change(at == objects_.end() ? objects_.begin()->first : at->first);
  }
  void ChangeOrMakeOne() { random_.Below(4) == 0 ? Change(NewKey()) : ChangeOne(); }

  // The watcher reads one message; false if there is none.
  bool Read() {
    while (backlog().MustLook()) {
      auto at = objects_.upper_bound(past_);
      for (int i = 0; i < kLook && at != objects_.end(); ++i, ++at) {
        past_ = at->first;
        backlog().Found(at->first, at->second);
        ++looked_at_;
      }
      if (at == objects_.end() && backlog().EndLook()) past_ = -1;
    }
    most_kept_ = std::max(most_kept_, backlog().kept());
    if (backlog().IsDone()) return false;
    const int key = backlog().Next(revision_);
    told_[key] = objects_[key];
    ++messages_;
    return true;
  }

  const std::map<int, int64_t>& objects() const { return objects_; }
  const std::map<int, int64_t>& told() const { return told_; }
  int64_t revision() const { return revision_; }
  size_t most_kept() const { return most_kept_; }
  int64_t messages() const { return messages_; }
  int64_t looked_at() const { return looked_at_; }
  Backlog& backlog() { return backlog_.back(); }
  Random& random() { return random_; }

  static constexpr int kLook = 256;

 private:
  static constexpr int kKeys = 1'000'000'000;
  int NewKey() { return static_cast<int>(random_.Below(kKeys)); }

  Random random_;
  std::map<int, int64_t> objects_;
  std::map<int, int64_t> told_;
  int64_t revision_ = 0;
  std::vector<Backlog> backlog_;
  int past_ = -1;
  size_t most_kept_ = 0;
  int64_t messages_ = 0;
  int64_t looked_at_ = 0;
};

TEST(WatchBacklogTest, TellsWhatThereIsOnceAndThenWhatChanges) {
  World world(2000, 1);
  world.Watch(-1);
  while (world.Read()) {
  }
  EXPECT_EQ(world.told(), world.objects());
  EXPECT_EQ(world.messages(), 2000);
  for (int i = 0; i < 10; ++i) world.Change(world.objects().begin()->first);
  while (world.Read()) {
  }
  EXPECT_EQ(world.messages(), 2001) << "changes of one object merge";
}

TEST(WatchBacklogTest, WhoComesAgainIsToldOnlyWhatChangedSince) {
  World world(2000, 2);
  world.Watch(-1);
  while (world.Read()) {
  }
  const int64_t since = world.revision();
  for (int i = 0; i < 30; ++i) world.ChangeOne();
  world.Watch(since);
  const int64_t before = world.messages();
  while (world.Read()) {
  }
  EXPECT_EQ(world.told(), world.objects());
  EXPECT_LE(world.messages() - before, 30);
}

TEST(WatchBacklogTest, KeepsLittleOfWhoDoesNotReadAndMissesNothing) {
  World world(50'000, 3);
  world.Watch(-1);
  while (world.Read()) {
  }
  const int64_t since = world.revision();
  for (int i = 0; i < 40'000; ++i) world.ChangeOne();
  EXPECT_LE(world.most_kept(), Backlog::Most(50'000) + World::kLook);
  int64_t changed = 0;
  for (const auto& [key, revision] : world.objects()) changed += revision > since ? 1 : 0;
  const int64_t before = world.messages();
  while (world.Read()) {
  }
  EXPECT_EQ(world.told(), world.objects());
  EXPECT_EQ(world.messages() - before, changed) << "each that has changed, once";
}

TEST(WatchBacklogTest, MissesNothingHoweverSlowlyItReadsInWhateverOrder) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    World world(static_cast<int>(seed % 7 * 900), 100 + seed);
    world.Watch(-1);
    for (int i = 0; i < 40; ++i) {
      const auto changes = static_cast<int>(world.random().Below(i % 5 == 0 ? 4000 : 60));
      for (int c = 0; c < changes; ++c) world.ChangeOrMakeOne();
      const auto reads = static_cast<int>(world.random().Below(i % 3 == 0 ? 1500 : 40));
      for (int r = 0; r < reads && world.Read(); ++r) {
      }
      // Told all there is, it may go and come again.
      if (world.backlog().IsDone() && world.random().Below(3) == 0) {
        const int64_t since = world.revision();
        for (int c = 0; c < changes; ++c) world.ChangeOrMakeOne();
        world.Watch(since);
      }
    }
    while (world.Read()) {
    }
    EXPECT_EQ(world.told(), world.objects());
    EXPECT_LE(world.most_kept(), Backlog::Most(world.objects().size()) + World::kLook);
  }
}

// However slow it is, what is looked at for a message stays in proportion.
TEST(WatchBacklogTest, LooksAtFewObjectsForAMessage) {
  World world(300'000, 5);
  world.Watch(-1);
  while (world.Read()) {
  }
  const int64_t messages = world.messages();
  const int64_t looked_at = world.looked_at();
  for (int i = 0; i < 20'000; ++i) {
    for (int c = 0; c < 3; ++c) world.ChangeOne();
    world.Read();
  }
  while (world.Read()) {
  }
  EXPECT_EQ(world.told(), world.objects());
  EXPECT_LE(world.looked_at() - looked_at, 300 * (world.messages() - messages));
}

}  // namespace
}  // namespace capstan::scheduler
