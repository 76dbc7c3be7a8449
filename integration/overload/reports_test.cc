// Reports without pause at the executor: each changes its Node, which is stored and passed on to the
// scheduler. The Nodes stay behind, silent.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/overload/overload_fixture.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::integration {
namespace {

using executor::v1::AgentSession;
using type::v1::SessionDown;
using type::v1::SessionUp;

constexpr int kNodes = 8;

// Says hello, and then something new of its Node as soon as the last message is on its way.
class ReportingSession final : public grpc::ClientBidiReactor<SessionUp, SessionDown> {
 public:
  ReportingSession(AgentSession::Stub* stub, std::string node) : node_(std::move(node)) {
    stub->async()->Connect(&context_, this);
    auto& hello = *up_.mutable_hello();
    hello.set_cluster("local");
    hello.set_node(node_);
    hello.set_incarnation(1);
    StartRead(&down_);
    StartWrite(&up_);
    StartCall();
  }
  ~ReportingSession() override {
    Stop();
    AwaitEnd();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;
    int64_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      number = written_++;
      if (stopping_) return;
    }
    auto& observations = *up_.mutable_observations();
    observations.Clear();
    observations.set_journal_sequence(number + 1);
    auto& node = *observations.add_nodes();
    node.set_node(node_);
    node.set_boot_id(absl::StrCat(number));
    StartWrite(&up_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      absl::MutexLock lock(&mutex_);
      if (down_.has_observations_ack()) {
        stored_ = std::max(stored_, down_.observations_ack().journal_sequence());
      }
    }
    StartRead(&down_);
  }
  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
  }

  // Says nothing more, and ends it.
  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    context_.TryCancel();
  }
  grpc::Status AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto over = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_.has_value(); };
    mutex_.Await(absl::Condition(&over));
    return *status_;
  }
  // Hello included.
  int64_t written() const {
    absl::MutexLock lock(&mutex_);
    return written_;
  }
  int64_t stored() const {
    absl::MutexLock lock(&mutex_);
    return stored_;
  }

 private:
  const std::string node_;
  grpc::ClientContext context_;
  SessionUp up_;
  SessionDown down_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stored_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<grpc::Status> status_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(OverloadTest, ReportsWithoutPause) {
  std::vector<std::unique_ptr<AgentSession::Stub>> stubs;
  std::vector<std::unique_ptr<ReportingSession>> sessions;
  for (int i = 0; i < kNodes; ++i) {
    const std::string name = absl::StrCat("reports-", i);
    const auto channel = Dial("executor", IdentityOf("/node/local/" + name));
    ASSERT_TRUE(Await(channel));
    stubs.push_back(AgentSession::NewStub(channel));
    sessions.push_back(std::make_unique<ReportingSession>(stubs.back().get(), name));
  }
  const BootTime begun = Now();
  Wait(kStorm);
  for (const auto& session : sessions) session->Stop();
  StormIsOver();
  const double seconds = absl::ToDoubleSeconds(Now() - begun);
  int64_t written = 0;
  int64_t stored = 0;
  for (const auto& session : sessions) {
    const grpc::Status status = session->AwaitEnd();
    // Nobody else has ended it.
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
    written += session->written();
    EXPECT_GT(session->stored(), 0);
    stored += session->stored();
  }
  const double times = static_cast<double>(written) / seconds / DesignRate("executor");
  std::printf(
      "reports: %.1f times the %d a second that executor is made for, %.0f stored a second\n",
      times, DesignRate("executor"), static_cast<double>(stored) / seconds);
  EXPECT_GE(times, kTimesDesignRate);
}

}  // namespace
}  // namespace capstan::integration
