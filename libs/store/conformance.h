// What every adapter of Store must do, as parameterised tests. An adapter's test includes this
// header (and conformance_watch.h, conformance_concurrency.h) and instantiates StoreConformanceTest
// with a function that makes a StoreDisk.
#ifndef CAPSTAN_LIBS_STORE_CONFORMANCE_H_
#define CAPSTAN_LIBS_STORE_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/mvcc_map.h"
#include "libs/store/store.h"
#include "libs/store/testing/pumped_strand.h"

namespace capstan::store {

// Where an adapter keeps its store, so that it can be opened again.
class StoreDisk {
 public:
  // What the tests of leases go by: a lease has certainly not run out `before` its TTL is over, and
  // certainly has `after` that.
  struct LeaseTiming {
    absl::Duration ttl = absl::Seconds(10);
    absl::Duration before = absl::Milliseconds(1);
    absl::Duration after = absl::Milliseconds(1);
  };

  virtual ~StoreDisk() = default;
  virtual std::unique_ptr<Store> Open(PumpedStrand* strand) = 0;
  virtual LeaseTiming lease_timing() const { return LeaseTiming(); }
  // Lets time pass for leases. A server outside has only real time.
  virtual void Elapse(PumpedStrand* strand, absl::Duration d) { strand->Advance(d); }
};

class StoreConformanceTest
    : public testing::TestWithParam<std::function<std::unique_ptr<StoreDisk>()>> {
 protected:
  StoreConformanceTest() : disk_(GetParam()()), store_(disk_->Open(&strand_)) {}

  // Runs an asynchronous call to its end.
  template <typename T, typename F>
  absl::StatusOr<T> Await(F call) {
    absl::StatusOr<T> result = absl::DeadlineExceededError("no answer");
    bool done = false;
    call([&](absl::StatusOr<T> got) {
      EXPECT_FALSE(done) << "answered twice";
      result = std::move(got);
      done = true;
    });
    EXPECT_TRUE(strand_.RunUntil([&] { return done; }));
    return result;
  }
  template <typename F>
  absl::Status AwaitDone(F call) {
    absl::Status result = absl::DeadlineExceededError("no answer");
    bool done = false;
    call([&](absl::Status got) {
      result = std::move(got);
      done = true;
    });
    EXPECT_TRUE(strand_.RunUntil([&] { return done; }));
    return result;
  }

  absl::StatusOr<TxnResult> Txn(TxnRequest request) {
    return Await<TxnResult>([&](auto done) { store_->Txn(std::move(request), std::move(done)); });
  }
  absl::StatusOr<TxnResult> Do(std::vector<Op> ops) { return Txn({.then = std::move(ops)}); }
  absl::StatusOr<RangeResult> Range(RangeRequest request) {
    return Await<RangeResult>(
        [&](auto done) { store_->Range(std::move(request), std::move(done)); });
  }
  absl::StatusOr<LeaseId> Grant(absl::Duration ttl) {
    return Await<LeaseId>([&](auto done) { store_->GrantLease(ttl, std::move(done)); });
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) {
    return Await<absl::Duration>(
        [&](auto done) { store_->KeepAliveLease(lease, std::move(done)); });
  }
  absl::Status Compact(int64_t revision) {
    return AwaitDone([&](auto done) { store_->Compact(revision, std::move(done)); });
  }
  // The key's state now; version 0 if it is absent.
  KeyValue Get(const std::string& key) {
    const auto found = Range({.key = key});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && !found->kvs.empty() ? found->kvs[0] : KeyValue();
  }
  std::vector<std::string> Keys(int64_t revision = 0) {
    std::vector<std::string> keys;
    const auto found = Range({.key = "/", .end = PrefixEnd("/"), .revision = revision});
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) {
      for (const KeyValue& kv : found->kvs) keys.push_back(kv.key);
    }
    return keys;
  }
  void Elapse(absl::Duration d) { disk_->Elapse(&strand_, d); }
  void Reopen() {
    store_.reset();
    strand_.RunReady();
    store_ = disk_->Open(&strand_);
    ASSERT_NE(store_, nullptr);
  }

