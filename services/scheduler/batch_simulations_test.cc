#include "services/scheduler/batch_simulations.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/what_if.h"
#include "services/scheduler/simulations.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr char kAnn[] = "person-ann";

// Each piece of work takes as long as was said, of the processor and on the clock, and is noted.
class FakeCpuClock final : public CpuClock {
 public:
  struct Piece {
    BootTime begun;
    absl::Duration cpu;
  };

  explicit FakeCpuClock(SimulatedClock* clock) : clock_(clock) {}

  absl::Duration Read() const override {
    if (std::exchange(working_, !working_)) {
      const absl::Duration cost =
          random != nullptr ? absl::Milliseconds(random->Between(0, 3'000)) : this->cost;
      pieces.push_back({clock_->Read().boot, cost});
      clock_->Advance(cost);
      used_ += cost;
    }
    return used_;
  }

  absl::Duration cost;
  // Instead of `cost`.
  Random* random = nullptr;
  mutable std::vector<Piece> pieces;

 private:
  SimulatedClock* const clock_;
  mutable bool working_ = false;
  mutable absl::Duration used_;
};

class FakeAsker final : public BatchSimulations::Asker {
 public:
  void Take(int index, absl::StatusOr<SimulatePlacementResponse> response,
            const BatchSimulations::Basis& basis, Strand::Task read) override {
    EXPECT_FALSE(IsOver());
    EXPECT_EQ(index, static_cast<int>(answers.size()));
    answers.push_back(std::move(response));
    bases.push_back(basis);
    unread = std::move(read);
    if (reads) std::exchange(unread, nullptr)();
  }
  void Done(const BatchSimulations::Summary& all, const BatchSimulations::Basis& basis) override {
    EXPECT_FALSE(IsOver());
    summary = all;
    bases.push_back(basis);
  }
  void Failed(const absl::Status& why) override {
    EXPECT_FALSE(IsOver());
    failed = why;
  }
  bool IsOver() const { return summary.has_value() || !failed.ok(); }

  // At once.
  bool reads = true;
  Strand::Task unread;
  std::vector<absl::StatusOr<SimulatePlacementResponse>> answers;
  std::vector<BatchSimulations::Basis> bases;
  absl::optional<BatchSimulations::Summary> summary;
  absl::Status failed;
};

class BatchSimulationsTest : public ::testing::Test {
 protected:
  BatchSimulationsTest() : logger_("scheduler", &clock_, &sink_) { options_.jobs_per_piece = 2; }
  ~BatchSimulationsTest() override {
    batches_.reset();
    single_.reset();
  }

  void Open() {
    view_ = std::make_unique<CommittedView>(&store_, &strand_, &logger_);
    single_ = std::make_unique<Simulations>(CoreConfig(), Simulations::Options(), view_.get(),
                                            &strand_, &beside_single_);
    batches_ = std::make_unique<BatchSimulations>(CoreConfig(), options_, view_.get(), &strand_,
                                                  &beside_, &cpu_, &metrics_);
    rec::ClusterRecord cluster;
    cluster.set_schema_version(1);
    Commit({PutCluster("c", cluster), PutNode({"c", "n"}, NodeOf("n", 4)),
            PutNode({"c", "m"}, NodeOf("m", 2))});
    view_->Start();
    Settle();
  }
  static rec::NodeRecord NodeOf(const std::string& name, int cores) {
    rec::NodeRecord node;
    node.set_schema_version(1);
    node.set_state(Node::STATE_ACTIVE);
    node.mutable_observation()->set_node(name);
    node.mutable_observation()->mutable_allocatable()->set_cpu_millis(1000 * cores);
    node.mutable_observation()->mutable_allocatable()->set_memory_bytes(int64_t{8} << 30);
    return node;
  }
  // A Job that waits for room.
  void Submit(const std::string& uid, int cores = 1) {
    JobEntry job;
    job.spec.set_schema_version(1);
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_submitter(kAnn);
    job.spec.set_submit_sequence(++submitted_);
    *job.spec.mutable_spec() = WithJob(cores).jobs(0);
    job.state.set_schema_version(1);
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    *job.state.mutable_update_time() = ToProto(clock_.Read().wall);
    Commit({PutJobSpec(job), PutJobState(job)});
  }
  void Commit(std::vector<store::Op> ops) {
    store::TxnRequest request;
    request.then = std::move(ops);
    store_.Txn(std::move(request),
               [](const absl::StatusOr<store::TxnResult>& result) { EXPECT_TRUE(result.ok()); });
  }
  // What is to be done at once.
  void Settle() {
    for (int i = 0; i < 200; ++i) {
      strand_.RunReady();
      beside_.RunReady();
      beside_single_.RunReady();
    }
  }
  // Whatever waits for its time too.
  void RunToEnd(const FakeAsker& asker) {
    for (int i = 0; i < 1000 && !asker.IsOver(); ++i) {
      Settle();
      if (!asker.IsOver() && !strand_.RunNext()) break;
    }
    ASSERT_TRUE(asker.IsOver());
  }
  // Until so many answers have come, and what comes of the last is not done yet.
  void RunToAnswer(const FakeAsker& asker, size_t answers) {
    for (int i = 0; i < 10'000 && asker.answers.size() < answers; ++i) {
      if (!strand_.RunNext()) beside_.RunReady();
    }
    ASSERT_EQ(asker.answers.size(), answers);
  }

  static SimulatePlacementRequest Empty() {
    SimulatePlacementRequest request;
    request.set_parent("projects/p");
    return request;
  }
  static SimulatePlacementRequest WithJob(int cores) {
    SimulatePlacementRequest request = Empty();
    auto& group = *request.add_jobs()->add_task_groups();
    group.set_name("w");
    group.set_replicas(1);
    group.mutable_resources()->set_cpu_millis(1000 * cores);
    group.mutable_resources()->set_memory_bytes(1 << 20);
    group.add_argv("true");
    return WithDefaults(CoreConfig(), request);
  }
  static SimulatePlacementRequest Adding(int nodes) {
    SimulatePlacementRequest request = Empty();
    request.add_node_changes()->mutable_add()->set_count(nodes);
    request.mutable_node_changes(0)->mutable_add()->set_like("clusters/c/nodes/n");
    return request;
  }
  static SimulatePlacementRequest Cordoning(const std::string& node) {
    SimulatePlacementRequest request = WithJob(1);
    request.add_node_changes()->set_cordon(absl::StrCat("clusters/c/nodes/", node));
    return request;
  }
  static std::vector<SimulatePlacementRequest> Times(int count) {
    return std::vector<SimulatePlacementRequest>(count, WithJob(1));
  }

  std::shared_ptr<FakeAsker> Ask(std::vector<SimulatePlacementRequest> alternatives,
                                 bool allow_leader = false) {
    auto asker = std::make_shared<FakeAsker>();
    batches_->Simulate({std::move(alternatives), kAnn, allow_leader}, asker);
    return asker;
  }
  SimulatePlacementResponse AskSingle(const SimulatePlacementRequest& request) {
    absl::optional<absl::StatusOr<SimulatePlacementResponse>> answer;
    single_->Simulate(request, kAnn, [&answer](absl::StatusOr<SimulatePlacementResponse> response) {
      answer = std::move(response);
    });
    for (int i = 0; i < 10; ++i) {
      strand_.RunReady();
      beside_single_.RunReady();
    }
    if (!answer.has_value() || !answer->ok()) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    return **std::move(answer);
  }
  static int WaitingIn(const FakeAsker& asker, size_t index) {
    return index < asker.answers.size() && asker.answers[index].ok()
               ? asker.answers[index]->others().waiting()
               : -1;
  }

  BatchSimulations::Options options_;
  SimulatedClock clock_;
  FakeCpuClock cpu_{&clock_};
  log::TestingSink sink_;
  log::Logger logger_;
  metrics::Registry metrics_{"scheduler"};
  SimulatedStrand strand_{&clock_};
  SimulatedStrand beside_{&clock_};
  SimulatedStrand beside_single_{&clock_};
  store::MemoryStore store_{&strand_};
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<Simulations> single_;
  std::unique_ptr<BatchSimulations> batches_;
  int submitted_ = 0;
};

TEST_F(BatchSimulationsTest, AnswersAreThoseOfSingleSimulations) {
  Open();
  for (const char* uid : {"a", "b", "d", "e"}) Submit(uid, 4);
  Settle();
  std::vector<SimulatePlacementRequest> alternatives = {Adding(1), Adding(3), Cordoning("n"),
                                                        Cordoning("m"), WithJob(16)};
  alternatives.push_back(Empty());
  alternatives.back().add_node_changes()->set_remove("clusters/c/nodes/n");
  SimulatePlacementRequest after = WithJob(1);
  after.mutable_jobs(0)->add_after()->set_job("projects/p/jobs/a");
  alternatives.push_back(after);
  alternatives.push_back(Adding(1));
  *alternatives.back().add_jobs() = WithJob(3).jobs(0);
  *alternatives.back().add_jobs() = WithJob(3).jobs(0);
  const auto asker = Ask(alternatives);
  RunToEnd(*asker);
  ASSERT_EQ(asker->answers.size(), alternatives.size());
  std::vector<std::string> seen;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    ASSERT_TRUE(asker->answers[i].ok()) << asker->answers[i].status();
    EXPECT_EQ(asker->answers[i]->ShortDebugString(), AskSingle(alternatives[i]).ShortDebugString())
        << i;
    seen.push_back(asker->answers[i]->ShortDebugString());
  }
  // That they are equal would say nothing if all were.
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end())
      << *std::adjacent_find(seen.begin(), seen.end());
  EXPECT_EQ(asker->answers[1]->others().started(), 4);
  EXPECT_EQ(asker->answers[6]->jobs(0).reason(), "DEPENDENCY");
  EXPECT_EQ(asker->summary->simulated, static_cast<int>(alternatives.size()));
  EXPECT_EQ(asker->summary->refused, 0);
}

