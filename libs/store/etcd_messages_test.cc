#include "libs/store/etcd_messages.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/etcd_errors.h"

namespace capstan::store {
namespace {

constexpr char kFence[] = "/fence";

TEST(EtcdMessagesTest, WhatChangesSomethingIsFenced) {
  const TxnRequest request{.compares = {{.key = "/a", .number = 3}}, .then = {Put{"/a", "1"}}};
  const auto encoded = ToEtcd(request, kFence, {});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  ASSERT_EQ(encoded->compare_size(), 2);
  EXPECT_EQ(encoded->compare(0).key(), kFence);
  EXPECT_EQ(encoded->compare(0).target(), etcdserverpb::Compare::VERSION);
  EXPECT_EQ(encoded->compare(0).version(), 0);
  EXPECT_EQ(encoded->compare(1).key(), "/a");
  EXPECT_EQ(encoded->success(0).request_put().value(), "1");
}

TEST(EtcdMessagesTest, WhatChangesSomethingDoesSoOnlyInTheStoreThatWasOpened) {
  const StoreGuard guard{"/incarnation", 5};
  const TxnRequest request{.compares = {{.key = "/a", .number = 3}}, .then = {Put{"/a", "1"}}};
  const auto encoded = ToEtcd(request, kFence, {}, guard);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  ASSERT_EQ(encoded->compare_size(), 3);
  EXPECT_EQ(encoded->compare(1).key(), "/incarnation");
  EXPECT_EQ(encoded->compare(1).mod_revision(), 5);
  ASSERT_EQ(encoded->failure_size(), 1);
  EXPECT_EQ(encoded->failure(0).request_range().key(), "/incarnation");
  EXPECT_EQ(ToEtcd({.then = {RangeRequest{.key = "/a"}}}, kFence, {}, guard)->compare_size(), 0);

  etcdserverpb::TxnResponse response;
  auto* found = response.add_responses()->mutable_response_range();
  found->add_kvs()->set_mod_revision(5);
  EXPECT_FALSE(WasReplaced(response, request, guard)) << "a compare of its own did not hold";
  const auto result = FromEtcd(response, request, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->succeeded);
  EXPECT_TRUE(result->ranges.empty());
  found->mutable_kvs(0)->set_mod_revision(9);
  EXPECT_TRUE(WasReplaced(response, request, guard));
  EXPECT_FALSE(WasReplaced(response, request, {})) << "without a guard nobody asked";
  found->clear_kvs();
  EXPECT_TRUE(WasReplaced(response, request, guard));
}

TEST(EtcdMessagesTest, TheGuardStopsBothBranchesOfAWrappedTransaction) {
  const StoreGuard guard{"/incarnation", 5};
  const TxnRequest request{.compares = {{.key = "/a", .number = 3}},
                           .then = {Put{"/a", "1"}},
                           .otherwise = {Delete{"/a", ""}}};
  const auto encoded = ToEtcd(request, kFence, {}, guard);
  ASSERT_TRUE(encoded.ok());
  ASSERT_EQ(encoded->compare_size(), 2);
  EXPECT_EQ(encoded->compare(1).key(), "/incarnation");
  ASSERT_EQ(encoded->failure_size(), 1);
  EXPECT_TRUE(encoded->failure(0).has_request_range());
}

// etcd's own rule (checkTxnRequest in server/etcdserver/api/v3rpc/key.go).
bool EtcdTakes(const etcdserverpb::TxnRequest& txn, int limit) {
  const int here = std::max({txn.compare_size(), txn.success_size(), txn.failure_size()});
  if (here > limit) return false;
  for (const auto* branch : {&txn.success(), &txn.failure()}) {
    for (const auto& op : *branch) {
      if (op.has_request_txn() && !EtcdTakes(op.request_txn(), limit - here)) return false;
    }
  }
  return true;
}

TEST(EtcdMessagesTest, WhatOnlyReadsIsNotFencedButAlwaysRead) {
  const TxnRequest compare_only{.compares = {{.key = "/a", .number = 3}}};
  const auto encoded = ToEtcd(compare_only, kFence, {});
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->compare_size(), 1);
  // Without an operation etcd would answer from what one member has.
  ASSERT_EQ(encoded->success_size(), 1);
  ASSERT_EQ(encoded->failure_size(), 1);
  EXPECT_TRUE(encoded->success(0).request_range().count_only());
  EXPECT_FALSE(encoded->success(0).request_range().key().empty());
  etcdserverpb::TxnResponse response;
  response.mutable_header()->set_revision(8);
  response.set_succeeded(true);
  response.add_responses()->mutable_response_range();
  const auto result = FromEtcd(response, compare_only, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->ranges.empty());
  EXPECT_EQ(result->revision, 8);
}

TEST(EtcdMessagesTest, AChangeInBothBranchesIsWrappedSoThatTheFenceStopsBoth) {
  const TxnRequest request{.compares = {{.key = "/a", .number = 3}},
                           .then = {Put{"/a", "1"}},
                           .otherwise = {Delete{"/a", ""}}};
  const auto encoded = ToEtcd(request, kFence, {});
  ASSERT_TRUE(encoded.ok());
  ASSERT_EQ(encoded->compare_size(), 1);
  EXPECT_EQ(encoded->compare(0).key(), kFence);
  EXPECT_EQ(encoded->failure_size(), 0);
  ASSERT_EQ(encoded->success_size(), 1);
  EXPECT_EQ(encoded->success(0).request_txn().failure_size(), 1);

  etcdserverpb::TxnResponse response;
  response.set_succeeded(true);
  auto* inner = response.add_responses()->mutable_response_txn();
  inner->add_responses()->mutable_response_delete_range()->set_deleted(1);
  const auto result = FromEtcd(response, request, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->succeeded);
  EXPECT_EQ(result->deleted, 1);
}

TEST(EtcdMessagesTest, ComparesOfValuesKnowWhatIsAbsent) {
  using Target = Compare::Target;
  using Op = Compare::Op;
  const auto compare = [](Op op, const std::string& value) {
    return TxnRequest{.compares = {{"/a", Target::kValue, op, 0, value}}};
  };
  // Those that hold of an absent key in our words and not in etcd's.
  EXPECT_EQ(KeysToLookUp(compare(Op::kEqual, "")).size(), 1u);
  EXPECT_EQ(KeysToLookUp(compare(Op::kNotEqual, "x")).size(), 1u);
  EXPECT_EQ(KeysToLookUp(compare(Op::kLess, "x")).size(), 1u);
  EXPECT_TRUE(KeysToLookUp(compare(Op::kEqual, "x")).empty());
  EXPECT_TRUE(KeysToLookUp(compare(Op::kGreater, "x")).empty());

  const TxnRequest request = compare(Op::kNotEqual, "x");
  const auto absent = ToEtcd(request, kFence, {{"/a", false}});
  ASSERT_TRUE(absent.ok());
  EXPECT_EQ(absent->compare(0).result(), etcdserverpb::Compare::EQUAL);
  EXPECT_EQ(absent->success(0).request_txn().compare_size(), 0);
  const auto there = ToEtcd(request, kFence, {{"/a", true}});
  ASSERT_TRUE(there.ok());
  EXPECT_EQ(there->compare(0).result(), etcdserverpb::Compare::GREATER);
  EXPECT_EQ(there->success(0).request_txn().compare(0).value(), "x");

  etcdserverpb::TxnResponse moved;
  EXPECT_FALSE(FromEtcd(moved, request, {{"/a", true}}).has_value());
}

TEST(EtcdMessagesTest, EtcdsOwnLimitsAreRespected) {
  const StoreGuard guard{"/incarnation", 7};
  for (const size_t compares : {0, 1, 64, 100, 110}) {
    for (const size_t ops : {1, 126, 127, 128, 129, 1024}) {
      for (const bool both : {false, true}) {
        TxnRequest request;
        for (size_t i = 0; i < compares; ++i) request.compares.push_back({.key = "/c"});
        for (size_t i = 0; i < ops; ++i) request.then.push_back(Put{absl::StrCat("/", i), ""});
        if (both) request.otherwise = request.then;
        const auto encoded = ToEtcd(request, kFence, {}, guard);
        ASSERT_TRUE(encoded.ok()) << encoded.status();
        EXPECT_TRUE(EtcdTakes(*encoded, 128)) << compares << " " << ops << " " << both;
      }
    }
  }
  TxnRequest full;
  for (size_t i = 0; i < kMaxTxnCompares; ++i) full.compares.push_back({.key = "/c"});
  for (size_t i = 0; i < kMaxTxnOps; ++i) full.then.push_back(Put{absl::StrCat("/", i), ""});
  EXPECT_EQ(ToEtcd(full, kFence, {}).status().code(), absl::StatusCode::kInvalidArgument);

  // 1.5 MiB of keys and values are more with what frames them.
  TxnRequest large{.then = {Put{"/a", std::string(kMaxValueBytes, 'v')}}};
  large.then.push_back(Put{"/b", std::string(kMaxTxnBytes - kMaxValueBytes - 4, 'v')});
  const absl::Status refused = ToEtcd(large, kFence, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("1572864"), std::string::npos) << refused;
}

TEST(EtcdErrorsTest, SayWhatIsKnownOfACall) {
  const struct {
    absl::Status error;
    EtcdOutcome outcome;
    std::string reason;
  } kCases[] = {
      {absl::OutOfRangeError("etcdserver: mvcc: required revision has been compacted"),
       EtcdOutcome::kAnswered, kReasonCompacted},
      {absl::OutOfRangeError("etcdserver: mvcc: required revision is a future revision"),
       EtcdOutcome::kAnswered, kReasonFuture},
      {absl::NotFoundError("etcdserver: requested lease not found"), EtcdOutcome::kAnswered,
       kReasonNoLease},
      {absl::ResourceExhaustedError("etcdserver: mvcc: database space exceeded"),
       EtcdOutcome::kAnswered, kReasonNoSpace},
      {absl::ResourceExhaustedError("etcdserver: too many requests"), EtcdOutcome::kNotExecuted,
       ""},
      {absl::ResourceExhaustedError("Received message larger than max"), EtcdOutcome::kUnknown, ""},
      {absl::UnauthenticatedError("etcdserver: invalid auth token"), EtcdOutcome::kUnauthenticated,
       ""},
      {absl::InvalidArgumentError("etcdserver: revision of auth store is old"),
       EtcdOutcome::kUnauthenticated, ""},
      {absl::InvalidArgumentError("etcdserver: request is too large"), EtcdOutcome::kAnswered, ""},
      {absl::UnavailableError("etcdserver: no leader"), EtcdOutcome::kNotExecuted, ""},
      {absl::UnavailableError("failed to connect to all addresses; last error: …"),
       EtcdOutcome::kNotExecuted, ""},
      {absl::UnavailableError("etcdserver: request timed out"), EtcdOutcome::kUnknown, ""},
      {absl::UnavailableError("etcdserver: leader changed"), EtcdOutcome::kUnknown, ""},
      {absl::UnavailableError("Socket closed"), EtcdOutcome::kUnknown, ""},
      {absl::DeadlineExceededError("Deadline Exceeded"), EtcdOutcome::kUnknown, ""},
      {absl::UnknownError("raft: stopped"), EtcdOutcome::kUnknown, ""},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(ClassifyEtcdError(test.error), test.outcome) << test.error;
    EXPECT_EQ(status::Reason(TranslateEtcdError(test.error)), test.reason) << test.error;
  }
}

}  // namespace
}  // namespace capstan::store
