#include "libs/kube/informer/own_writes.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct Thing {
  std::string name;
  std::string uid;
  std::string rv;
  bool visible = true;
};

template <>
struct ObjectTraits<Thing> {
  static absl::string_view Namespace(const Thing&) { return "ns"; }
  static absl::string_view Name(const Thing& t) { return t.name; }
  static absl::string_view Uid(const Thing& t) { return t.uid; }
  static absl::string_view ResourceVersion(const Thing& t) { return t.rv; }
};

namespace {

using Ref = std::shared_ptr<const Thing>;

constexpr BootTime kNow = BootTime::FromNanoseconds(0);
const ObjectKey kKey{"ns", "a"};

Ref Make(const std::string& uid, const std::string& rv) {
  return std::make_shared<Thing>(Thing{"a", uid, rv});
}

TEST(OwnWritesTest, ShadowsUntilTheWatchShowsTheWrite) {
  OwnWrites<Thing> writes;
  const Ref v1 = Make("u", "1"), other = Make("u", "x"), w = Make("u", "w");
  writes.Expect(w, true, v1, kNow);
  EXPECT_EQ(writes.Read(kKey, v1, kNow), w);
  // Another's write that came before it.
  writes.OnChange({v1, other, nullptr});
  EXPECT_EQ(writes.Read(kKey, other, kNow), w);
  writes.OnChange({other, w, nullptr});
  EXPECT_EQ(writes.size(), 0u);
}

TEST(OwnWritesTest, DoesNotGoBackToAWriteThatTheWatchHasPassed) {
  OwnWrites<Thing> writes;
  const Ref v1 = Make("u", "1"), w = Make("u", "w"), later = Make("u", "2");
  writes.OnChange({v1, w, nullptr});
  writes.OnChange({w, later, nullptr});
  writes.Expect(w, true, later, kNow);
  EXPECT_EQ(writes.Read(kKey, later, kNow), later);
  // A write that changed nothing, answered with a state that the cache has left.
  writes.Expect(v1, true, later, kNow);
  EXPECT_EQ(writes.size(), 0u);
  writes.OnChange({later, nullptr, Make("u", "3")});
  writes.Expect(Make("u", "unseen"), true, nullptr, kNow);
  EXPECT_EQ(writes.size(), 0u);
}

TEST(OwnWritesTest, ADeletionShadowsAsAbsentUntilItsUidEnds) {
  OwnWrites<Thing> writes;
  const Ref older = Make("u0", "0"), old = Make("u", "1"), next = Make("u2", "5");
  writes.ExpectGone(kKey, "u", older, kNow);
  EXPECT_EQ(writes.Read(kKey, older, kNow), nullptr);
  writes.OnChange({older, old, nullptr});
  EXPECT_EQ(writes.Read(kKey, old, kNow), nullptr);
  writes.OnChange({old, next, nullptr});
  EXPECT_EQ(writes.Read(kKey, next, kNow), next);
  EXPECT_EQ(writes.size(), 0u);
}

TEST(OwnWritesTest, WhereTheServerSelectsADeletionHidesNoLaterObject) {
  OwnWrites<Thing> writes({.selected = true});
  const Ref old = Make("u", "1"), next = Make("u2", "5");
  writes.ExpectGone(kKey, "u", old, kNow);
  EXPECT_EQ(writes.Read(kKey, old, kNow), nullptr);
  writes.OnChange({old, nullptr, old});
  writes.OnChange({nullptr, next, nullptr});
  EXPECT_EQ(writes.Read(kKey, next, kNow), next);
}

TEST(OwnWritesTest, AListBegunAfterwardsEndsItAndOneUnderWayDoesNot) {
  OwnWrites<Thing> writes;
  writes.OnListBegun();
  writes.Expect(Make("u", "w"), true, nullptr, kNow);
  writes.OnListCommitted();
  EXPECT_EQ(writes.size(), 1u);
  writes.OnListBegun();
  EXPECT_EQ(writes.size(), 1u);
  writes.OnListCommitted();
  EXPECT_EQ(writes.size(), 0u);
}

TEST(OwnWritesTest, IsBoundedInNumberAndAge) {
  OwnWrites<Thing> writes({.max_writes = 2});
  for (const char* name : {"a", "b", "c"}) {
    writes.Expect(std::make_shared<Thing>(Thing{name, name, "1"}), true, nullptr, kNow);
  }
  EXPECT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes.Read(kKey, nullptr, kNow), nullptr);
  EXPECT_NE(writes.Read({"ns", "c"}, nullptr, kNow + absl::Seconds(30)), nullptr);
  EXPECT_EQ(writes.Read({"ns", "c"}, nullptr, kNow + absl::Seconds(31)), nullptr);
  writes.Expire(kNow + absl::Seconds(31));
  EXPECT_EQ(writes.size(), 0u);
}

TEST(OwnWritesTest, WhereAFilterLetsObjectsComeBackGoingIsNotTheEnd) {
  OwnWrites<Thing> writes({.filtered = true});
  const Ref v1 = Make("u", "1"), w = Make("u", "w");
  writes.Expect(w, true, v1, kNow);
  // Another's write took it out of the scope, ours brought it back.
  writes.OnChange({v1, nullptr, Make("u", "x")});
  EXPECT_EQ(writes.Read(kKey, nullptr, kNow), w);
  writes.OnChange({nullptr, w, nullptr});
  EXPECT_EQ(writes.size(), 0u);
  // Ours takes it out; the watch never had it.
  writes.Expect(Make("u9", "z"), false, nullptr, kNow);
  writes.OnRemoved(*Make("u9", "z"), /*deleted=*/false);
  EXPECT_EQ(writes.size(), 0u);
}

