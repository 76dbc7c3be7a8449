// The executor over real streams in one process: the test plays the scheduler and an agent.
#include "services/executor/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/call.h"
#include "libs/session/task_id.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"

namespace capstan::executor {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskObservation;
using session::TaskId;

const TaskId kA{"job", 1, "w", 0};

DesiredTask Want() {
  DesiredTask task;
  *task.mutable_key() = kA.ToProto();
  task.set_node("n1");
  task.set_phase(DesiredTask::PHASE_PREPARE);
  task.mutable_launch()->mutable_fence_after()->set_seconds(2);
  return task;
}

// A leader that wants one Task, answers renewals, and acknowledges and keeps what it hears.
class FakeScheduler final : public capstan::scheduler::v1::ExecutorSession::Service {
 public:
  grpc::Status Connect(grpc::ServerContext*,
                       grpc::ServerReaderWriter<SessionDown, SessionUp>* stream) override {
    SessionUp up;
    while (stream->Read(&up)) {
      SessionDown down;
      if (up.has_hello()) {
        auto* desired = down.mutable_desired();
        desired->mutable_token()->set_leader_epoch(3);
        desired->set_revision(1);
        desired->set_snapshot(true);
        desired->set_sync_complete(true);
        *desired->add_tasks() = Want();
      } else if (up.has_renewal()) {
        down.mutable_renewal_answer()->set_sequence(up.renewal().sequence());
        down.mutable_renewal_answer()->mutable_token()->set_leader_epoch(3);
      } else {
        absl::MutexLock lock(&mutex_);
        for (const auto& task : up.observations().tasks()) state_ = task.state();
        auto* ack = down.mutable_observations_ack();
        for (const auto& node : up.observations().nodes()) ack->add_returned_nodes(node.node());
        ack->set_journal_sequence(up.observations().journal_sequence());
      }
      stream->Write(down);
    }
    return grpc::Status::OK;
  }
  // Waits until the Task was seen in this state.
  bool Await(TaskObservation::State state) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] {
      mutex_.AssertReaderHeld();
      return state_ == state;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20));
  }

 private:
  absl::Mutex mutex_;
  TaskObservation::State state_ = TaskObservation::STATE_UNSPECIFIED;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() : strand_("executor", &clock_), logger_("test", &clock_, &sink_), store_(&strand_) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&scheduler_);
    scheduler_server_ = builder.BuildAndStart();
    access_.CallAs(auth::SpiffeId::Node("test.capstan.dev", "c1", "n1"));
    ServerConfig config;
    config.cluster = "c1";
    config.first_uid = 3000;
    config.last_uid = 3999;
    ServerDeps deps;
    deps.strand = &strand_;
    deps.store = &store_;
    deps.access = &access_;
    deps.logger = &logger_;
    deps.scheduler = scheduler_server_->InProcessChannel(grpc::ChannelArguments());
    deps.credentials = grpc::InsecureServerCredentials();
    server_ = Server::Create(config, deps).value();
    stub_ = capstan::executor::v1::AgentSession::NewStub(server_->InProcessChannelForTest());
  }
  ~ServerTest() override {
    server_.reset();
    scheduler_server_->Shutdown();
    strand_.Stop();
  }

  // Reads until a message satisfies `wanted`; false if the stream ends first.
  template <typename Stream>
  static bool ReadUntil(Stream* stream, const std::function<bool(const SessionDown&)>& wanted) {
    for (SessionDown down; stream->Read(&down);) {
      if (wanted(down)) return true;
    }
    return false;
  }

  SystemClock clock_;
  ThreadStrand strand_;
  log::TestingSink sink_;
  log::Logger logger_;
  store::MemoryStore store_;
  auth::FakeAccess access_;
  FakeScheduler scheduler_;
  std::unique_ptr<grpc::Server> scheduler_server_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<capstan::executor::v1::AgentSession::Stub> stub_;
};