TEST_F(BatchSimulationsTest, AllAreOfOneStateWhateverHappensMeanwhile) {
  cpu_.cost = absl::Seconds(1);
  Open();
  Submit("a");
  Settle();
  const absl::Time asked = clock_.Read().wall;
  const auto asker = Ask(Times(5));
  int64_t revision = 0;
  for (size_t i = 1; i <= 5; ++i) {
    RunToAnswer(*asker, i);
    if (i == 1) revision = view_->revision();
    Submit(absl::StrCat("more-", i));
    rec::NodeRecord node = NodeOf("n", 4);
    node.add_cordons()->set_owner("person-bob");
    Commit({PutNode({"c", "n"}, node)});
    strand_.RunReady();
  }
  RunToEnd(*asker);
  ASSERT_EQ(asker->bases.size(), 6u);
  for (const BatchSimulations::Basis& basis : asker->bases) {
    EXPECT_EQ(basis.revision, revision);
    EXPECT_EQ(basis.time, asked);
  }
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(asker->answers[i]->ShortDebugString(), asker->answers[0]->ShortDebugString());
    EXPECT_EQ(ToTime(asker->answers[i]->state_time()), asked);
  }
  EXPECT_EQ(WaitingIn(*asker, 0), 1);
  EXPECT_EQ(asker->summary->cpu, 6 * cpu_.cost) << "a copy and five alternatives";
  const std::string metrics = metrics_.RenderText();
  EXPECT_TRUE(
      absl::StrContains(metrics, "\ncapstan_scheduler_batch_simulations_cpu_seconds_total 6"))
      << metrics;
  EXPECT_TRUE(
      absl::StrContains(metrics, "\ncapstan_scheduler_batch_simulations_alternatives_total 5"));
  // The next batch is of what is so by then.
  const auto next = Ask(Times(1));
  RunToEnd(*next);
  EXPECT_EQ(WaitingIn(*next, 0), 6);
  EXPECT_GT(next->bases[0].revision, revision);
}

