// A denial, from the admin's call to the end of streams that are open on other parts: credentials
// and a part that watches it, over mTLS on loopback.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_log.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/policy_enforcer.h"
#include "libs/auth/policy_watcher.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/rpc/client_stream.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/server.h"
#include "libs/rpc/session_client.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/denial.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

using rpc::testing::EchoMessage;
using rpc::testing::EchoService;
using ::testing::ElementsAre;

// What a test allows for anything that should come at once, on a busy machine.
constexpr absl::Duration kDeadline = absl::Seconds(20);
// What is promised from the answer to `access deny` to the end of a stream.
constexpr absl::Duration kBound = absl::Seconds(2);

// A service that watches the policy, as every part does; its folder outlives it.
class Part {
 public:
  Part(const std::string& credentials, std::shared_ptr<rpc::Identity> identity,
       const std::string& folder)
      : identity_(std::move(identity)),
        audit_(audit::AuditLog::Open(folder + "/audit.chain", "part", &clock_).value()),
        access_(identity_->trust_domain(), &policy_, &clock_, audit_.get()),
        enforcer_({.file = folder + "/deny_list"}, {.holder = &policy_,
                                                    .access = &access_,
                                                    .strand = &auth_strand_,
                                                    .log = &log_,
                                                    .metrics = &metrics_}),
        stub_(v1::PolicyService::NewStub(
            rpc::Dial(credentials, identity_, &clock_, "/svc/credentials"))),
        watcher_(stub_.get(), &policy_, &auth_strand_, &random_) {
    EXPECT_TRUE(enforcer_.LoadKept().ok());
    auth_strand_.Post([this] {
      enforcer_.Start();
      watcher_.Start();
    });
    rpc::ServerConfig config;
    config.credentials = rpc::MutualTlsServerCredentials(identity_, &clock_);
    config.services = {rpc::Registered<EchoService>(&echo_)};
    server_ = rpc::Server::Start(config).value();
  }
  ~Part() {
    server_ = nullptr;
    auth_strand_.Stop();
    strand_.Stop();
  }

  bool AwaitRevision(int64_t revision) {
    const BootTime end = clock_.Read().boot + kDeadline;
    while (clock_.Read().boot < end) {
      const auto policy = policy_.Get();
      if (policy != nullptr && policy->revision() >= revision) return true;
      absl::Notification never;
      never.WaitForNotificationWithTimeout(absl::Milliseconds(5));
    }
    return false;
  }
  int64_t revision() const { return policy_.Get() == nullptr ? 0 : policy_.Get()->revision(); }

  std::unique_ptr<EchoService::Stub> As(std::shared_ptr<rpc::Identity> client,
                                        const Clock* clock) const {
    const std::string expected = identity_->spiffe_id();
    return EchoService::NewStub(
        rpc::Dial(absl::StrCat("127.0.0.1:", server_->port()), std::move(client), clock, expected));
  }

 private:
  SystemClock clock_;
  const std::shared_ptr<rpc::Identity> identity_;
  log::TestingSink sink_;
  log::Logger log_{"part", &clock_, &sink_, log::Level::kInfo};
  metrics::Registry metrics_{"part"};
  Random random_{1};
  std::unique_ptr<audit::AuditLog> audit_;
  auth::PolicyHolder policy_;
  auth::PolicyAccess access_;
  ThreadStrand auth_strand_{"part.auth", &clock_};
  ThreadStrand strand_{"part", &clock_};
  auth::PolicyEnforcer enforcer_;
  std::unique_ptr<v1::PolicyService::Stub> stub_;
  auth::PolicyWatcher watcher_;
  rpc::testing::EchoServer echo_{&access_, &strand_};
  std::unique_ptr<rpc::Server> server_;
};

