#include "services/scheduler/core/round/cow_array.h"

#include <vector>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler::round {
namespace {

std::vector<int> ItemsOf(const CowView<int>& view) {
  std::vector<int> items;
  for (size_t i = 0; i < view.size(); ++i) items.push_back(view[i]);
  return items;
}

TEST(CowArrayTest, KeepsEveryVersionAsItWasFrozen) {
  Random random(1);
  CowArray<int> array;
  std::vector<int> truth;
  std::vector<std::pair<CowView<int>, std::vector<int>>> versions;
  for (int step = 0; step < 20000; ++step) {
    if (truth.empty() || random.OneIn(2)) {
      array.PushBack(step);
      truth.push_back(step);
    } else if (random.OneIn(5)) {
      array.PopBack();
      truth.pop_back();
    } else {
      const size_t i = random.Below(truth.size());
      array.Mutable(i) = step;
      truth[i] = step;
    }
    if (random.OneIn(500)) versions.emplace_back(array.Freeze(), truth);
  }
  ASSERT_GT(versions.size(), 10u);
  for (const auto& [view, items] : versions) EXPECT_EQ(ItemsOf(view), items);
}

TEST(CowArrayTest, VisitsAllThatDiffersAndLittleElse) {
  Random random(2);
  CowArray<int> array;
  for (int i = 0; i < 10000; ++i) array.PushBack(i);
  CowView<int> older = array.Freeze();
  for (int round = 0; round < 50; ++round) {
    const int changes = static_cast<int>(random.Below(5));
    for (int c = 0; c < changes; ++c) array.Mutable(random.Below(array.size())) = -round;
    if (random.OneIn(3)) array.PushBack(round);
    if (random.OneIn(3)) array.PopBack();
    const CowView<int> newer = array.Freeze();
    std::vector<bool> visited(newer.size(), false);
    size_t total = 0;
    newer.VisitChanges(older, [&visited, &total](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) visited[i] = true;
      total += last - first;
    });
    for (size_t i = 0; i < newer.size(); ++i) {
      if (i < older.size() && newer[i] == older[i]) continue;
      EXPECT_TRUE(visited[i]) << i;
    }
    EXPECT_LE(total, 32u * (changes + 2));
    older = newer;
  }
}

}  // namespace
}  // namespace capstan::scheduler::round