  PumpedStrand strand_;
  std::unique_ptr<StoreDisk> disk_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreConformanceTest, AnEmptyStoreIsAtRevisionOne) {
  const auto found = Range({.key = "/", .end = PrefixEnd("/")});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->revision, 1);
  EXPECT_TRUE(found->kvs.empty());
  EXPECT_FALSE(found->more);
}

TEST_P(StoreConformanceTest, KeysCountTheirChanges) {
  ASSERT_EQ(Do({Put{"/a", "1"}})->revision, 2);
  ASSERT_EQ(Do({Put{"/b", ""}})->revision, 3);
  ASSERT_EQ(Do({Put{"/a", "2"}})->revision, 4);
  EXPECT_EQ(Get("/a"), (KeyValue{"/a", "2", 2, 4, 2, 0}));
  EXPECT_EQ(Get("/b"), (KeyValue{"/b", "", 3, 3, 1, 0}));
  const auto gone = Do({Delete{"/a", ""}});
  EXPECT_EQ(gone->revision, 5);
  EXPECT_EQ(gone->deleted, 1);
  EXPECT_EQ(Get("/a").version, 0);
  ASSERT_EQ(Do({Put{"/a", "3"}})->revision, 6);
  EXPECT_EQ(Get("/a"), (KeyValue{"/a", "3", 6, 6, 1, 0}));
}

TEST_P(StoreConformanceTest, OnlyChangesMakeRevisions) {
  ASSERT_TRUE(Do({Put{"/a", "1"}}).ok());
  EXPECT_EQ(Do({Delete{"/absent", ""}})->revision, 2);
  EXPECT_EQ(Do({})->revision, 2);
  EXPECT_EQ(Do({RangeRequest{.key = "/a"}})->revision, 2);
  EXPECT_EQ(Do({Put{"/a", "1"}})->revision, 3);
  EXPECT_EQ(Do({Put{"/b", "1"}, Put{"/c", "1"}, Delete{"/a", ""}})->revision, 4);
}

TEST_P(StoreConformanceTest, ComparesDecideTheBranch) {
  ASSERT_TRUE(Do({Put{"/a", "m"}}).ok());
  ASSERT_TRUE(Do({Put{"/a", "m"}}).ok());  // create 2, mod 3, version 2
  using Target = Compare::Target;
  using Op = Compare::Op;
  const struct {
    Compare compare;
    bool holds;
  } kCases[] = {
      {{"/a", Target::kVersion, Op::kEqual, 2, ""}, true},
      {{"/a", Target::kVersion, Op::kNotEqual, 2, ""}, false},
      {{"/a", Target::kCreateRevision, Op::kEqual, 2, ""}, true},
      {{"/a", Target::kCreateRevision, Op::kLess, 2, ""}, false},
      {{"/a", Target::kModRevision, Op::kGreater, 2, ""}, true},
      {{"/a", Target::kModRevision, Op::kEqual, 2, ""}, false},
      {{"/a", Target::kValue, Op::kEqual, 0, "m"}, true},
      {{"/a", Target::kValue, Op::kLess, 0, "n"}, true},
      {{"/a", Target::kValue, Op::kGreater, 0, "m"}, false},
      {{"/a", Target::kValue, Op::kNotEqual, 0, "m"}, false},
      {{"/x", Target::kVersion, Op::kEqual, 0, ""}, true},
      {{"/x", Target::kCreateRevision, Op::kEqual, 0, ""}, true},
      {{"/x", Target::kModRevision, Op::kGreater, 0, ""}, false},
      {{"/x", Target::kValue, Op::kEqual, 0, ""}, true},
  };
  for (const auto& test : kCases) {
    const auto result = Txn({.compares = {test.compare},
                             .then = {Put{"/then", "1"}},
                             .otherwise = {Put{"/otherwise", "1"}}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->succeeded, test.holds);
    EXPECT_EQ(Get(test.holds ? "/then" : "/otherwise").mod_revision, result->revision);
  }
  const auto both = Txn({.compares = {kCases[0].compare, kCases[5].compare}});
  EXPECT_FALSE(both->succeeded);
}

TEST_P(StoreConformanceTest, ARangeInABranchSeesWhatTheBranchDid) {
  ASSERT_TRUE(Do({Put{"/a", "old"}, Put{"/b", "old"}}).ok());
  const auto result = Do({RangeRequest{.key = "/", .end = PrefixEnd("/")}, Put{"/a", "new"},
                          Delete{"/b", ""}, RangeRequest{.key = "/", .end = PrefixEnd("/")},
                          RangeRequest{.key = "/", .end = PrefixEnd("/"), .revision = 2}});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->ranges.size(), 3u);
  EXPECT_EQ(result->ranges[0].kvs.size(), 2u);
  ASSERT_EQ(result->ranges[1].kvs.size(), 1u);
  EXPECT_EQ(result->ranges[1].kvs[0], (KeyValue{"/a", "new", 2, 3, 2, 0}));
  EXPECT_EQ(result->ranges[1].revision, 3);
  ASSERT_EQ(result->ranges[2].kvs.size(), 2u);
  EXPECT_EQ(result->ranges[2].kvs[0].value, "old");
}

