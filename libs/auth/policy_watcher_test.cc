#include "libs/auth/policy_watcher.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/auth/policy.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/random/random.h"
#include "libs/rpc/server.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::auth {
namespace {

using credentials::v1::PolicyService;
using credentials::v1::PolicySnapshot;
using credentials::v1::WatchPolicyRequest;
using Writer = rpc::ServerStreamWriter<PolicySnapshot>;

constexpr absl::Duration kDeadline = absl::Seconds(30);

// Sends what the test tells it to, to the newest stream.
class FakePolicyService final : public PolicyService::CallbackService {
 public:
  grpc::ServerWriteReactor<PolicySnapshot>* WatchPolicy(
      grpc::CallbackServerContext* context, const WatchPolicyRequest* request) override {
    return rpc::HandleServerStream<PolicySnapshot>(
        context, &access_, "/capstan.credentials.v1.PolicyService/WatchPolicy", request,
        rpc::NothingToValidate(),
        [this](std::shared_ptr<Writer> writer, const WatchPolicyRequest&) {
          absl::MutexLock lock(&mutex_);
          streams_.push_back(std::move(writer));
        });
  }

  std::shared_ptr<Writer> AwaitStream(size_t n) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] { return streams_.size() >= n; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&there), kDeadline));
    return streams_.at(n - 1);
  }

 private:
  FakeAccess access_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<Writer>> streams_;
};

class PolicyWatcherTest : public ::testing::Test {
 protected:
  PolicyWatcherTest() {
    rpc::ServerConfig config;
    config.services = {rpc::Registered<PolicyService>(&service_)};
    server_ = rpc::Server::Start(config).value();
    stub_ = PolicyService::NewStub(server_->InProcessChannel());
    watcher_ = std::make_unique<PolicyWatcher>(stub_.get(), &holder_, &strand_, &random_);
    strand_.Post([this] { watcher_->Start([this] { first_.Notify(); }); });
  }
  ~PolicyWatcherTest() override {
    absl::Notification gone;
    strand_.Post([&] {
      watcher_ = nullptr;
      gone.Notify();
    });
    gone.WaitForNotification();
    strand_.Stop();
    server_ = nullptr;
  }

  static PolicySnapshot Snapshot(int64_t revision, absl::Duration valid = absl::Minutes(5)) {
    PolicySnapshot snapshot;
    snapshot.set_revision(revision);
    snapshot.set_valid_seconds(absl::ToInt64Seconds(valid));
    return snapshot;
  }
  // Waits for the strand to have handled a message of that revision.
  void AwaitRevision(int64_t revision) {
    const BootTime deadline = clock_.Read().boot + kDeadline;
    while (holder_.Get() == nullptr || holder_.Get()->revision() != revision) {
      ASSERT_LT(clock_.Read().boot.ToNanoseconds(), deadline.ToNanoseconds());
      absl::Notification turn;
      strand_.Post([&] { turn.Notify(); });
      turn.WaitForNotification();
    }
  }

  SystemClock clock_;
  ThreadStrand strand_{"watcher", &clock_};
  Random random_{1};
  PolicyHolder holder_;
  FakePolicyService service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<PolicyService::Stub> stub_;
  std::unique_ptr<PolicyWatcher> watcher_;
  absl::Notification first_;
};

TEST_F(PolicyWatcherTest, TakesEachSnapshot) {
  const std::shared_ptr<Writer> stream = service_.AwaitStream(1);
  EXPECT_EQ(holder_.Get(), nullptr);
  ASSERT_TRUE(stream->Write(Snapshot(1)).ok());
  EXPECT_TRUE(first_.WaitForNotificationWithTimeout(kDeadline));
  AwaitRevision(1);
  const absl::Duration left = holder_.Get()->expires() - clock_.Read().boot;
  EXPECT_GT(left, absl::Seconds(200));
  EXPECT_LE(left, absl::Seconds(300));
  ASSERT_TRUE(stream->Write(Snapshot(2)).ok());
  AwaitRevision(2);
}

TEST_F(PolicyWatcherTest, ConnectsAgainAndKeepsWhatItHasMeanwhile) {
  ASSERT_TRUE(service_.AwaitStream(1)->Write(Snapshot(7)).ok());
  AwaitRevision(7);
  service_.AwaitStream(1)->Finish(absl::UnavailableError("restart"));
  const std::shared_ptr<Writer> second = service_.AwaitStream(2);
  AwaitRevision(7);
  // A restored store may be behind.
  ASSERT_TRUE(second->Write(Snapshot(3)).ok());
  AwaitRevision(3);
}

TEST_F(PolicyWatcherTest, ASilentStreamIsGivenUp) {
  ASSERT_TRUE(service_.AwaitStream(1)->Write(Snapshot(1, absl::Seconds(1))).ok());
  ASSERT_TRUE(service_.AwaitStream(2)->Write(Snapshot(2)).ok());
  AwaitRevision(2);
}

}  // namespace
}  // namespace capstan::auth
