// Part of conformance.h: watches.
#ifndef CAPSTAN_LIBS_STORE_CONFORMANCE_WATCH_H_
#define CAPSTAN_LIBS_STORE_CONFORMANCE_WATCH_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/store/conformance.h"

namespace capstan::store {

// Follows a range and checks what every watch promises about order.
class WatchRecorder {
 public:
  WatchRecorder(Store* store, WatchRequest request) : request_(request) {
    watch_ = store->StartWatch(std::move(request), [this](absl::StatusOr<WatchBatch> batch) {
      EXPECT_TRUE(error_.ok()) << "called after the end";
      if (!batch.ok()) {
        error_ = batch.status();
        return;
      }
      ++batches_;
      for (const WatchEvent& event : batch->events) {
        EXPECT_GT(event.kv.mod_revision, revision_) << "not in whole revisions, or doubled";
        EXPECT_LE(event.kv.mod_revision, batch->revision);
        EXPECT_GE(event.kv.mod_revision, request_.start_revision);
        events_.push_back(event);
      }
      EXPECT_GE(batch->revision, revision_);
      revision_ = batch->revision;
    });
  }

  // "put /a=1@2" and "delete /a@3".
  std::vector<std::string> Text() const {
    std::vector<std::string> text;
    for (const WatchEvent& event : events_) {
      const bool put = event.type == WatchEvent::Type::kPut;
      text.push_back(absl::StrCat(put ? "put " : "delete ", event.kv.key,
                                  put ? absl::StrCat("=", event.kv.value) : "", "@",
                                  event.kv.mod_revision));
    }
    return text;
  }

  void Cancel() { watch_.reset(); }
  int batches() const { return batches_; }
  int64_t revision() const { return revision_; }
  const absl::Status& error() const { return error_; }
  const std::vector<WatchEvent>& events() const { return events_; }

 private:
  const WatchRequest request_;
  std::unique_ptr<Watch> watch_;
  int batches_ = 0;
  int64_t revision_ = 0;
  absl::Status error_;
  std::vector<WatchEvent> events_;
};

TEST_P(StoreConformanceTest, AWatchTellsWhereItStartsThenWhatChanges) {
  ASSERT_TRUE(Do({Put{"/a", "1"}}).ok());
  WatchRecorder watch(store_.get(), {.key = "/", .end = PrefixEnd("/")});
  EXPECT_TRUE(strand_.RunUntil([&] { return watch.batches() == 1; }));
  EXPECT_EQ(watch.revision(), 2);
  EXPECT_TRUE(watch.events().empty());
  ASSERT_TRUE(Do({Put{"/b", "1"}, Delete{"/a", ""}}).ok());
  ASSERT_TRUE(Do({Put{"/b", "2"}}).ok());
  EXPECT_TRUE(strand_.RunUntil([&] { return watch.revision() == 4; }));
  EXPECT_EQ(watch.Text(), (std::vector<std::string>{"put /b=1@3", "delete /a@3", "put /b=2@4"}));
  const KeyValue& kv = watch.events().back().kv;
  EXPECT_EQ(kv, (KeyValue{"/b", "2", 3, 4, 2, 0}));
}

TEST_P(StoreConformanceTest, AWatchSeesItsRangeOnly) {
  WatchRecorder one(store_.get(), {.key = "/b", .end = "", .start_revision = 1});
  WatchRecorder some(store_.get(), {.key = "/b", .end = "/d", .start_revision = 1});
  for (const char* key : {"/a", "/b", "/bb", "/c", "/d"}) ASSERT_TRUE(Do({Put{key, "1"}}).ok());
  ASSERT_TRUE(Do({Delete{"/", PrefixEnd("/")}}).ok());
  EXPECT_TRUE(strand_.RunUntil([&] { return one.revision() == 7 && some.revision() == 7; }));
  EXPECT_EQ(one.Text(), (std::vector<std::string>{"put /b=1@3", "delete /b@7"}));
  EXPECT_EQ(some.Text(), (std::vector<std::string>{"put /b=1@3", "put /bb=1@4", "put /c=1@5",
                                                   "delete /b@7", "delete /bb@7", "delete /c@7"}));
}

TEST_P(StoreConformanceTest, AWatchResumesFromAnyRevisionAlsoAfterReopening) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Do({Put{"/a", absl::StrCat(i)}}).ok());  // 2..11
  Reopen();
  for (const int64_t from : {1, 2, 7, 11, 12, 14}) {
    WatchRecorder watch(store_.get(), {.key = "/a", .end = "", .start_revision = from});
    EXPECT_TRUE(strand_.RunUntil([&] { return watch.batches() >= 1; }));
    EXPECT_EQ(watch.events().size(),
              static_cast<size_t>(std::max<int64_t>(0, 12 - std::max<int64_t>(2, from))));
  }
  WatchRecorder later(store_.get(), {.key = "/a", .end = "", .start_revision = 14});
  for (int i = 12; i <= 15; ++i) ASSERT_TRUE(Do({Put{"/a", absl::StrCat(i)}}).ok());
  EXPECT_TRUE(strand_.RunUntil([&] { return later.events().size() == 2; }));
  EXPECT_EQ(later.Text(), (std::vector<std::string>{"put /a=14@14", "put /a=15@15"}));
}

