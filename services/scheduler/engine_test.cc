#include "services/scheduler/engine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/validate.h"
#include "services/scheduler/ports/fake_data_source.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"
#include "services/scheduler/recorder/replay.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

// What an executor gets.
struct Wire {
  std::vector<SessionDown> messages;
  bool finished = false;
  absl::Status status;

  int renewals() const {
    int count = 0;
    for (const SessionDown& message : messages) count += message.has_renewal_answer() ? 1 : 0;
    return count;
  }
  // The newest word on a Task.
  DesiredTask::Phase PhaseOf(const std::string& job_uid, int64_t generation) const {
    DesiredTask::Phase phase = DesiredTask::PHASE_UNSPECIFIED;
    for (const SessionDown& message : messages) {
      for (const DesiredTask& task : message.desired().tasks()) {
        if (task.key().job_uid() == job_uid && task.key().generation() == generation) {
          phase = task.phase();
        }
      }
    }
    return phase;
  }
};

class WireSink final : public Engine::SessionSink {
 public:
  explicit WireSink(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  absl::Status Send(const SessionDown& message) override {
    wire_->messages.push_back(message);
    return absl::OkStatus();
  }
  void Finish(const absl::Status& status) override {
    wire_->finished = true;
    wire_->status = status;
  }

 private:
  const std::shared_ptr<Wire> wire_;
};

// Telemetry that drops what it has seen, as the real one does.
struct Stream {
  void Append(const std::vector<store::OutboxRecord>& records, store::DoneCallback taken) {
    for (const store::OutboxRecord& record : records) {
      if (record.sequence <= last) continue;
      last = record.sequence;
      capstan::telemetry::v1::AppendRecordsRequest request;
      capstan::event::v1::JobEvent event;
      ASSERT_TRUE(request.ParseFromString(record.payload));
      ASSERT_TRUE(event.ParseFromString(request.records(0).payload()));
      states.push_back(event.state());
    }
    taken(absl::OkStatus());
  }
  std::vector<std::string> states;
  int64_t last = 0;
};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : logger_("scheduler", &clock_, &sink_), metrics_("scheduler") { Open(); }

  void Open() {
    store_ = std::make_unique<store::MemoryStore>(&strand_, disk_);
    view_ = std::make_unique<CommittedView>(store_.get(), &strand_, &logger_);
    EngineConfig config;
    config.address = "here";
    config.leadership_ttl = absl::Seconds(4);
    EngineDeps deps;
    deps.strand = &strand_;
    deps.store = store_.get();
    deps.data = &data_;
    deps.ship = [this](const std::vector<store::OutboxRecord>& records, store::DoneCallback taken) {
      events_.Append(records, std::move(taken));
    };
    deps.logger = &logger_;
    deps.metrics = &metrics_;
    deps.view = view_.get();
    deps.recorder = &recorder_;
    engine_ = std::make_unique<Engine>(config, deps);
    view_->Start();
    engine_->Start();
    strand_.RunReady();
  }

  // What was decided is decided again, whatever the test was about.
  void TearDown() override {
    recorder_.End("the test is over");
    strand_.RunReady();
    for (const RecordingFile& file : RecordingsIn(folder_.path())) {
      const auto reader = RecordingReader::Open(file.path);
      ASSERT_TRUE(reader.ok()) << reader.status();
      const auto replayed = Replay(reader->get(), {});
      ASSERT_TRUE(replayed.ok()) << replayed.status();
      EXPECT_EQ(replayed->different_step, 0) << replayed->event << "\n" << replayed->difference;
      EXPECT_GT(replayed->steps, 0);
      recorded_steps_ += replayed->steps;
    }
    EXPECT_GT(recorded_steps_, 0);
  }

  // Dies like a killed process; the disk stays.
  void Crash(size_t pending_that_commit) {
    store_->Crash(pending_that_commit);
    engine_.reset();
    view_.reset();
    store_.reset();
    data_.StopAll();
  }

  void UntilLeading() {
    for (int i = 0; i < 50 && !engine_->leading(); ++i) strand_.Advance(absl::Milliseconds(200));
    ASSERT_TRUE(engine_->leading());
  }

  void Submit(const std::string& id, JobSpec spec) {
    CreateJob create;
    create.project = "projects/p";
    create.job_id = create.uid = id;
    create.request_id = id;
    create.body_hash = id;
    ApplyDefaults("projects/p", CoreConfig(), &spec);
    create.spec = std::move(spec);
    engine_->Call(std::move(create),
                  [this](absl::StatusOr<Job> job) { answers_.push_back(std::move(job)); });
  }