// A stream that is open, as its client sees it.
class OpenStream {
 public:
  absl::Status AwaitEnd(absl::Duration bound) {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&closed_), bound)) {
      return absl::DeadlineExceededError("the stream is still open");
    }
    return status_;
  }
  bool AwaitMessages(int count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return messages_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), kDeadline);
  }
  rpc::SessionCallbacks<EchoMessage> Callbacks() {
    rpc::SessionCallbacks<EchoMessage> callbacks;
    callbacks.on_message = [this](const EchoMessage&) {
      absl::MutexLock lock(&mutex_);
      ++messages_;
    };
    callbacks.on_closed = [this](const absl::Status& why) {
      absl::MutexLock lock(&mutex_);
      status_ = why;
      closed_ = true;
    };
    return callbacks;
  }

 private:
  absl::Mutex mutex_;
  int messages_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class RevocationTest : public ::testing::Test {
 protected:
  using Async = EchoService::StubInterface::async_interface;
  using Chat = std::shared_ptr<rpc::BidiClientSession<EchoMessage, EchoMessage>>;

  void SetUp() override {
    const absl::Status started = harness_.Start();
    ASSERT_TRUE(started.ok()) << started;
    admin_ = harness_.Person().value();
    scheduler_ = Joined("/svc/scheduler");
    good_ = Joined("/node/local/good");
    bad_ = Joined("/node/local/bad");
    part_ = std::make_unique<Part>(harness_.address(), scheduler_, part_folder_.path());
    ASSERT_TRUE(part_->AwaitRevision(1));
  }
  void TearDown() override {
    client_strand_.Stop();
    part_ = nullptr;
  }

  std::shared_ptr<rpc::Identity> Joined(const std::string& path) {
    const auto token = harness_.MakeToken(admin_, path);
    EXPECT_TRUE(token.ok()) << token.status();
    auto identity = harness_.JoinAs(*token);
    EXPECT_TRUE(identity.ok()) << identity.status();
    return *std::move(identity);
  }
  absl::Status Deny(const std::string& path) {
    const auto stub = v1::PolicyService::NewStub(harness_.Dial(admin_));
    v1::DenyIdentityRequest request;
    request.set_spiffe_id(path);
    request.set_reason("stolen");
    return Call<google::protobuf::Empty>(*stub, &v1::PolicyService::Stub::DenyIdentity, request)
        .status();
  }
  absl::Status Allow(const std::string& path) {
    const auto stub = v1::DenialService::NewStub(harness_.Dial(admin_));
    v1::DeleteDenialRequest request;
    request.set_spiffe_id(path);
    request.set_reason("found");
    return Call<google::protobuf::Empty>(*stub, &v1::DenialService::Stub::DeleteDenial, request)
        .status();
  }
  absl::StatusOr<std::vector<v1::Denial>> Denials() {
    const auto stub = v1::DenialService::NewStub(harness_.Dial(admin_));
    std::vector<v1::Denial> all;
    v1::ListDenialsRequest request;
    request.set_page_size(1);
    do {
      const auto page =
          Call<v1::ListDenialsResponse>(*stub, &v1::DenialService::Stub::ListDenials, request);
      if (!page.ok()) return page.status();
      all.insert(all.end(), page->denials().begin(), page->denials().end());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return all;
  }
  // One call of the unary kind that Nodes may make, as a stream that ends by itself.
  absl::Status CountAs(const std::shared_ptr<rpc::Identity>& client) {
    const auto stub = part_->As(client, &clock_);
    grpc::ClientContext context;
    rpc::SetDeadline(context, kDeadline);
    EchoMessage request;
    request.set_count(1);
    const auto reader = stub->Count(&context, request);
    EchoMessage message;
    while (reader->Read(&message)) {
    }
    return rpc::FromGrpcStatus(reader->Finish());
  }
  static EchoMessage Text(const std::string& text) {
    EchoMessage message;
    message.set_text(text);
    return message;
  }

  SystemClock clock_;
  const TemporaryFolder folder_;
  const TemporaryFolder part_folder_;
  ServerHarness harness_{folder_.path()};
  ThreadStrand client_strand_{"clients", &clock_};
  std::shared_ptr<rpc::Identity> admin_;
  std::shared_ptr<rpc::Identity> scheduler_;
  std::shared_ptr<rpc::Identity> good_;
  std::shared_ptr<rpc::Identity> bad_;
  std::unique_ptr<Part> part_;
};

TEST_F(RevocationTest, EndsOpenStreamsOfTheDeniedAloneAndComesBackWhenAllowed) {
  const auto bad = part_->As(bad_, &clock_);
  const auto good = part_->As(good_, &clock_);
  const auto person = part_->As(admin_, &clock_);
  // Each kind of stream, idle: nothing is ever sent on them that could be checked.
  OpenStream bad_session;
  OpenStream bad_watch;
  OpenStream good_session;
  OpenStream person_watch;
  const Chat bad_chat =
      rpc::OpenSession(bad.get(), &Async::Chat, &client_strand_, bad_session.Callbacks());
  const Chat good_chat =
      rpc::OpenSession(good.get(), &Async::Chat, &client_strand_, good_session.Callbacks());
  EchoMessage open = Text("open");
  open.set_count(1);
  const auto bad_reader =
      rpc::OpenStream(bad.get(), &Async::Count, open, &client_strand_, bad_watch.Callbacks());
  const auto person_reader =
      rpc::OpenStream(person.get(), &Async::Count, open, &client_strand_, person_watch.Callbacks());
  ASSERT_TRUE(bad_chat->Send(Text("hello")).ok());
  ASSERT_TRUE(good_chat->Send(Text("hello")).ok());
  ASSERT_TRUE(bad_session.AwaitMessages(1) && good_session.AwaitMessages(1));
  ASSERT_TRUE(bad_watch.AwaitMessages(1) && person_watch.AwaitMessages(1));

  const absl::Status denied = Deny("/node/local/bad");
  ASSERT_TRUE(denied.ok()) << denied;
  const BootTime start = clock_.Read().boot;
  for (OpenStream* stream : {&bad_session, &bad_watch}) {
    const absl::Status ended = stream->AwaitEnd(kBound);
    EXPECT_EQ(ended.code(), absl::StatusCode::kPermissionDenied) << ended;
    EXPECT_EQ(status::Reason(ended), "IDENTITY_DENIED") << ended;
  }
  RecordProperty("revoked_after_ms",
                 static_cast<int>(absl::ToInt64Milliseconds(clock_.Read().boot - start)));
  const absl::Status refused = CountAs(bad_);
  EXPECT_EQ(status::Reason(refused), "IDENTITY_DENIED") << refused;
  // The others' streams are the same ones as before.
  ASSERT_TRUE(good_chat->Send(Text("still here")).ok());
  EXPECT_TRUE(good_session.AwaitMessages(2));
  EXPECT_EQ(person_watch.AwaitEnd(absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);

  const auto listed = Denials();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_TRUE(absl::EndsWith((*listed)[0].spiffe_id(), "/node/local/bad"));
  EXPECT_EQ((*listed)[0].reason(), "stolen");
  EXPECT_EQ((*listed)[0].principal(), admin_->spiffe_id());

  const int64_t revision = part_->revision();
  EXPECT_EQ(status::Reason(Allow("/node/local/other")), "NOT_DENIED");
  const absl::Status allowed = Allow("/node/local/bad");
  ASSERT_TRUE(allowed.ok()) << allowed;
  ASSERT_TRUE(part_->AwaitRevision(revision + 1));
  EXPECT_TRUE(CountAs(bad_).ok());
  EXPECT_TRUE(Denials()->empty());

  const auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok()) << records.status();
  std::vector<std::string> acts;
  for (const auto& record : *records) {
    const std::vector<std::string> parts = absl::StrSplit(record.act(), '/');
    if (record.principal() == admin_->spiffe_id() && absl::StrContains(record.act(), "Den")) {
      acts.push_back(absl::StrCat(parts.back(), " ", record.outcome_code()));
    }
  }
  EXPECT_THAT(acts, ElementsAre("DenyIdentity 0", "DeleteDenial 5", "DeleteDenial 0"));
  good_chat->Finish(absl::CancelledError("over"));
  person_reader->Cancel();
}

TEST_F(RevocationTest, TheListOutlivesRestartsOfCredentialsAndOfAPartThatCannotReachIt) {
  const std::string address = harness_.address();
  ASSERT_TRUE(Deny("/node/local/bad").ok());
  const BootTime end = clock_.Read().boot + kDeadline;
  while (CountAs(bad_).ok()) ASSERT_LT(clock_.Read().boot, end);
  part_ = nullptr;
  harness_.Stop();
  // A new process of the part finds nobody to ask, and refuses all the same.
  part_ = std::make_unique<Part>(address, scheduler_, part_folder_.path());
  EXPECT_EQ(status::Reason(CountAs(bad_)), "IDENTITY_DENIED");
  EXPECT_TRUE(CountAs(good_).ok());
  part_ = nullptr;
  ASSERT_TRUE(harness_.Start().ok());
  const std::shared_ptr<rpc::Identity> admin = harness_.Person().value();
  admin_ = admin;
  const auto listed = Denials();
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->size(), 1u);
  part_ = std::make_unique<Part>(harness_.address(), scheduler_, part_folder_.path());
  EXPECT_EQ(status::Reason(CountAs(bad_)), "IDENTITY_DENIED");
  EXPECT_TRUE(CountAs(good_).ok());
}

}  // namespace
}  // namespace capstan::credentials
