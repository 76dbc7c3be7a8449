#include "services/scheduler/recorder/replay.h"

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/recorder/harness_recorder.h"
#include "services/scheduler/recorder/recording_folder.h"

namespace capstan::scheduler {
namespace {

FlightRecorder::Options In(const std::string& folder) {
  FlightRecorder::Options options;
  options.folder = folder;
  return options;
}

Replayed ReplayFile(const std::string& path, const ReplayOptions& options = {}) {
  auto reader = RecordingReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  auto replayed = Replay(reader->get(), options);
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_FALSE((*reader)->damaged()) << (*reader)->end();
  return *replayed;
}

class PlantedTest : public ::testing::Test {
 protected:
  PlantedTest() {
    HarnessRecorder recorder(In(folder_.path()));
    recorder.set_config(config_);
    CoreHarness harness(config_, recorder.Observer());
    FakeExecutor executor("local", 2, 4000, &harness);
    executor.Connect();
    for (int j = 0; j < 5; ++j) {
      executor.Take(harness.Submit(absl::StrCat("j", j), CoreHarness::Spec(2, 1500)));
      executor.PrepareAll();
      executor.RunAll();
    }
    harness.Advance(absl::Minutes(1));
    recorder.End();
    path_ = RecordingsIn(folder_.path()).at(0).path;
  }

  // The recording anew, with the step, counted from 1, changed.
  std::string Changed(int64_t number, const std::function<void(recording::StepRecord*)>& change) {
    auto reader = RecordingReader::Open(path_);
    const std::string path = absl::StrCat(folder_.path(), "/changed", ++changed_, ".recording");
    auto writer = RecordingWriter::Create(path, (*reader)->header());
    recording::Block block;
    int64_t step = 0;
    while ((*reader)->Next(&block)) {
      for (auto& one : *block.mutable_steps()) {
        if (++step == number) change(&one);
      }
      EXPECT_TRUE((*writer)->Append(block.SerializeAsString()).ok());
    }
    return path;
  }

  // The number of the n-th step of a kind, from 1.
  int64_t Find(recording::EventRecord::KindCase kind, int nth) {
    int64_t found = 0;
    ReplayOptions options;
    options.on_step = [&](int64_t step, const recording::StepRecord& record) {
      if (record.event().kind_case() == kind && --nth == 0) found = step;
    };
    ReplayFile(path_, options);
    return found;
  }

  const CoreConfig config_;
  const TemporaryFolder folder_;
  std::string path_;
  int changed_ = 0;
};

TEST_F(PlantedTest, StopsWhereItIsTold) {
  const Replayed all = ReplayFile(path_);
  EXPECT_EQ(all.different_step, 0);
  EXPECT_GT(all.steps, 10);
  EXPECT_GT(all.rounds, 2);
  ReplayOptions options;
  options.until = 3;
  EXPECT_EQ(ReplayFile(path_, options).steps, 3);
}

TEST_F(PlantedTest, AnotherConfigurationDiffersWhereItMatters) {
  ReplayOptions options;
  options.config = config_;
  options.config->max_jobs = 2;
  const Replayed replayed = ReplayFile(path_, options);
  // The third Job is shed.
  EXPECT_EQ(replayed.different_step, Find(recording::EventRecord::kCreateJob, 3));
  EXPECT_EQ(replayed.steps, replayed.different_step);
  EXPECT_TRUE(absl::StrContains(replayed.event, "projects/p/jobs/j2")) << replayed.event;
  EXPECT_TRUE(absl::StrContains(replayed.difference, "- ")) << replayed.difference;
  EXPECT_TRUE(absl::StrContains(replayed.difference, "j2")) << replayed.difference;
}

TEST_F(PlantedTest, AnotherEventDiffersAtItsStepOnBothSides) {
  const int64_t step = Find(recording::EventRecord::kCreateJob, 2);
  ASSERT_GT(step, 1);
  const std::string path = Changed(step, [](recording::StepRecord* record) {
    record->mutable_event()->mutable_create_job()->mutable_spec()->set_priority(77);
  });
  const Replayed replayed = ReplayFile(path);
  EXPECT_EQ(replayed.different_step, step);
  EXPECT_TRUE(absl::StrContains(replayed.difference, "jobs/spec/j1")) << replayed.difference;
  EXPECT_TRUE(absl::StrContains(replayed.difference, "+   priority: 77")) << replayed.difference;
}

TEST_F(PlantedTest, AnEventAtAnotherTimeDiffers) {
  const int64_t step = Find(recording::EventRecord::kCreateJob, 2);
  const std::string path = Changed(step, [](recording::StepRecord* record) {
    record->set_wall_delta_ns(record->wall_delta_ns() + 1);
  });
  EXPECT_EQ(ReplayFile(path).different_step, step);
}

TEST_F(PlantedTest, ADecisionKnownByItsDigestAloneIsShownOnOneSide) {
  const std::string same =
      Changed(2, [](recording::StepRecord* record) { record->clear_decision(); });
  EXPECT_EQ(ReplayFile(same).different_step, 0);
  const std::string other = Changed(2, [](recording::StepRecord* record) {
    record->clear_decision();
    record->set_digest(record->digest() + 1);
  });
  const Replayed replayed = ReplayFile(other);
  EXPECT_EQ(replayed.different_step, 2);
  EXPECT_TRUE(absl::StrContains(replayed.difference, "by its digest alone"));
}

TEST_F(PlantedTest, ARoundThatWasNoneDiffers) {
  const std::string path =
      Changed(2, [](recording::StepRecord* record) { record->set_round(!record->round()); });
  const Replayed replayed = ReplayFile(path);
  EXPECT_EQ(replayed.different_step, 2);
  EXPECT_TRUE(absl::StrContains(replayed.difference, "a round of placement"));
}

TEST_F(PlantedTest, ARecordingWithoutItsBeginningIsRefused) {
  auto reader = RecordingReader::Open(path_);
  const std::string path = folder_.path() + "/headless.recording";
  ASSERT_TRUE(RecordingWriter::Create(path, (*reader)->header()).ok());
  auto headless = RecordingReader::Open(path);
  const auto replayed = Replay(headless->get(), {});
  EXPECT_EQ(status::Reason(replayed.status()), kReasonNotReadable);
}

}  // namespace
}  // namespace capstan::scheduler