TEST_F(BatchSimulationsTest, WhatChangesWhileItIsCopiedCounts) {
  Open();
  for (int i = 0; i < 9; ++i) Submit(absl::StrCat("u", i));
  Settle();
  const auto asker = Ask(Times(2));
  Submit("late");
  strand_.RunReady();
  RunToEnd(*asker);
  EXPECT_EQ(WaitingIn(*asker, 0), 10);
  EXPECT_EQ(asker->bases[0].revision, view_->revision());
}

TEST_F(BatchSimulationsTest, OneThatIsWrongWithWhatIsStoredIsRefusedAlone) {
  Open();
  const auto asker = Ask({WithJob(1), Cordoning("absent"), Adding(1)});
  RunToEnd(*asker);
  ASSERT_EQ(asker->answers.size(), 3u);
  EXPECT_TRUE(asker->answers[0].ok());
  const auto violations = status::GetFieldViolations(asker->answers[1].status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "node_changes[0].cordon");
  EXPECT_TRUE(asker->answers[2].ok());
  EXPECT_EQ(asker->summary->simulated, 2);
  EXPECT_EQ(asker->summary->refused, 1);
}

TEST_F(BatchSimulationsTest, TakesNoMoreThanItsPartOfACore) {
  Random random(7);
  cpu_.random = &random;
  options_.max_core_percent = 20;
  options_.jobs_per_piece = 100;
  Open();
  for (int i = 0; i < 9; ++i) Submit(absl::StrCat("u", i));
  Settle();
  for (int batch = 0; batch < 6; ++batch) {
    std::vector<std::shared_ptr<FakeAsker>> askers;
    for (int i = 0; i < 4; ++i) askers.push_back(Ask(Times(1 + batch)));
    for (const auto& asker : askers) RunToEnd(*asker);
    if (batch % 2 == 0) strand_.Advance(absl::Minutes(2));
  }
  const std::vector<FakeCpuClock::Piece>& pieces = cpu_.pieces;
  ASSERT_GT(pieces.size(), 100u);
  for (size_t first = 0; first < pieces.size(); ++first) {
    absl::Duration taken;
    for (size_t last = first; last < pieces.size(); ++last) {
      taken += pieces[last].cpu;
      const absl::Duration span = pieces[last].begun + pieces[last].cpu - pieces[first].begun;
      ASSERT_LE(taken, span / 5 + absl::Seconds(3)) << first << " to " << last;
    }
  }
  // Nor less, while there is something to do: until the last piece of the first round began.
  absl::Duration taken;
  for (int i = 0; i < 7; ++i) taken += pieces[i].cpu;
  EXPECT_EQ(taken * 5, pieces[7].begun - pieces[0].begun);
}