// One name on a server, a cache that follows it late, and two writers, of whom one is us. A state
// is a place in the history; what is gone is a place too.
class Model {
 public:
  Model(uint64_t seed, bool lists, bool filter)
      : random_(seed),
        lists_(lists),
        filter_(filter),
        writes_({.filtered = filter}),
        history_{{nullptr, false, ""}} {}

  void Step() {
    switch (random_.Below(lists_ ? 8 : 6)) {
      case 0:
        ServerWrite();
        break;
      case 1:
      case 2:
        // One worker: the answer of one write comes before the next write.
        if (!answer_.has_value()) {
          if (ServerWrite()) answer_ = history_.size() - 1;
        } else {
          Answer();
        }
        break;
      case 3:
      case 4:
      case 5:
        if (!list_at_.has_value() && shown_ + 1 < history_.size()) ShowNext();
        break;
      case 6:
        writes_.OnListBegun();
        list_at_.reset();
        listing_ = true;
        break;
      case 7:
        if (!listing_) break;
        if (!list_at_.has_value()) {
          list_at_ = history_.size() - 1;
        } else {
          CommitList();
        }
        break;
    }
    Check();
  }

  void CatchUp() {
    if (answer_.has_value()) Answer();
    listing_ = false;
    list_at_.reset();
    while (shown_ + 1 < history_.size()) {
      ShowNext();
      Check();
    }
  }
  size_t shadows() const { return writes_.size(); }
  const Ref& newest() const { return history_.back().object; }
  Ref Read() const { return writes_.Read(kKey, cache_.Get("ns", "a"), kNow); }
  bool visible(const Ref& ref) const { return ref != nullptr && (!filter_ || ref->visible); }

 private:
  struct Place {
    Ref object;
    // The server answered 200 without an object.
    bool deleted = false;
    std::string uid;
  };

  // False if it could not.
  bool ServerWrite() {
    const Ref& last = history_.back().object;
    const std::string version = absl::StrCat("v", (history_.size() * 7919) % 10007);
    Thing next{"a", last == nullptr ? absl::StrCat("u", history_.size()) : last->uid, version,
               !random_.OneIn(3)};
    if (last != nullptr && random_.OneIn(3)) {
      history_.push_back({nullptr, true, last->uid});
    } else {
      history_.push_back({std::make_shared<Thing>(next), false, next.uid});
    }
    return true;
  }

  void Answer() {
    const Place& place = history_[*answer_];
    if (place.deleted) {
      writes_.ExpectGone(kKey, place.uid, cache_.Get("ns", "a"), kNow);
    } else {
      writes_.Expect(place.object, visible(place.object), cache_.Get("ns", "a"), kNow);
    }
    at_least_ = *answer_;
    // A list that overlapped the write may have jumped over it, unknown to us.
    answer_.reset();
  }

  void ShowNext() {
    const Place& place = history_[++shown_];
    if (visible(place.object)) {
      Apply(cache_.Put(place.object));
      return;
    }
    const Ref last = place.object != nullptr
                         ? place.object
                         : Ref(std::make_shared<Thing>(
                               Thing{"a", place.uid, absl::StrCat("gone", shown_), true}));
    Apply(cache_.Remove(last));
    writes_.OnRemoved(*last, /*deleted=*/place.object == nullptr);
  }

  void CommitList() {
    shown_ = *list_at_;
    const Ref& object = history_[shown_].object;
    Apply(cache_.Replace(visible(object) ? std::vector<Ref>{object} : std::vector<Ref>{}));
    writes_.OnListCommitted();
    list_at_.reset();
    listing_ = false;
    jumped_ = true;
  }

  void Apply(const std::vector<CacheChange<Thing>>& changes) {
    for (const auto& change : changes) writes_.OnChange(change);
  }

  void Check() {
    const Ref read = Read();
    // The newest place that a read may stand for.
    size_t place = 0;
    for (size_t i = 0; i < history_.size(); ++i) {
      const Ref& at = history_[i].object;
      if (read == nullptr ? !visible(at) : at == read) place = i;
    }
    ASSERT_GE(place, at_least_) << "older than what we wrote";
    // Without lists reads never go back either.
    if (!jumped_ && read != nullptr) {
      ASSERT_GE(place, last_read_);
      last_read_ = place;
    }
  }

  Random random_;
  const bool lists_;
  const bool filter_;
  Cache<Thing> cache_;
  OwnWrites<Thing> writes_;
  std::vector<Place> history_;
  size_t shown_ = 0;
  absl::optional<size_t> answer_;
  size_t at_least_ = 0;
  size_t last_read_ = 0;
  bool listing_ = false;
  bool jumped_ = false;
  absl::optional<size_t> list_at_;
};

TEST(OwnWritesTest, ReadsHaveWhatWasWrittenWhateverTheWatchsDelay) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const bool lists = seed % 2 == 1, filter = seed % 4 >= 2;
    Model model(seed, lists, filter);
    for (int i = 0; i < 60; ++i) {
      model.Step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << i;
    }
    model.CatchUp();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    if (!lists && !filter) {
      ASSERT_EQ(model.shadows(), 0u) << "seed " << seed;
      ASSERT_EQ(model.Read(), model.newest()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace capstan::kube
