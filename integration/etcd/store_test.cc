// What EtcdStore does beyond the conformance suite, on a real etcd: users and their tokens, a full
// store, incarnations, paging, progress, and servers that are not the right ones.
#include "libs/store/store.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/etcd/test_store.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/replace_file.h"
#include "libs/status/error.h"
#include "libs/store/etcd_client.h"
#include "libs/store/etcd_maintenance.h"
#include "libs/store/etcd_store.h"
#include "libs/store/testing/pumped_strand.h"
#include "proto/etcd/authpb/auth.pb.h"
#include "proto/etcd/etcdserverpb/rpc.pb.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {
namespace {

class EtcdStoreTest : public testing::Test {
 protected:
  void StartEtcd(std::vector<std::string> flags = {}) {
    auto etcd = testenv::EtcdServer::Start({.fsync = false, .flags = std::move(flags)});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
  }
  EtcdOptions Options() const { return OptionsFor(*etcd_); }
  void Open(EtcdOptions options) {
    auto store = OpenEtcd(std::move(options), &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  template <typename T, typename F>
  absl::StatusOr<T> Await(F call) {
    absl::StatusOr<T> result = absl::DeadlineExceededError("no answer");
    bool done = false;
    call([&](absl::StatusOr<T> got) {
      result = std::move(got);
      done = true;
    });
    // Between attempts the store waits for the strand's clock.
    for (int i = 0; i < 1000 && !done; ++i) strand_.RunFor(absl::Milliseconds(20));
    return result;
  }
  absl::StatusOr<TxnResult> Txn(TxnRequest request) {
    return Await<TxnResult>([&](auto done) { store_->Txn(std::move(request), std::move(done)); });
  }
  absl::StatusOr<TxnResult> PutKey(const std::string& key, const std::string& value) {
    return Txn({.then = {Put{key, value}}});
  }
  absl::StatusOr<RangeResult> Range(RangeRequest request) {
    return Await<RangeResult>(
        [&](auto done) { store_->Range(std::move(request), std::move(done)); });
  }
  absl::Status AwaitDone(absl::AnyInvocable<void(DoneCallback)> call) {
    return Await<bool>([&](auto done) {
             call([done = std::move(done)](absl::Status status) mutable {
               if (status.ok()) return done(true);
               done(status);
             });
           })
        .status();
  }

  using AuthCalls = etcdserverpb::Auth::StubInterface::async_interface;

  template <typename Request, typename Response>
  void CallAuth(const std::shared_ptr<EtcdClient>& admin,
                void (AuthCalls::*method)(grpc::ClientContext*, const Request*, Response*,
                                          std::function<void(grpc::Status)>),
                std::type_identity_t<Request> request) {
    const auto answer = Await<Response>([&](auto done) {
      admin->Call<etcdserverpb::Auth>(method, request, EtcdClient::Repeat::kAlways,
                                      admin->CallDeadline(), std::move(done));
    });
    ASSERT_TRUE(answer.ok()) << answer.status();
  }

  // A user `app` who may use the prefix only, and `root`; both with the password `secret`.
  void EnableUsers() {
    const auto admin = std::make_shared<EtcdClient>(Options(), &strand_);
    for (const std::string name : {"root", "app"}) {
      etcdserverpb::AuthUserAddRequest user;
      user.set_name(name);
      user.set_password("secret");
      CallAuth(admin, &AuthCalls::UserAdd, user);
      etcdserverpb::AuthRoleAddRequest role;
      role.set_name(name);
      CallAuth(admin, &AuthCalls::RoleAdd, role);
      etcdserverpb::AuthUserGrantRoleRequest grant;
      grant.set_user(name);
      grant.set_role(name);
      CallAuth(admin, &AuthCalls::UserGrantRole, grant);
    }
    GrantPrefix(admin, "/capstan/test/");
    CallAuth(admin, &AuthCalls::AuthEnable, {});
    admin->Close();
  }
  void GrantPrefix(const std::shared_ptr<EtcdClient>& admin, const std::string& prefix) {
    etcdserverpb::AuthRoleGrantPermissionRequest permission;
    permission.set_name("app");
    permission.mutable_perm()->set_permtype(authpb::Permission::READWRITE);
    permission.mutable_perm()->set_key(prefix);
    permission.mutable_perm()->set_range_end(PrefixEnd(prefix));
    CallAuth(admin, &AuthCalls::RoleGrantPermission, permission);
  }
  EtcdOptions As(const std::string& user) const {
    EtcdOptions options = Options();
    options.user = user;
    options.password = "secret";
    return options;
  }

  PumpedStrand strand_;
  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<EtcdStore> store_;
};

TEST_F(EtcdStoreTest, UsersKeepToTheirPrefixAndTokensAreRenewed) {
  // Tokens last 2 s here, and are renewed by use in less.
  StartEtcd({"--auth-token-ttl=2"});
  EnableUsers();
  ASSERT_NO_FATAL_FAILURE(Open(As("app")));
  ASSERT_TRUE(PutKey("/capstan/test/a", "1").ok());
  EXPECT_EQ(PutKey("/capstan/other/a", "1").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Range({.key = "/", .end = PrefixEnd("/")}).status().code(),
            absl::StatusCode::kPermissionDenied);

  int64_t seen = 0;
  absl::Status denied;
  const auto watch = store_->StartWatch(
      {.key = "/capstan/test/", .end = PrefixEnd("/capstan/test/"), .start_revision = 1},
      [&](absl::StatusOr<WatchBatch> batch) { seen = batch.ok() ? batch->revision : -1; });
  const auto other =
      store_->StartWatch({.key = "/capstan/other/", .end = PrefixEnd("/capstan/other/")},
                         [&](absl::StatusOr<WatchBatch> batch) { denied = batch.status(); });

  // Nobody uses the token until it is no longer good.
  strand_.RunFor(absl::Seconds(4));
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  const auto lease =
      Await<LeaseId>([&](auto done) { store_->GrantLease(absl::Seconds(10), std::move(done)); });
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto put = PutKey("/capstan/test/a", "2");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(strand_.RunUntil([&] { return seen == put->revision; }));
  strand_.RunFor(absl::Seconds(4));
  int64_t late = 0;
  const auto second = store_->StartWatch(
      {.key = "/capstan/test/a", .end = "", .start_revision = 1},
      [&](absl::StatusOr<WatchBatch> batch) { late = batch.ok() ? batch->revision : -1; });
  for (int i = 0; i < 100 && late == 0; ++i) strand_.RunFor(absl::Milliseconds(50));
  EXPECT_EQ(late, put->revision);

  // Changed rights make the tokens of before useless.
  const auto admin = std::make_shared<EtcdClient>(As("root"), &strand_);
  GrantPrefix(admin, "/capstan/other/");
  admin->Close();
  EXPECT_TRUE(PutKey("/capstan/other/a", "1").ok());

  EtcdOptions wrong = As("app");
  wrong.password = "guessed";
  EXPECT_EQ(OpenEtcd(wrong, &strand_).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(EtcdStoreTest, AFullStoreTakesDeletionsAndIsMadeRoomIn) {
  StartEtcd({"--quota-backend-bytes=8388608"});
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  const std::string value(1 << 19, 'v');
  absl::StatusOr<TxnResult> put = TxnResult();
  for (int i = 0; i < 40 && put.ok(); ++i) put = PutKey("/capstan/test/a", value);
  ASSERT_EQ(status::Reason(put.status()), kReasonNoSpace) << put.status();
  const auto gone = Txn({.then = {Delete{"/capstan/test/a", ""}}});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(status::Reason(PutKey("/capstan/test/b", "1").status()), kReasonNoSpace);

  EtcdMaintenance maintenance(Options(), &strand_);
  const auto inspect = [&] {
    return Await<std::vector<EtcdMember>>([&](auto done) { maintenance.Inspect(std::move(done)); });
  };
  const auto before = inspect();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->at(0).no_space);
  EXPECT_TRUE(before->at(0).leads);
  EXPECT_EQ(before->at(0).quota_bytes, 8388608);
  const absl::Status reclaimed =
      AwaitDone([&](DoneCallback done) { maintenance.Reclaim(gone->revision, std::move(done)); });
  ASSERT_TRUE(reclaimed.ok()) << reclaimed;
  const auto after = inspect();
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after->at(0).no_space);
  EXPECT_LT(after->at(0).disk_bytes, before->at(0).disk_bytes / 2);
  EXPECT_TRUE(PutKey("/capstan/test/b", "1").ok());
}

TEST_F(EtcdStoreTest, TheIncarnationIsKeptAndRisesInAnotherCluster) {
  StartEtcd();
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  const int64_t first = store_->incarnation();
  EXPECT_GT(first, 0);
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  EXPECT_EQ(store_->incarnation(), first);
  // As it is found in a cluster that was restored from a backup of another one.
  const std::string later = absl::StrCat(first + 1000);
  ASSERT_TRUE(PutKey("/capstan/test/store/incarnation", later + " 1234").ok());
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  EXPECT_EQ(store_->incarnation(), first + 1001);
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  EXPECT_EQ(store_->incarnation(), first + 1001);
}

TEST_F(EtcdStoreTest, LongRangesAreReadAtOneRevisionInPages) {
  StartEtcd();
  ASSERT_NO_FATAL_FAILURE(Open(Options()));
  constexpr int kKeys = 1280;
  for (int i = 0; i < kKeys; i += 128) {
    std::vector<Op> puts;
    for (int k = i; k < i + 128; ++k) {
      puts.push_back(Put{absl::StrCat("/capstan/test/k/", k), std::string(8000, 'v')});
    }
    ASSERT_TRUE(Txn({.then = std::move(puts)}).ok());
  }
  // While it is read, page by page, all keys are put again and history is forgotten.
  absl::StatusOr<RangeResult> found = absl::UnknownError("not answered");
  store_->Range({.key = "/capstan/test/k/", .end = PrefixEnd("/capstan/test/k/"), .limit = 10000},
                [&](absl::StatusOr<RangeResult> result) { found = std::move(result); });
  for (int i = 0; i < kKeys; i += 128) {
    std::vector<Op> puts;
    for (int k = i; k < i + 128; ++k) {
      puts.push_back(Put{absl::StrCat("/capstan/test/k/", k), "2"});
    }
    const auto put = Txn({.then = std::move(puts)});
    ASSERT_TRUE(put.ok());
    ASSERT_TRUE(AwaitDone([&](DoneCallback done) {
                  store_->Compact(put->revision, std::move(done));
                }).ok());
  }
  EXPECT_TRUE(
      strand_.RunUntil([&] { return found.status().code() != absl::StatusCode::kUnknown; }));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->kvs.size(), static_cast<size_t>(kKeys));
  EXPECT_FALSE(found->more);
  for (const KeyValue& kv : found->kvs) EXPECT_LE(kv.mod_revision, found->revision);
}

TEST_F(EtcdStoreTest, AQuietWatchIsToldHowFarItHasCome) {
  StartEtcd();
  EtcdOptions options = Options();
  options.progress_interval = absl::Milliseconds(100);
  ASSERT_NO_FATAL_FAILURE(Open(options));
  int64_t revision = 0;
  const auto watch =
      store_->StartWatch({.key = "/capstan/test/quiet", .end = "", .start_revision = 1},
                         [&](absl::StatusOr<WatchBatch> batch) {
                           ASSERT_TRUE(batch.ok()) << batch.status();
                           EXPECT_TRUE(batch->events.empty());
                           revision = batch->revision;
                         });
  const auto put = PutKey("/capstan/test/other", "1");
  ASSERT_TRUE(put.ok());
  for (int i = 0; i < 100 && revision < put->revision; ++i) strand_.RunFor(absl::Milliseconds(50));
  EXPECT_GE(revision, put->revision);
  // So it needs no history from before that when its member is gone.
  ASSERT_TRUE(
      AwaitDone([&](DoneCallback done) { store_->Compact(put->revision, std::move(done)); }).ok());
  etcd_->Kill(0);
  ASSERT_TRUE(etcd_->Restart(0).ok());
  const auto again = PutKey("/capstan/test/other", "2");
  for (int i = 0; i < 100 && revision <= put->revision; ++i) strand_.RunFor(absl::Milliseconds(50));
  EXPECT_GT(revision, put->revision);
}

TEST_F(EtcdStoreTest, WhoeverIsNotOurEtcdIsNotSpokenTo) {
  StartEtcd();
  EtcdOptions options = Options();
  options.call_timeout = absl::Milliseconds(600);
  const rpc::TestAuthority other;
  const std::string ca_file = testing::TempDir() + "/other-ca.pem";
  ASSERT_TRUE(ReplaceFile(ca_file, rpc::CertificatesToPem({other.root()})).ok());
  const auto open = [&](EtcdOptions with) {
    absl::Status status = absl::UnknownError("not opened");
    EtcdStore::Open(
        std::move(with), &strand_,
        [&](absl::StatusOr<std::unique_ptr<EtcdStore>> store) { status = store.status(); });
    for (int i = 0; i < 200 && status.code() == absl::StatusCode::kUnknown; ++i) {
      strand_.RunFor(absl::Milliseconds(20));
    }
    return status;
  };
  EXPECT_TRUE(open(options).ok());
  EtcdOptions stranger = options;
  stranger.ca_file = ca_file;
  EXPECT_EQ(status::Reason(open(stranger)), "STORE_UNREACHABLE") << open(stranger);
  EtcdOptions misnamed = options;
  misnamed.server_name = "etcd.example";
  EXPECT_EQ(status::Reason(open(misnamed)), "STORE_UNREACHABLE");
  EtcdOptions plain = options;
  plain.ca_file.clear();
  EXPECT_EQ(open(plain).code(), absl::StatusCode::kInvalidArgument);
  // Nobody is there, then not enough members.
  etcd_->Kill(0);
  EXPECT_EQ(status::Reason(open(options)), "STORE_UNREACHABLE");
}

}  // namespace
}  // namespace capstan::store