TEST_F(ServerTest, OrdersGoDownReportsGoUpAndConfirmationsAreHandedOn) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(30));
  auto stream = stub_->Connect(&context);
  SessionUp hello;
  hello.mutable_hello()->set_cluster("c1");
  hello.mutable_hello()->set_node("n1");
  stream->Write(hello);
  SessionUp report;
  report.mutable_observations()->add_nodes()->set_node("n1");
  report.mutable_observations()->set_sync_complete(true);
  stream->Write(report);
  EXPECT_TRUE(ReadUntil(stream.get(), [](const SessionDown& down) {
    return down.desired().tasks_size() == 1 && down.desired().tasks(0).unix_uid() >= 3000;
  }));
  SessionUp prepared;
  auto* task = prepared.mutable_observations()->add_tasks();
  *task->mutable_key() = kA.ToProto();
  task->set_state(TaskObservation::STATE_PREPARED);
  prepared.mutable_observations()->set_journal_sequence(5);
  stream->Write(prepared);
  EXPECT_TRUE(scheduler_.Await(TaskObservation::STATE_PREPARED));
  // Not answered before the scheduler has answered the executor, so it is asked until it is.
  bool answered = false;
  for (int i = 1; i <= 50 && !answered; ++i) {
    SessionUp renewal;
    renewal.mutable_renewal()->set_sequence(i);
    stream->Write(renewal);
    SessionUp mark;
    mark.mutable_observations()->set_journal_sequence(100 + i);
    stream->Write(mark);
    ReadUntil(stream.get(), [&](const SessionDown& down) {
      answered |= down.has_renewal_answer();
      return down.observations_ack().journal_sequence() == 100 + i;
    });
  }
  EXPECT_TRUE(answered);
  EXPECT_TRUE(server_->Ready().ok());
  stream->WritesDone();
  stream->Finish();
}

TEST_F(ServerTest, ANodeIsNotReadWhileMuchWaitsToBeStored) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(30));
  auto stream = stub_->Connect(&context);
  SessionUp hello;
  hello.mutable_hello()->set_cluster("c1");
  hello.mutable_hello()->set_node("n1");
  stream->Write(hello);
  EXPECT_TRUE(ReadUntil(stream.get(), [](const SessionDown& down) { return down.has_desired(); }));
  const auto on_strand = [this](absl::AnyInvocable<void()> work) {
    absl::Notification done;
    strand_.Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  };
  // Nothing is stored from now on.
  on_strand([this] { store_.SetCommitDelay(absl::Hours(1)); });
  std::atomic<int> written = 0;
  std::thread writer([&] {
    SessionUp report;
    auto& node = *report.mutable_observations()->add_nodes();
    node.set_node("n1");
    do {
      node.set_boot_id(absl::StrCat(written.load()));
      report.mutable_observations()->set_journal_sequence(++written);
    } while (stream->Write(report));
  });
  while (written < 1000) std::this_thread::yield();
  // Were it read on, it would be as often as the strand has time for.
  for (int i = 0; i < 5000; ++i) on_strand([] {});
  EXPECT_LT(written, 1200);
  context.TryCancel();
  writer.join();
}

TEST_F(ServerTest, NodeOfAnotherClusterIsRefused) {
  access_.CallAs(auth::SpiffeId::Node("test.capstan.dev", "other", "n1"));
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(30));
  auto stream = stub_->Connect(&context);
  EXPECT_FALSE(ReadUntil(stream.get(), [](const SessionDown&) { return true; }));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServerTest, DrainEndsTheSessions) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(30));
  auto stream = stub_->Connect(&context);
  SessionUp hello;
  hello.mutable_hello()->set_cluster("c1");
  hello.mutable_hello()->set_node("n1");
  stream->Write(hello);
  EXPECT_TRUE(ReadUntil(stream.get(), [](const SessionDown& down) { return down.has_desired(); }));
  server_->Drain(absl::Seconds(5));
  EXPECT_FALSE(ReadUntil(stream.get(), [](const SessionDown&) { return false; }));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace capstan::executor