TEST_F(BatchSimulationsTest, TheNextBeginsAsSoonAsTheLastIsPaidFor) {
  cpu_.cost = absl::Seconds(1);
  Open();
  const BootTime begun = clock_.Read().boot;
  const auto asker = Ask(Times(3));
  RunToEnd(*asker);
  ASSERT_EQ(cpu_.pieces.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(cpu_.pieces[i].begun, begun + static_cast<int>(i) * absl::Seconds(4)) << i;
  }
  EXPECT_EQ(clock_.Read().boot, begun + absl::Seconds(13)) << "the end is not waited for";
}

TEST_F(BatchSimulationsTest, SingleSimulationsDoNotWaitForIt) {
  cpu_.cost = absl::Seconds(1);
  Open();
  Submit("a");
  Settle();
  const auto asker = Ask(Times(4));
  RunToAnswer(*asker, 1);
  strand_.Advance(absl::Seconds(4));
  const size_t pieces = cpu_.pieces.size();
  // The second alternative is under way.
  EXPECT_EQ(AskSingle(WithJob(1)).others().waiting(), 1);
  EXPECT_EQ(cpu_.pieces.size(), pieces);
  EXPECT_EQ(asker->answers.size(), 1u);
  RunToEnd(*asker);
}

TEST_F(BatchSimulationsTest, WhoLeadsTakesOnlyThoseThatAllowIt) {
  Open();
  batches_->SetLeading(true);
  const auto refused = Ask(Times(2));
  EXPECT_EQ(refused->failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(refused->failed), "LEADS");
  EXPECT_EQ(status::GetErrorInfo(refused->failed)->metadata.at("judged"), "0");
  EXPECT_TRUE(absl::StrContains(refused->failed.message(), "allow_leader")) << refused->failed;
  EXPECT_TRUE(absl::StrContains(refused->failed.message(), "ask another replica"));
  const auto allowed = Ask(Times(2), /*allow_leader=*/true);
  RunToEnd(*allowed);
  EXPECT_EQ(allowed->summary->simulated, 2);
  EXPECT_TRUE(cpu_.pieces.size() == 3u);
  batches_->SetLeading(false);
  const auto follows = Ask(Times(2));
  RunToEnd(*follows);
  EXPECT_EQ(follows->summary->simulated, 2);
}