  static JobSpec Spec() {
    JobSpec spec;
    auto& group = *spec.add_task_groups();
    group.set_name("w");
    group.set_replicas(1);
    group.add_argv("/bin/true");
    group.mutable_resources()->set_cpu_millis(500);
    group.mutable_resources()->set_memory_bytes(1 << 20);
    return spec;
  }

  // Opens a session with a Node of 1 core, and whatever is observed of Tasks.
  SessionId Connect(std::vector<TaskObservation> tasks = {}) {
    wire_ = std::make_shared<Wire>();
    const SessionId id = engine_->OpenSession("local", std::make_unique<WireSink>(wire_));
    SessionUp hello;
    hello.mutable_hello()->set_cluster("local");
    hello.mutable_hello()->set_incarnation(1);
    engine_->SessionMessage(id, hello);
    SessionUp report;
    auto& observations = *report.mutable_observations();
    observations.set_journal_sequence(++journal_);
    observations.set_sync_complete(true);
    auto& node = *observations.add_nodes();
    node.set_node("n");
    node.mutable_allocatable()->set_cpu_millis(1000);
    node.mutable_allocatable()->set_memory_bytes(1 << 30);
    for (TaskObservation& task : tasks) *observations.add_tasks() = std::move(task);
    engine_->SessionMessage(id, report);
    return id;
  }

  TaskObservation Observation(const std::string& uid, int64_t generation,
                              TaskObservation::State state) {
    TaskObservation observation;
    observation.mutable_key()->set_job_uid(uid);
    observation.mutable_key()->set_generation(generation);
    observation.mutable_key()->set_group("w");
    observation.set_node("n");
    observation.set_state(state);
    observation.set_host("h");
    (*observation.mutable_ports())["peer"] = 20000;
    if (state == TaskObservation::STATE_ENDED) {
      observation.mutable_end()->set_cause(TaskEnd::CAUSE_EXITED);
    }
    return observation;
  }

  void Observe(SessionId session, TaskObservation observation) {
    SessionUp up;
    up.mutable_observations()->set_journal_sequence(++journal_);
    *up.mutable_observations()->add_tasks() = std::move(observation);
    engine_->SessionMessage(session, up);
  }

  void Renew(SessionId session) {
    SessionUp up;
    up.mutable_renewal()->set_sequence(1);
    engine_->SessionMessage(session, up);
  }

  Job::State Committed(const std::string& uid) {
    const JobEntry* job = view_->model().FindJob(uid);
    return job == nullptr ? Job::STATE_UNSPECIFIED : job->state.state();
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  log::Logger logger_;
  metrics::Registry metrics_;
  const TemporaryFolder folder_;
  FlightRecorder recorder_{
      {.folder = folder_.path(), .build_id = "test"}, &strand_, &logger_, &metrics_};
  std::shared_ptr<store::MemoryImage> disk_ = std::make_shared<store::MemoryImage>();
  FakeDataSource data_{&strand_};
  Stream events_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<Engine> engine_;
  std::vector<absl::StatusOr<Job>> answers_;
  std::shared_ptr<Wire> wire_;
  int64_t journal_ = 0;
  int64_t recorded_steps_ = 0;
};

TEST_F(EngineTest, ActsAndAnswersOnlyOnceStored) {
  UntilLeading();
  const SessionId session = Connect();
  strand_.RunReady();
  store_->SetCommitDelay(absl::Milliseconds(50));
  Submit("a", Spec());
  strand_.Advance(absl::Milliseconds(49));
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_UNSPECIFIED);
  EXPECT_EQ(Committed("a"), Job::STATE_UNSPECIFIED) << "readers see what is committed";
  strand_.Advance(absl::Milliseconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  ASSERT_TRUE(answers_[0].ok()) << answers_[0].status();
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_PREPARE);
  EXPECT_EQ(Committed("a"), Job::STATE_PREPARING);
  Observe(session, Observation("a", 1, TaskObservation::STATE_PREPARED));
  strand_.Advance(absl::Milliseconds(49));
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_PREPARE) << "START is stored first";
  strand_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_START);
  EXPECT_GT(wire_->messages.back().desired().revision() +
                wire_->messages.back().observations_ack().journal_sequence(),
            0);
  Observe(session, Observation("a", 1, TaskObservation::STATE_ENDED));
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(Committed("a"), Job::STATE_SUCCEEDED);
  EXPECT_EQ(events_.states, (std::vector<std::string>{"QUEUED", "PREPARING", "PREPARING", "RUNNING",
                                                      "RUNNING", "SUCCEEDED"}));
}

