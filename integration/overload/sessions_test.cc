// Sessions without pause at the executor, by Nodes of its Cluster and by who may have none, and
// sessions by the thousand on which nothing is said. Its agent's session goes on.
#include <cstdint>
#include <cstdio>
#include <map>
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
#include "integration/overload/call_storm.h"
#include "integration/overload/overload_fixture.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::integration {
namespace {

using executor::v1::AgentSession;
using grpc::StatusCode;
using type::v1::SessionDown;
using type::v1::SessionUp;

constexpr int kSessionsAtOnce = 1000;
constexpr int kConnectionsAtOnce = 20;
constexpr char kConnect[] = "/capstan.executor.v1.AgentSession/Connect";

std::string NodeNumber(int64_t i) { return absl::StrCat("storm-", i); }

SessionUp HelloOf(const std::string& node) {
  SessionUp up;
  up.mutable_hello()->set_cluster("local");
  up.mutable_hello()->set_node(node);
  up.mutable_hello()->set_incarnation(1);
  return up;
}

// Agents that come again at once, whatever they are told.
TEST_F(OverloadTest, SessionsWithoutPause) {
  Channels channels;
  for (int i = 0; i < kChannels; ++i) {
    channels.push_back(Dial("executor", IdentityOf("/node/local/" + NodeNumber(i))));
    ASSERT_TRUE(Await(channels.back()));
  }
  std::vector<grpc::ByteBuffer> hellos;
  for (int i = 0; i < kChannels; ++i) {
    hellos.push_back(BufferOf(HelloOf(NodeNumber(i)).SerializeAsString()));
  }
  const StormEnd end =
      Storm("sessions of Nodes", "executor", channels,
            StormCall{.path = kConnect,
                      .request = [&hellos](int64_t, size_t channel) { return hellos[channel]; }});
  ExpectEnds(end, {StatusCode::OK}, {StatusCode::ABORTED, StatusCode::RESOURCE_EXHAUSTED});
}

TEST_F(OverloadTest, SessionsOfWhoMayHaveNone) {
  const auto request = [hello = BufferOf(HelloOf("n1").SerializeAsString())](int64_t, size_t) {
    return hello;
  };
  const StormCall call{.path = kConnect, .request = request};
  ExpectEnds(Storm("sessions of a person", "executor", DialAll("executor"), call),
             {StatusCode::PERMISSION_DENIED});
  ExpectEnds(Storm("sessions of another Cluster's Node", "executor",
                   DialAll("executor", IdentityOf("/node/elsewhere/n1")), call),
             {StatusCode::PERMISSION_DENIED});
}

// A session on which nobody says anything.
class SilentSession final : public grpc::ClientBidiReactor<SessionUp, SessionDown> {
 public:
  explicit SilentSession(AgentSession::Stub* stub) {
    stub->async()->Connect(&context_, this);
    StartRead(&down_);
    StartCall();
  }
  // Ends it.
  ~SilentSession() override {
    context_.TryCancel();
    absl::MutexLock lock(&mutex_);
    const auto over = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_.has_value(); };
    mutex_.Await(absl::Condition(&over));
  }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&down_);
  }
  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
  }
  // Absent while it is open.
  absl::optional<grpc::Status> status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  grpc::ClientContext context_;
  SessionDown down_;
  mutable absl::Mutex mutex_;
  absl::optional<grpc::Status> status_ ABSL_GUARDED_BY(mutex_);
};

// However many a Node opens, the last one alone stays.
TEST_F(OverloadTest, SessionsThatSayNothing) {
  const auto node = IdentityOf("/node/local/silent");
  std::unique_ptr<AgentSession::Stub> stub;
  std::vector<std::unique_ptr<SilentSession>> open;
  int replaced = 0;
  const auto one_is_open = [&open, &replaced] {
    std::erase_if(open, [&replaced](const auto& session) {
      const absl::optional<grpc::Status> status = session->status();
      if (!status.has_value()) return false;
      EXPECT_EQ(status->error_code(), StatusCode::ABORTED) << status->error_message();
      ++replaced;
      return true;
    });
    return open.size() == 1;
  };
  const BootTime begun = Now();
  // As many at a time as one connection carries to a service.
  for (int i = 0; i < kSessions; i += kSessionsAtOnce) {
    stub = AgentSession::NewStub(Dial("executor", node));
    for (int k = 0; k < kSessionsAtOnce; ++k) {
      open.push_back(std::make_unique<SilentSession>(stub.get()));
    }
    ASSERT_TRUE(platform_->Await(one_is_open)) << open.size() << " are open";
  }
  std::printf("%d silent sessions in %.1f s\n", kSessions, absl::ToDoubleSeconds(Now() - begun));
  Wait(kHeld);
  EXPECT_TRUE(one_is_open());
  EXPECT_EQ(replaced, kSessions - 1);
  StormIsOver();
  open.clear();
}

// However many it opens at the same time, on as many connections as would carry all of them to a
// service. Most wait at the client (services/executor/server.cc).
TEST_F(OverloadTest, SessionsThatSayNothingAllAtOnce) {
  const auto node = IdentityOf("/node/local/silent-at-once");
  std::vector<std::unique_ptr<AgentSession::Stub>> stubs;
  for (int i = 0; i < kConnectionsAtOnce; ++i) {
    const auto channel = Dial("executor", node);
    ASSERT_TRUE(Await(channel));
    stubs.push_back(AgentSession::NewStub(channel));
  }
  constexpr int kAll = kConnectionsAtOnce * kSessionsAtOnce;
  std::vector<std::unique_ptr<SilentSession>> open;
  const BootTime begun = Now();
  for (int i = 0; i < kAll; ++i) {
    open.push_back(std::make_unique<SilentSession>(stubs[i % stubs.size()].get()));
  }
  std::map<StatusCode, int> ends;
  const auto one_is_open = [&open, &ends] {
    std::erase_if(open, [&ends](const auto& session) {
      const absl::optional<grpc::Status> status = session->status();
      if (!status.has_value()) return false;
      ++ends[status->error_code()];
      if (status->error_code() != StatusCode::ABORTED) {
        EXPECT_EQ(status->error_code(), StatusCode::RESOURCE_EXHAUSTED) << status->error_message();
        EXPECT_TRUE(status::GetRetryDelay(rpc::FromGrpcStatus(*status)).has_value());
      }
      return true;
    });
    return open.size() == 1;
  };
  ASSERT_TRUE(platform_->Await(one_is_open)) << open.size() << " are open";
  std::printf("%d silent sessions at once in %.1f s: %d replaced, %d told to come again\n", kAll,
              absl::ToDoubleSeconds(Now() - begun), ends[StatusCode::ABORTED],
              ends[StatusCode::RESOURCE_EXHAUSTED]);
  Wait(kHeld);
  EXPECT_TRUE(one_is_open());
  StormIsOver();
  open.clear();
}

}  // namespace
}  // namespace capstan::integration