TEST_P(StoreConformanceTest, BadRequestsAreRefusedWhole) {
  const TxnBounds bounds = store_->txn_bounds();
  EXPECT_GE(bounds.ops, kMaxTxnOps);
  EXPECT_GE(bounds.bytes, kMaxTxnBytes);
  EXPECT_LT(bounds.ops, size_t{1} << 20) << "an outbox counts on it";
  std::vector<Op> large;
  for (size_t bytes = 0; bytes <= bounds.bytes; bytes += kMaxValueBytes) {
    large.push_back(Put{absl::StrCat("/large/", bytes), std::string(kMaxValueBytes, 'v')});
  }
  std::vector<Op> many;
  for (size_t i = 0; i <= bounds.ops; ++i) many.push_back(Put{absl::StrCat("/", i), ""});
  const std::vector<std::vector<Op>> kBad = {
      {Put{"", "1"}},
      {Put{"\xff", "1"}},
      {Put{std::string(kMaxKeyBytes + 1, 'k'), "1"}},
      {Put{"/a", std::string(kMaxValueBytes + 1, 'v')}},
      {Put{"/a", "1"}, Put{"/a", "2"}},
      {Put{"/a", "1"}, Delete{"/a", ""}},
      {Put{"/ab", "1"}, Delete{"/a", "/b"}},
      {Delete{"/a", "/c"}, Delete{"/b", "/d"}},
      {Delete{"/b", "/a"}},
      large,
      {RangeRequest{.key = "/a", .limit = -1}},
      many,
  };
  for (size_t i = 0; i < kBad.size(); ++i) {
    EXPECT_EQ(Do(kBad[i]).status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(Txn({.otherwise = kBad[i]}).status().code(), absl::StatusCode::kInvalidArgument) << i;
  }
  EXPECT_EQ(Range({.key = ""}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do({Put{"/a", "1"}, Put{"/l", "1", 77}}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Do({Put{"/a", "1"}, RangeRequest{.key = "/a", .revision = 9}}).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(Keys().empty());
  many.pop_back();
  EXPECT_TRUE(Do(many).ok());
}

TEST_P(StoreConformanceTest, ALargeTransactionIsOneRevisionInOrder) {
  // Reads stand at the ends of whatever parts an adapter may cut it into, and see what is before.
  std::vector<Op> many;
  size_t puts = 0;
  std::vector<size_t> seen;
  ASSERT_TRUE(Do({Put{"/gone/a", "1"}, Put{"/gone/b", "1"}}).ok());
  many.push_back(Delete{"/gone/", PrefixEnd("/gone/")});
  while (many.size() < kMaxTxnOps) {
    if (many.size() % 37 == 0 || many.size() + 1 == kMaxTxnOps) {
      many.push_back(RangeRequest{.key = "/k/", .end = PrefixEnd("/k/"), .limit = 10'000});
      seen.push_back(puts);
    } else {
      many.push_back(Put{absl::StrCat("/k/", puts++), "1"});
    }
  }
  for (const bool then : {true, false}) {
    SCOPED_TRACE(then);
    ASSERT_TRUE(Do({Put{"/gone/a", "1"}, Put{"/gone/b", "1"}, Delete{"/k/", "/k0"}}).ok());
    TxnRequest request;
    for (int i = 0; i < 100; ++i) {
      request.compares.push_back({.key = absl::StrCat("/none/", i), .number = then ? 0 : 1});
    }
    request.then = many;
    request.otherwise.push_back(Put{"/wrong", "1"});
    if (!then) std::swap(request.then, request.otherwise);
    const auto result = Txn(request);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->succeeded, then);
    EXPECT_EQ(result->deleted, 2);
    ASSERT_EQ(result->ranges.size(), seen.size());
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(result->ranges[i].kvs.size(), seen[i]) << i;
    const auto after = Range({.key = "/k/", .end = PrefixEnd("/k/"), .limit = 10'000});
    ASSERT_TRUE(after.ok());
    ASSERT_EQ(after->kvs.size(), puts);
    for (const KeyValue& kv : after->kvs) EXPECT_EQ(kv.mod_revision, result->revision) << kv.key;
    EXPECT_TRUE(Range({.key = "/wrong"})->kvs.empty());
  }
}

TEST_P(StoreConformanceTest, ComparesHaveTheirOwnBound) {
  TxnRequest request{.then = {Put{"/a", "1"}}};
  for (size_t i = 0; i < kMaxTxnCompares; ++i) {
    request.compares.push_back({.key = absl::StrCat("/none/", i)});
  }
  request.compares.push_back({.key = "/none"});
  EXPECT_EQ(Txn(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Keys().empty());
}

TEST_P(StoreConformanceTest, RangesAreInByteOrderAndCutByTheLimit) {
  const std::vector<std::string> keys = {
      std::string("/a"), std::string("/a\0", 3), "/a/b", "/b", "/\x80", "/\xff"};
  std::vector<Op> puts;
  for (auto it = keys.rbegin(); it != keys.rend(); ++it) puts.push_back(Put{*it, *it});
  const int64_t revision = Do(puts)->revision;
  EXPECT_EQ(Keys(), keys);
  EXPECT_EQ(Range({.key = "/a", .end = "/b"})->kvs.size(), 3u);
  // Page by page at one revision, while the store goes on changing.
  std::vector<std::string> seen;
  RangeRequest page{.key = "/", .end = PrefixEnd("/"), .limit = 2};
  while (true) {
    const auto found = Range(page);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->revision, revision);
    for (const KeyValue& kv : found->kvs) seen.push_back(kv.key);
    if (!found->more) break;
    ASSERT_EQ(found->kvs.size(), 2u);
    page.key = found->kvs.back().key + '\0';
    page.revision = found->revision;
    ASSERT_TRUE(Do({Put{absl::StrCat("/a", seen.size()), "new"}, Delete{keys.back(), ""}}).ok());
  }
  EXPECT_EQ(seen, keys);
}

TEST_P(StoreConformanceTest, HistoryIsKeptUntilCompacted) {
  ASSERT_TRUE(Do({Put{"/a", "1"}}).ok());                    // 2
  ASSERT_TRUE(Do({Put{"/b", "1"}}).ok());                    // 3
  ASSERT_TRUE(Do({Delete{"/a", ""}}).ok());                  // 4
  ASSERT_TRUE(Do({Put{"/a", "2"}, Delete{"/b", ""}}).ok());  // 5
  using Strings = std::vector<std::string>;
  const auto check_from = [&](int64_t first) {
    if (first <= 2) {
      EXPECT_EQ(Keys(2), Strings{"/a"});
    }
    if (first <= 3) {
      EXPECT_EQ(Keys(3), (Strings{"/a", "/b"}));
    }
    if (first <= 4) {
      EXPECT_EQ(Keys(4), Strings{"/b"});
    }
    EXPECT_EQ(Keys(5), Strings{"/a"});
    EXPECT_EQ(Keys(), Strings{"/a"});
  };
  check_from(1);
  EXPECT_TRUE(Keys(1).empty());
  EXPECT_EQ(status::Reason(Range({.key = "/a", .revision = 6}).status()), kReasonFuture);
  EXPECT_EQ(status::Reason(Compact(6)), kReasonFuture);
  for (const int64_t to : {3, 3, 2, 4, 5}) {
    EXPECT_TRUE(Compact(to).ok());
    const int64_t kept = std::max<int64_t>(to, 3);
    check_from(kept);
    EXPECT_EQ(status::Reason(Range({.key = "/a", .revision = kept - 1}).status()),
              kReasonCompacted);
  }
  Reopen();
  check_from(5);
  EXPECT_EQ(status::Reason(Range({.key = "/a", .revision = 4}).status()), kReasonCompacted);
  EXPECT_EQ(Get("/a"), (KeyValue{"/a", "2", 5, 5, 1, 0}));
}

TEST_P(StoreConformanceTest, WhatIsAnsweredIsThereAfterReopening) {
  const int64_t incarnation = store_->incarnation();
  EXPECT_GT(incarnation, 0);
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(Do({Put{absl::StrCat("/", i % 7), absl::StrCat(i)}}).ok());
  const auto before = Range({.key = "/", .end = PrefixEnd("/")});
  Reopen();
  EXPECT_EQ(store_->incarnation(), incarnation);
  const auto after = Range({.key = "/", .end = PrefixEnd("/")});
  EXPECT_EQ(before->kvs, after->kvs);
  EXPECT_EQ(before->revision, after->revision);
  EXPECT_EQ(Do({Put{"/z", ""}})->revision, before->revision + 1);
}

TEST_P(StoreConformanceTest, LeasesDeleteTheirKeysInOneRevision) {
  const auto [ttl, before, after] = disk_->lease_timing();
  const auto lease = Grant(ttl);
  ASSERT_TRUE(lease.ok());
  ASSERT_TRUE(Do({Put{"/a", "1", *lease}, Put{"/b", "1", *lease}, Put{"/c", "1", *lease}}).ok());
  ASSERT_TRUE(Do({Put{"/c", "2"}}).ok());  // hangs on nothing any more
  EXPECT_EQ(Get("/a").lease, *lease);
  EXPECT_EQ(Get("/c").lease, 0);
  const int64_t revision = Range({.key = "/a"})->revision;
  Elapse(ttl - before);
  EXPECT_EQ(Keys().size(), 3u);
  EXPECT_EQ(*KeepAlive(*lease), ttl);
  Elapse(ttl - before);
  EXPECT_EQ(Keys().size(), 3u);
  Elapse(before + after);
  EXPECT_EQ(status::Reason(KeepAlive(*lease).status()), kReasonNoLease);
  // The deletion comes by itself; a transaction behind it waits for it.
  EXPECT_EQ(status::Reason(Do({Put{"/d", "1", *lease}}).status()), kReasonNoLease);
  EXPECT_EQ(Keys(), std::vector<std::string>{"/c"});
  EXPECT_EQ(Range({.key = "/a"})->revision, revision + 1);
}

TEST_P(StoreConformanceTest, LeasesAreRevokedAndOutliveReopening) {
  const auto [ttl, before, after] = disk_->lease_timing();
  const auto first = Grant(ttl);
  const auto second = Grant(ttl);
  ASSERT_NE(*first, *second);
  ASSERT_TRUE(Do({Put{"/a", "1", *first}, Put{"/b", "1", *second}}).ok());
  const auto revoke = [&](LeaseId lease) {
    return AwaitDone([&](auto done) { store_->RevokeLease(lease, std::move(done)); });
  };
  EXPECT_TRUE(revoke(*first).ok());
  EXPECT_EQ(status::Reason(revoke(*first)), kReasonNoLease);
  EXPECT_EQ(Keys(), std::vector<std::string>{"/b"});
  Elapse(ttl - before);
  Reopen();
  EXPECT_NE(*Grant(ttl), *second);
  // The time that was left starts afresh.
  Elapse(ttl - before);
  EXPECT_EQ(Keys(), std::vector<std::string>{"/b"});
  EXPECT_TRUE(KeepAlive(*second).ok());
  Elapse(ttl + after);
  EXPECT_FALSE(Do({Put{"/x", "1", *second}}).ok());
  EXPECT_TRUE(Keys().empty());
  EXPECT_EQ(Grant(absl::ZeroDuration()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreConformanceTest, ClosingAnswersEveryCallOnce) {
  int answers = 0;
  int closed = 0;
  const auto count = [&](const absl::Status& status) {
    ++answers;
    if (status.ok()) return;
    EXPECT_EQ(status::Reason(status), kReasonClosed);
    ++closed;
  };
  for (int i = 0; i < 100; ++i) {
    store_->Txn({.then = {Put{absl::StrCat("/", i), ""}}},
                [&](absl::StatusOr<TxnResult> result) { count(result.status()); });
    store_->Range({.key = "/a"},
                  [&](absl::StatusOr<RangeResult> result) { count(result.status()); });
  }
  auto watch = store_->StartWatch({.key = "/a"}, [](absl::StatusOr<WatchBatch>) {});
  store_.reset();
  EXPECT_TRUE(strand_.RunUntil([&] { return answers == 200; }));
  store_ = disk_->Open(&strand_);
  // A transaction that got STORE_CLOSED did not take effect, one that got OK did.
  EXPECT_GE(Keys().size() + closed, 100u);
  EXPECT_LE(Keys().size(), 100u);
}

// The adapter against MvccMap, the executable specification.
TEST_P(StoreConformanceTest, RandomTransactionsDoWhatTheModelDoes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const std::string root = absl::StrCat("/", seed, "/");
    const int64_t base = Range({.key = "/"})->revision;
    MvccMap model;
    // Brings the model to the same revision.
    for (int64_t r = model.revision(); r < base; ++r) {
      ASSERT_TRUE(model.Apply({.then = {Put{"/filler", ""}}}, [](LeaseId) { return true; }).ok());
    }
    const auto key = [&] { return absl::StrCat(root, random.Below(6)); };
    for (int i = 0; i < 60; ++i) {
      TxnRequest request;
      const KeyValue& kv = [&]() -> KeyValue {
        const auto found = model.Range({.key = key()});
        return found->kvs.empty() ? KeyValue() : found->kvs[0];
      }();
      if (random.OneIn(2) && !kv.key.empty()) {
        request.compares.push_back(
            {.key = kv.key, .number = kv.mod_revision - (random.OneIn(4) ? 1 : 0)});
      }
      for (auto* branch : {&request.then, &request.otherwise}) {
        if (random.OneIn(4)) branch->push_back(RangeRequest{.key = root, .end = PrefixEnd(root)});
        if (random.OneIn(3)) {
          branch->push_back(Delete{absl::StrCat(root, 4), random.OneIn(2) ? PrefixEnd(root) : ""});
        }
        for (int k = 0; k < 4; ++k) {
          if (random.OneIn(3)) branch->push_back(Put{absl::StrCat(root, k), absl::StrCat(i)});
        }
        if (random.OneIn(4)) {
          branch->push_back(RangeRequest{.key = root, .end = PrefixEnd(root), .limit = 2});
        }
      }
      const auto want = model.Apply(request, [](LeaseId) { return true; });
      const auto got = Txn(request);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->succeeded, want->succeeded) << "seed " << seed << " step " << i;
      ASSERT_EQ(got->revision, want->revision);
      ASSERT_EQ(got->deleted, want->deleted);
      ASSERT_EQ(got->ranges.size(), want->ranges.size());
      for (size_t r = 0; r < got->ranges.size(); ++r) {
        ASSERT_EQ(got->ranges[r].kvs, want->ranges[r].kvs);
        ASSERT_EQ(got->ranges[r].more, want->ranges[r].more);
      }
      if (random.OneIn(20)) {
        const int64_t to = random.Between(model.compacted(), model.revision());
        ASSERT_TRUE(model.Compact(to).ok());
        ASSERT_TRUE(Compact(to).ok());
      }
      if (random.OneIn(30)) Reopen();
    }
    for (int64_t r = std::max(base, model.compacted()); r <= model.revision(); ++r) {
      const RangeRequest all{.key = root, .end = PrefixEnd(root), .revision = r};
      const auto got = Range(all);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->kvs, model.Range(all)->kvs) << "seed " << seed << " revision " << r;
    }
  }
}

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_CONFORMANCE_H_