TEST_F(BatchSimulationsTest, WhenItBeginsToLeadWhatIsUnderWayIsAnsweredAndNoMore) {
  Open();
  const auto asker = Ask(Times(5));
  const auto waits = Ask(Times(3));
  const auto may = Ask(Times(3), /*allow_leader=*/true);
  RunToAnswer(*asker, 2);
  // The third is begun.
  strand_.RunReady();
  batches_->SetLeading(true);
  EXPECT_EQ(status::Reason(waits->failed), "LEADS") << "at once: nothing of it is under way";
  EXPECT_FALSE(asker->IsOver());
  Settle();
  EXPECT_EQ(asker->answers.size(), 3u);
  EXPECT_EQ(status::Reason(asker->failed), "LEADS");
  EXPECT_EQ(status::GetErrorInfo(asker->failed)->metadata.at("judged"), "3");
  EXPECT_TRUE(absl::StrContains(asker->failed.message(), "alternatives[3] to [4]"))
      << asker->failed;
  RunToEnd(*may);
  EXPECT_EQ(may->summary->simulated, 3);
}

TEST_F(BatchSimulationsTest, WhenItBeginsToLeadBetweenTwoItEndsAtOnce) {
  cpu_.cost = absl::Seconds(1);
  Open();
  const auto asker = Ask(Times(5));
  RunToAnswer(*asker, 1);
  Settle();
  batches_->SetLeading(true);
  EXPECT_EQ(status::Reason(asker->failed), "LEADS");
  EXPECT_EQ(asker->answers.size(), 1u);
  // While the state is copied too.
  batches_->SetLeading(false);
  for (int i = 0; i < 9; ++i) Submit(absl::StrCat("u", i));
  strand_.Advance(absl::Minutes(1));
  const auto copied = Ask(Times(5));
  batches_->SetLeading(true);
  Settle();
  EXPECT_EQ(status::Reason(copied->failed), "LEADS");
  EXPECT_EQ(copied->answers.size(), 0u);
}

TEST_F(BatchSimulationsTest, AllThatWasJudgedBeforeItLeadsIsSaid) {
  Open();
  const auto asker = Ask(Times(2));
  RunToAnswer(*asker, 1);
  strand_.RunReady();
  batches_->SetLeading(true);
  Settle();
  ASSERT_TRUE(asker->summary.has_value()) << asker->failed;
  EXPECT_EQ(asker->summary->simulated, 2);
}

TEST_F(BatchSimulationsTest, CalledOffWhatHasNotBegunDoesNotBegin) {
  cpu_.cost = absl::Seconds(1);
  Open();
  const auto asker = Ask(Times(10));
  const auto waits = Ask(Times(10));
  const auto last = Ask(Times(1));
  RunToAnswer(*asker, 2);
  Settle();
  const size_t pieces = cpu_.pieces.size();
  batches_->CallOff(waits.get());
  batches_->CallOff(asker.get());
  Settle();
  EXPECT_EQ(cpu_.pieces.size(), pieces);
  RunToEnd(*last);
  EXPECT_EQ(cpu_.pieces.size(), pieces + 2) << "a copy, and the one of the last";
  EXPECT_FALSE(asker->IsOver());
  EXPECT_EQ(asker->answers.size(), 2u);
  EXPECT_FALSE(waits->IsOver());
}

TEST_F(BatchSimulationsTest, CalledOffWhileOneIsUnderWayItsAnswerIsForNobody) {
  cpu_.cost = absl::Seconds(1);
  Open();
  const auto asker = Ask(Times(10));
  RunToAnswer(*asker, 1);
  strand_.Advance(absl::Seconds(4));
  batches_->CallOff(asker.get());
  const auto next = Ask(Times(1));
  RunToEnd(*next);
  EXPECT_EQ(asker->answers.size(), 1u);
  // What was taken for it is paid for all the same: two copies, and three alternatives.
  ASSERT_EQ(cpu_.pieces.size(), 5u);
  EXPECT_EQ(cpu_.pieces[4].begun - cpu_.pieces[0].begun, absl::Seconds(16));
  EXPECT_EQ(next->summary->cpu, absl::Seconds(2));
}

