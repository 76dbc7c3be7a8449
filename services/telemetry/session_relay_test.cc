#include "services/telemetry/session_relay.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/principal.h"
#include "libs/auth/spiffe_id.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::telemetry {
namespace {

using v1::TaskSession;
using v1::TaskSessionFrame;

class RecordingSink final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    messages.push_back(entry.message);
    return absl::OkStatus();
  }
  std::vector<std::string> messages;
};

// What an end's stream was told.
struct OneEnd {
  std::vector<TaskSessionFrame> frames;
  absl::optional<absl::Status> finished;

  SessionRelay::FrameSink Sink() {
    return {[this](const TaskSessionFrame& frame) {
              frames.push_back(frame);
              return absl::OkStatus();
            },
            [this](const absl::Status& status) { finished = status; }};
  }
};

auth::Caller CallerOf(const auth::SpiffeId& id) {
  auth::Caller caller;
  caller.id = id;
  return caller;
}

TaskSessionFrame Bytes(const std::string& text) {
  TaskSessionFrame frame;
  frame.mutable_data()->set_data(text);
  return frame;
}

class SessionRelayTest : public testing::Test {
 protected:
  // A joined session of a command.
  void SetUp() override {
    TaskSession wanted;
    wanted.set_job("projects/p/jobs/j");
    wanted.set_node("clusters/c1/nodes/n1");
    wanted.mutable_command()->add_argv("cat");
    relay_.Watch(wanted.node(),
                 {[](const TaskSession&) { return absl::OkStatus(); }, [](const absl::Status&) {}});
    relay_.Open(wanted, CallerOf(person_id_), [this](absl::StatusOr<TaskSession> opened) {
      ASSERT_TRUE(opened.ok()) << opened.status();
      id_ = opened->id();
    });
    strand_.RunReady();
    ASSERT_TRUE(relay_.Attach(id_, CallerOf(node_id_), node_.Sink()).ok());
    ASSERT_TRUE(relay_.Attach(id_, CallerOf(person_id_), person_.Sink()).ok());
    ASSERT_EQ(person_.frames.size(), 1u);
    ASSERT_TRUE(person_.frames[0].has_attached());
  }
  void End(int exit_code) {
    TaskSessionFrame frame;
    frame.mutable_command_end()->set_exit_code(exit_code);
    relay_.OnFrame(id_, SessionEnd::kNode, frame);
    relay_.OnClosed(id_, SessionEnd::kNode, absl::OkStatus());
  }
  std::string LastRecord() {
    strand_.RunReady();
    return audit_.messages.back();
  }

  const auth::SpiffeId person_id_ = auth::SpiffeId::Person("d", "ann");
  const auth::SpiffeId node_id_ = auth::SpiffeId::Node("d", "c1", "n1");
  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  RecordingSink audit_;
  auth::FakeAccess access_;
  metrics::Registry metrics_{"telemetry"};
  OneEnd person_;
  OneEnd node_;
  std::string id_;
  SessionRelay relay_{SessionBook::Limits(),
                      {.strand = &strand_,
                       .audit_strand = &strand_,
                       .audit = &audit_,
                       .access = &access_,
                       .metrics = &metrics_},
                      Random(1)};
};

TEST_F(SessionRelayTest, HowACommandEndedIsReadBeforeItsStreamEnds) {
  relay_.OnFrame(id_, SessionEnd::kPerson, Bytes("y"));
  ASSERT_EQ(node_.frames.size(), 2u);
  End(7);
  // What is still typed reaches nobody, and the answer is under way: a stream that ended here would
  // take it from its reader.
  relay_.OnFrame(id_, SessionEnd::kPerson, Bytes("y"));
  ASSERT_EQ(person_.frames.size(), 2u);
  EXPECT_EQ(person_.frames[1].command_end().exit_code(), 7);
  EXPECT_FALSE(person_.finished.has_value());
  EXPECT_EQ(node_.frames.size(), 2u);
  relay_.OnClosed(id_, SessionEnd::kPerson, absl::OkStatus());
  EXPECT_NE(LastRecord().find("exit code 7, 2 bytes to the Task"), std::string::npos)
      << LastRecord();
}

TEST_F(SessionRelayTest, APersonWhoNeverLeavesIsNotWaitedFor) {
  End(0);
  strand_.Advance(absl::Seconds(9));
  EXPECT_FALSE(person_.finished.has_value());
  strand_.Advance(absl::Seconds(6));
  ASSERT_TRUE(person_.finished.has_value());
  EXPECT_TRUE(person_.finished->ok()) << *person_.finished;
  EXPECT_NE(LastRecord().find("exit code 0"), std::string::npos) << LastRecord();
}

TEST_F(SessionRelayTest, ANodeThatLeavesWithoutAnEndIsGone) {
  relay_.OnClosed(id_, SessionEnd::kNode, absl::OkStatus());
  ASSERT_TRUE(person_.finished.has_value());
  EXPECT_EQ(person_.finished->code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionRelayTest, ARightThatWasTakenAwayEndsBothEnds) {
  access_.Refuse(absl::PermissionDeniedError("no more"));
  strand_.Advance(absl::Seconds(5));
  ASSERT_TRUE(person_.finished.has_value() && node_.finished.has_value());
  EXPECT_EQ(person_.finished->code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(node_.finished->code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace capstan::telemetry
