#include "libs/engine/submit_in_pieces.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/store/commit_queue.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::engine {
namespace {

constexpr int kMany = 2 * static_cast<int>(store::kMaxTxnOps) + 1;

class SubmitInPiecesTest : public ::testing::Test {
 protected:
  // What its one callback got; nothing if it was not called, or more than once.
  absl::optional<absl::Status> Submit(std::vector<store::Put> puts,
                                      std::vector<store::Delete> deletes) {
    std::vector<absl::Status> answers;
    SubmitInPieces(queue_, std::move(puts), std::move(deletes),
                   [&answers](const absl::StatusOr<int64_t>& revision) {
                     answers.push_back(revision.status());
                   });
    EXPECT_TRUE(answers.empty());
    strand_.RunReady();
    if (answers.size() != 1) return absl::nullopt;
    return answers[0];
  }
  static std::string Key(int i) { return absl::StrCat("/t/", i); }
  static std::vector<store::Put> Puts(int count) {
    std::vector<store::Put> puts;
    for (int i = 0; i < count; ++i) puts.push_back({Key(i), "x"});
    return puts;
  }
  size_t Stored() {
    size_t count = 0;
    store_.Range({.key = "/t/", .end = store::PrefixEnd("/t/"), .limit = 2 * kMany},
                 [&count](const absl::StatusOr<store::RangeResult>& range) {
                   ASSERT_TRUE(range.ok()) << range.status();
                   count = range->kvs.size();
                 });
    strand_.RunReady();
    return count;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  store::MemoryStore store_{&strand_};
  store::CommitQueue queue_{&store_, &strand_, absl::nullopt};
};

TEST_F(SubmitInPiecesTest, AnswersOnceWhenAllIsStored) {
  EXPECT_EQ(Submit(Puts(kMany), {}), absl::OkStatus());
  EXPECT_EQ(Stored(), kMany);
  EXPECT_EQ(queue_.transactions(), 3);
  std::vector<store::Delete> deletes;
  for (int i = 0; i < kMany; ++i) deletes.push_back({Key(i), ""});
  EXPECT_EQ(Submit({}, std::move(deletes)), absl::OkStatus());
  EXPECT_EQ(Stored(), 0);
}

TEST_F(SubmitInPiecesTest, WhatFitsIsOneSubmissionAndNothingIsOneToo) {
  EXPECT_EQ(Submit(Puts(10), {}), absl::OkStatus());
  EXPECT_EQ(queue_.transactions(), 1);
  EXPECT_EQ(Submit({}, {}), absl::OkStatus());
  EXPECT_EQ(queue_.transactions(), 1);
}

TEST_F(SubmitInPiecesTest, AnErrorOfAnEarlierPieceIsThatOfTheWhole) {
  store_.FailNextTxn(absl::UnavailableError("disk"));
  EXPECT_EQ(Submit(Puts(kMany), {}), absl::UnavailableError("disk"));
  EXPECT_EQ(Stored(), 0);
}

}  // namespace
}  // namespace capstan::engine