TEST_F(BatchSimulationsTest, CalledOffWhileItsStateIsCopiedNoMoreIsCopied) {
  cpu_.cost = absl::Seconds(1);
  Open();
  for (int i = 0; i < 9; ++i) Submit(absl::StrCat("u", i));
  Settle();
  const auto asker = Ask(Times(10));
  EXPECT_EQ(cpu_.pieces.size(), 1u);
  batches_->CallOff(asker.get());
  const auto next = Ask(Times(1));
  Settle();
  EXPECT_EQ(cpu_.pieces.size(), 1u);
  RunToEnd(*next);
  EXPECT_EQ(WaitingIn(*next, 0), 9);
  EXPECT_EQ(cpu_.pieces.size(), 7u);
}

TEST_F(BatchSimulationsTest, MoreThanMayWaitAreToldWhenToComeAgain) {
  options_.max_waiting = 2;
  Open();
  std::vector<std::shared_ptr<FakeAsker>> askers;
  for (int i = 0; i < 4; ++i) askers.push_back(Ask(Times(2)));
  EXPECT_TRUE(absl::IsResourceExhausted(askers[3]->failed)) << askers[3]->failed;
  EXPECT_EQ(status::Reason(askers[3]->failed), "TOO_MANY_SIMULATIONS");
  EXPECT_TRUE(status::GetRetryDelay(askers[3]->failed).has_value());
  for (int i = 0; i < 3; ++i) {
    RunToEnd(*askers[i]);
    EXPECT_EQ(askers[i]->summary->simulated, 2);
  }
}

TEST_F(BatchSimulationsTest, TheNextBeginsOnceTheLastIsRead) {
  Open();
  auto asker = std::make_shared<FakeAsker>();
  asker->reads = false;
  batches_->Simulate({Times(3), kAnn, false}, asker);
  for (size_t answers = 1; answers < 3; ++answers) {
    Settle();
    strand_.Advance(absl::Seconds(29));
    Settle();
    ASSERT_EQ(asker->answers.size(), answers);
    std::exchange(asker->unread, nullptr)();
  }
  Settle();
  // The last one need not be.
  EXPECT_EQ(asker->answers.size(), 3u);
  EXPECT_TRUE(asker->summary.has_value());
  EXPECT_EQ(strand_.armed(), 0u);
}

TEST_F(BatchSimulationsTest, WhoReadsNothingHoldsUpOthersForSomeTimeOnly) {
  Open();
  auto asker = std::make_shared<FakeAsker>();
  asker->reads = false;
  batches_->Simulate({Times(3), kAnn, false}, asker);
  const auto next = Ask(Times(1));
  Settle();
  strand_.Advance(absl::Seconds(30));
  EXPECT_TRUE(absl::IsAborted(asker->failed)) << asker->failed;
  EXPECT_EQ(status::Reason(asker->failed), "READS_TOO_SLOWLY");
  RunToEnd(*next);
  EXPECT_TRUE(next->summary.has_value());
  // It is heard no more.
  std::exchange(asker->unread, nullptr)();
  Settle();
  EXPECT_EQ(asker->answers.size(), 1u);
}

TEST_F(BatchSimulationsTest, AllAreToldThatItStops) {
  Open();
  const auto asker = Ask(Times(3));
  const auto waits = Ask(Times(3));
  RunToAnswer(*asker, 1);
  view_->CloseListeners();
  EXPECT_TRUE(absl::IsUnavailable(asker->failed)) << asker->failed;
  EXPECT_TRUE(absl::IsUnavailable(waits->failed)) << waits->failed;
  Settle();
  const auto late = Ask(Times(3));
  RunToAnswer(*late, 1);
  strand_.RunReady();
  batches_.reset();
  EXPECT_TRUE(absl::IsUnavailable(late->failed)) << late->failed;
  Settle();
}

}  // namespace
}  // namespace capstan::scheduler