TEST_F(EngineTest, AFailedCommitDropsTheStateAndLoadsItAgain) {
  UntilLeading();
  Connect();
  strand_.RunReady();
  store_->FailNextTxn(absl::UnavailableError("disk"));
  Submit("a", Spec());
  strand_.RunReady();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(wire_->finished);
  EXPECT_EQ(wire_->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_UNSPECIFIED) << "nothing was acted on";
  UntilLeading();
  EXPECT_EQ(Committed("a"), Job::STATE_UNSPECIFIED);
  // A commit that took effect without being answered is found again by its request id.
  store_->FailNextTxnAfterCommit(absl::UnavailableError("disk"));
  Submit("b", Spec());
  strand_.RunReady();
  EXPECT_FALSE(answers_.back().ok());
  UntilLeading();
  Submit("b", Spec());
  strand_.RunReady();
  ASSERT_TRUE(answers_.back().ok()) << answers_.back().status();
  EXPECT_EQ(answers_.back()->uid(), "b");
  EXPECT_EQ(engine_->core()->model().jobs.size(), 1u);
}

TEST_F(EngineTest, ADeposedLeaderAnswersNothing) {
  UntilLeading();
  const SessionId session = Connect();
  strand_.RunReady();
  Renew(session);
  strand_.RunReady();
  EXPECT_EQ(wire_->renewals(), 1);
  // Another process has taken the key: the next commit fails on its compare. Until then the lease
  // alone says who may speak.
  store_->SetUnreachable(true);
  strand_.Advance(absl::Seconds(3));
  Renew(session);
  strand_.RunReady();
  EXPECT_EQ(wire_->renewals(), 2) << "the lease of 4 s less 0.4 s still holds";
  strand_.Advance(absl::Seconds(1));
  Renew(session);
  strand_.RunReady();
  EXPECT_EQ(wire_->renewals(), 2);
  EXPECT_TRUE(wire_->finished);
  EXPECT_FALSE(engine_->leading());
  Submit("a", Spec());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(status::Reason(answers_[0].status()), store::kReasonNotLeader);
  store_->SetUnreachable(false);
  UntilLeading();
  Connect();
  strand_.RunReady();
  EXPECT_FALSE(wire_->finished);
}

TEST_F(EngineTest, TakesNoNewWorkWhileItsOwnRenewalIsLate) {
  UntilLeading();
  store_->SetUnreachable(true);
  strand_.Advance(absl::Seconds(2.8));
  ASSERT_TRUE(engine_->leading());
  Submit("a", Spec());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::Reason(answers_[0].status()), "OVERLOADED");
  EXPECT_TRUE(status::GetRetryDelay(answers_[0].status()).has_value());
  store_->SetUnreachable(false);
  strand_.Advance(absl::Seconds(1));
  Submit("b", Spec());
  strand_.RunReady();
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_TRUE(answers_[1].ok()) << answers_[1].status();
}

TEST_F(EngineTest, ARenewalThatWaitedForACommitBeyondTheLeaseIsNotAnswered) {
  UntilLeading();
  const SessionId session = Connect();
  strand_.RunReady();
  // The commit in front of the answer takes longer than the leadership lease is known to last.
  store_->SetCommitDelay(absl::Seconds(10));
  Submit("a", Spec());
  Renew(session);
  store_->SetUnreachable(true);
  strand_.Advance(absl::Seconds(20));
  EXPECT_EQ(wire_->renewals(), 0);
}

// A follower's view has all when the leader's lease ends: of what is stored nothing is read again.
TEST_F(EngineTest, BeginsWithWhatItsViewHasSeen) {
  UntilLeading();
  Submit("a", Spec());
  strand_.RunReady();
  ASSERT_TRUE(answers_.back().ok());
  store_->SetUnreachable(true);
  strand_.Advance(absl::Seconds(5));
  EXPECT_FALSE(engine_->leading());
  store_->SetUnreachable(false);
  UntilLeading();
  EXPECT_EQ(engine_->core()->model().jobs.size(), 1u);
  EXPECT_TRUE(engine_->core()->model().jobs.pool() == view_->model().jobs.pool());
  // What it changes from here on is its own until it is stored.
  Connect();
  EXPECT_TRUE(engine_->core()->model().FindJob("a")->live());
  EXPECT_FALSE(view_->model().FindJob("a")->live());
  strand_.RunReady();
  EXPECT_TRUE(view_->model().FindJob("a")->live());
}