TEST_P(StoreConformanceTest, AWatchFromForgottenHistoryIsToldSo) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Do({Put{"/a", absl::StrCat(i)}}).ok());
  ASSERT_TRUE(Compact(6).ok());
  WatchRecorder old(store_.get(), {.key = "/a", .end = "", .start_revision = 5});
  WatchRecorder kept(store_.get(), {.key = "/a", .end = "", .start_revision = 6});
  EXPECT_TRUE(strand_.RunUntil([&] { return !old.error().ok() && kept.revision() == 11; }));
  EXPECT_EQ(status::Reason(old.error()), kReasonCompacted);
  EXPECT_EQ(kept.events().size(), 6u);
}

TEST_P(StoreConformanceTest, ADestroyedWatchIsSilentAndACloseEndsTheOthers) {
  WatchRecorder cancelled(store_.get(), {.key = "/a", .end = "", .start_revision = 1});
  WatchRecorder kept(store_.get(), {.key = "/a", .end = "", .start_revision = 1});
  ASSERT_TRUE(Do({Put{"/a", "1"}}).ok());
  cancelled.Cancel();
  const int batches = cancelled.batches();
  ASSERT_TRUE(Do({Put{"/a", "2"}}).ok());
  EXPECT_TRUE(strand_.RunUntil([&] { return kept.revision() == 3; }));
  EXPECT_EQ(cancelled.batches(), batches);
  Reopen();
  EXPECT_TRUE(strand_.RunUntil([&] { return !kept.error().ok(); }));
  EXPECT_EQ(status::Reason(kept.error()), kReasonClosed);
  EXPECT_TRUE(cancelled.error().ok());
}

TEST_P(StoreConformanceTest, LeaseExpiryIsWatched) {
  const auto [ttl, before, after] = disk_->lease_timing();
  const auto lease = Grant(ttl);
  ASSERT_TRUE(Do({Put{"/a", "1", *lease}, Put{"/b", "1", *lease}}).ok());
  WatchRecorder watch(store_.get(), {.key = "/", .end = PrefixEnd("/")});
  EXPECT_TRUE(strand_.RunUntil([&] { return watch.batches() == 1; }));
  Elapse(ttl + after);
  EXPECT_TRUE(strand_.RunUntil([&] { return watch.events().size() == 2; }));
  EXPECT_EQ(watch.Text(), (std::vector<std::string>{"delete /a@3", "delete /b@3"}));
}

// Watches that begin anywhere while others write see every event of their range once, in order.
TEST_P(StoreConformanceTest, WatchesThatStartDuringWritesMissNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const std::string root = absl::StrCat("/", seed, "/");
    const int64_t base = Range({.key = "/"})->revision;
    std::map<int64_t, std::string> written;
    std::vector<std::unique_ptr<WatchRecorder>> watches;
    std::vector<int64_t> starts;
    int answered = 0;
    constexpr int kWrites = 100;
    for (int i = 0; i < kWrites; ++i) {
      const std::string key = absl::StrCat(root, random.Below(3));
      store_->Txn({.then = {Put{key, absl::StrCat(i)}}},
                  [&, key](absl::StatusOr<TxnResult> result) {
                    ASSERT_TRUE(result.ok()) << result.status();
                    written[result->revision] = key;
                    ++answered;
                  });
      if (random.OneIn(10)) {
        starts.push_back(random.Between(base, base + kWrites));
        watches.push_back(std::make_unique<WatchRecorder>(
            store_.get(),
            WatchRequest{.key = root, .end = PrefixEnd(root), .start_revision = starts.back()}));
      }
      if (random.OneIn(5)) strand_.RunReady();
    }
    EXPECT_TRUE(strand_.RunUntil([&] { return answered == kWrites; }));
    ASSERT_EQ(written.size(), static_cast<size_t>(kWrites));
    for (size_t w = 0; w < watches.size(); ++w) {
      EXPECT_TRUE(strand_.RunUntil([&] { return watches[w]->revision() >= base + kWrites; }))
          << "seed " << seed;
      std::vector<int64_t> want;
      for (const auto& [revision, key] : written) {
        if (revision >= starts[w]) want.push_back(revision);
      }
      std::vector<int64_t> got;
      for (const WatchEvent& event : watches[w]->events()) got.push_back(event.kv.mod_revision);
      EXPECT_EQ(got, want) << "seed " << seed << " from " << starts[w];
    }
  }
}

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_CONFORMANCE_WATCH_H_
