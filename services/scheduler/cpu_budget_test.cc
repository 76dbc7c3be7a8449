#include "services/scheduler/cpu_budget.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

struct Piece {
  BootTime begun;
  absl::Duration cpu;
};

// What a piece takes within a span, if it takes the processor from its beginning on: as early as
// it can.
absl::Duration Within(const Piece& piece, BootTime from, BootTime to) {
  const BootTime first = std::max(piece.begun, from);
  const BootTime last = std::min(piece.begun + piece.cpu, to);
  return std::max(last - first, absl::ZeroDuration());
}

TEST(CpuBudgetTest, TheFirstPieceBeginsAtOnce) {
  EXPECT_EQ(CpuBudget(25).free_at(), BootTime::InfinitePast());
}

TEST(CpuBudgetTest, WhatWasTakenIsPaidBackAtTheShare) {
  CpuBudget budget(25);
  const BootTime begun = BootTime() + absl::Hours(1);
  budget.Took(begun, absl::Seconds(2));
  EXPECT_EQ(budget.free_at(), begun + absl::Seconds(8));
  budget.Took(begun + absl::Seconds(8), absl::ZeroDuration());
  EXPECT_EQ(budget.free_at(), begun + absl::Seconds(8));
}

TEST(CpuBudgetTest, AWholeCoreIsNeverWaitedFor) {
  CpuBudget budget(100);
  budget.Took(BootTime(), absl::Seconds(2));
  EXPECT_EQ(budget.free_at(), BootTime() + absl::Seconds(2));
}

TEST(CpuBudgetTest, IdlenessIsNotSavedUp) {
  CpuBudget budget(10);
  budget.Took(BootTime(), absl::Seconds(1));
  const BootTime late = BootTime() + absl::Hours(10);
  budget.Took(late, absl::Seconds(1));
  EXPECT_EQ(budget.free_at(), late + absl::Seconds(10));
}

TEST(CpuBudgetTest, OverNoSpanIsItMoreThanTheShareAndOnePiece) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const int percent = static_cast<int>(random.Between(1, 100));
    CpuBudget budget(percent);
    std::vector<Piece> pieces;
    BootTime now;
    absl::Duration most;
    for (int i = 0; i < 40; ++i) {
      now = std::max(now, budget.free_at());
      if (random.OneIn(4)) now = now + absl::Milliseconds(random.Between(0, 100'000));
      const absl::Duration cpu = absl::Milliseconds(random.Between(0, 5'000));
      budget.Took(now, cpu);
      pieces.push_back({now, cpu});
      most = std::max(most, cpu);
      // It may have had to wait for the processor.
      now = now + cpu + absl::Milliseconds(random.OneIn(3) ? random.Between(0, 10'000) : 0);
    }
    for (int i = 0; i < 300; ++i) {
      // Spans that begin and end with pieces are the worst.
      const Piece& first = pieces[random.Below(pieces.size())];
      const Piece& last = pieces[random.Below(pieces.size())];
      const BootTime from = first.begun + absl::Milliseconds(random.Between(-10, 10));
      const BootTime to = std::max(from, last.begun + last.cpu);
      absl::Duration taken;
      for (const Piece& piece : pieces) taken += Within(piece, from, to);
      ASSERT_LE(taken, (to - from) * percent / 100 + most + absl::Nanoseconds(100))
          << "seed " << seed << ", " << percent << " %";
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