TEST_F(EngineTest, ARecordThatCannotBeReadKeepsItFromLeading) {
  UntilLeading();
  store::TxnRequest damage;
  damage.then.emplace_back(store::Put{absl::StrCat(kKeyPrefix, "jobs/spec/a"), "\xff"});
  store_->Txn(std::move(damage), [](const absl::StatusOr<store::TxnResult>&) {});
  strand_.RunReady();
  Crash(0);
  Open();
  strand_.Advance(absl::Seconds(20));
  EXPECT_FALSE(engine_->leading());
  const auto logged = sink_.records();
  EXPECT_TRUE(std::any_of(logged.begin(), logged.end(), [](const log::Record& record) {
    return record.level == log::Level::kError;
  }));
  store::TxnRequest mend;
  mend.then.emplace_back(store::Delete{absl::StrCat(kKeyPrefix, "jobs/spec/a"), ""});
  store_->Txn(std::move(mend), [](const absl::StatusOr<store::TxnResult>&) {});
  strand_.RunReady();
  UntilLeading();
}

TEST_F(EngineTest, KillAtAnyPointLosesNothingAcknowledged) {
  for (size_t pending = 0; pending < 3; ++pending) {
    UntilLeading();
    const std::string id = absl::StrCat("j", pending);
    Submit(id, Spec());
    strand_.RunReady();
    ASSERT_TRUE(answers_.back().ok());
    Connect();
    Crash(pending);
    Open();
    UntilLeading();
    strand_.Advance(absl::Seconds(1));
    EXPECT_NE(Committed(id), Job::STATE_UNSPECIFIED);
  }
  Connect();
  strand_.RunReady();
  EXPECT_EQ(wire_->PhaseOf("j0", 1), DesiredTask::PHASE_PREPARE);
}

TEST_F(EngineTest, WhatAQueueUsesIsReadAfterARestart) {
  UntilLeading();
  Connect();
  UpdateQueue update;
  update.queue_id = "default";
  update.update_mask.add_paths("usage_half_life");
  *update.queue.mutable_usage_half_life() = ToProto(absl::Hours(1));
  engine_->Call(std::move(update), [](const absl::StatusOr<capstan::scheduler::v1::Queue>& queue) {
    EXPECT_TRUE(queue.ok()) << queue.status();
  });
  Submit("a", Spec());
  strand_.RunReady();
  const auto& seen = view_->model().queue_usage;
  ASSERT_EQ(seen.count("default"), 1u);
  const std::string stored = seen.at("default").SerializeAsString();
  Crash(0);
  Open();
  UntilLeading();
  for (const Model* model : {&view_->model(), &engine_->core()->model()}) {
    ASSERT_EQ(model->queue_usage.count("default"), 1u);
    EXPECT_EQ(model->queue_usage.at("default").SerializeAsString(), stored);
  }
}

TEST_F(EngineTest, DataIsAskedForAndItsAnswersAreStored) {
  UntilLeading();
  Connect();
  JobSpec spec = Spec();
  spec.add_datasets()->set_dataset("projects/p/datasets/d");
  Submit("a", spec);
  strand_.RunReady();
  ASSERT_TRUE(data_.Wanted("a", 0));
  DataProgressed progress;
  progress.job_uid = "a";
  progress.loaded_bytes = 5;
  data_.Tell(progress);
  strand_.RunReady();
  EXPECT_EQ(view_->model().FindJob("a")->state.datasets(0).loaded_bytes(), 5);
  data_.Tell(DataReady{"a", 0, "0011223344556677"});
  strand_.RunReady();
  EXPECT_EQ(wire_->PhaseOf("a", 1), DesiredTask::PHASE_PREPARE);
}

TEST_F(EngineTest, NoTimerIsArmedForAJobThatWaitsForRoom) {
  UntilLeading();
  Connect();
  JobSpec big = Spec();
  big.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(900);
  Submit("a", big);
  strand_.RunReady();
  const size_t armed = strand_.armed();
  const BootTime next = strand_.next_timer_time();
  Submit("b", big);
  strand_.RunReady();
  EXPECT_EQ(Committed("b"), Job::STATE_QUEUED);
  EXPECT_EQ(strand_.armed(), armed);
  EXPECT_EQ(strand_.next_timer_time(), next);
}

TEST_F(EngineTest, HelloMustNameTheClusterOfTheCertificate) {
  UntilLeading();
  wire_ = std::make_shared<Wire>();
  const SessionId id = engine_->OpenSession("local", std::make_unique<WireSink>(wire_));
  SessionUp hello;
  hello.mutable_hello()->set_cluster("other");
  engine_->SessionMessage(id, hello);
  EXPECT_TRUE(wire_->finished);
  EXPECT_EQ(status::Reason(wire_->status), "BAD_HELLO");
  EXPECT_TRUE(engine_->core()->model().clusters.empty());
}

}  // namespace
}  // namespace capstan::scheduler
