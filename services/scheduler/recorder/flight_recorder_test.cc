#include "services/scheduler/recorder/flight_recorder.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/scheduler/recorder/harness_recorder.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"
#include "services/scheduler/recorder/replay.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;

class FlightRecorderTest : public ::testing::Test {
 protected:
  FlightRecorder::Options Options() const {
    FlightRecorder::Options options;
    options.folder = folder_.path() + "/recordings";
    return options;
  }
  std::vector<RecordingFile> Files() const { return RecordingsIn(Options().folder); }

  static bool Says(const HarnessRecorder& recorder, absl::string_view text) {
    for (const log::Record& record : recorder.logged()) {
      for (const log::Field& field : record.fields) {
        if (absl::StrContains(field.text(), text)) return true;
      }
    }
    return false;
  }

  // Every byte that a reader would see.
  static std::string PlainText(const std::string& path, std::string* end) {
    const auto reader = RecordingReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::string text = (*reader)->header().SerializeAsString();
    recording::Block block;
    while ((*reader)->Next(&block)) text += block.SerializeAsString();
    EXPECT_FALSE((*reader)->damaged());
    *end = (*reader)->end();
    return text;
  }

  static Replayed MustReplay(const std::string& path) {
    const auto reader = RecordingReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    const auto replayed = Replay(reader->get(), {});
    EXPECT_TRUE(replayed.ok()) << replayed.status();
    EXPECT_EQ(replayed->different_step, 0) << replayed->difference;
    return *replayed;
  }

  const TemporaryFolder folder_;
};

TEST_F(FlightRecorderTest, ATermIsAFileOfThisUserAlone) {
  HarnessRecorder recorder(Options());
  CoreHarness harness(CoreConfig(), recorder.Observer());
  harness.Submit("j", CoreHarness::Spec(1, 100));
  harness.NewLeader();
  recorder.End();
  const std::vector<RecordingFile> files = Files();
  ASSERT_EQ(files.size(), 2u);
  struct stat info = {};
  ASSERT_EQ(stat(files[0].path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(Options().folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::string end;
  PlainText(files[0].path, &end);
  EXPECT_EQ(end, "another term began");
  PlainText(files[1].path, &end);
  EXPECT_EQ(end, "the test is over");
  EXPECT_EQ(MustReplay(files[0].path).steps + MustReplay(files[1].path).steps, recorder.steps());
}

TEST_F(FlightRecorderTest, AStepIsOnDiskASecondLaterAndACrashLosesNoMore) {
  HarnessRecorder recorder(Options());
  CoreHarness harness(CoreConfig(), recorder.Observer());
  harness.Submit("j", CoreHarness::Spec(1, 100));
  recorder.strand().Advance(absl::Seconds(1));
  const int64_t written = recorder.steps();
  harness.Submit("k", CoreHarness::Spec(1, 100));
  EXPECT_EQ(MustReplay(Files().at(0).path).steps, written);
}

TEST_F(FlightRecorderTest, SecretsOfJobsAreNotInIt) {
  const char* const secrets[] = {"hunter2-in-argv", "hunter2-in-env"};
  HarnessRecorder recorder(Options());
  CoreHarness harness(CoreConfig(), recorder.Observer());
  FakeExecutor executor("local", 2, 4000, &harness);
  executor.Connect();
  JobSpec spec = CoreHarness::Spec(2, 500);
  spec.mutable_task_groups(0)->add_argv(secrets[0]);
  (*spec.mutable_task_groups(0)->mutable_env())["PASSWORD"] = secrets[1];
  executor.Take(harness.Submit("before", spec));
  CreateJob again = harness.SubmitEvent("hashed", spec);
  again.request_id = "request";
  again.body_hash = std::string(32, 'H');
  executor.Take(harness.Apply(again));
  // Is known by its hash, and another is refused.
  executor.Take(harness.Apply(again));
  again.body_hash = std::string(32, 'I');
  executor.Take(harness.Apply(again));
  executor.PrepareAll();
  executor.RunAll();
  for (const std::string& key : executor.Keys()) {
    executor.End(key, capstan::type::v1::TaskEnd::CAUSE_EXITED);
  }
  harness.NewLeader();
  executor.Connect();
  harness.Advance(absl::Hours(24 * 8));
  recorder.End();
  ASSERT_EQ(Files().size(), 2u);
  for (const RecordingFile& file : Files()) {
    std::string end;
    const std::string text = PlainText(file.path, &end);
    for (const char* secret : secrets) EXPECT_FALSE(absl::StrContains(text, secret)) << secret;
    EXPECT_FALSE(absl::StrContains(text, std::string(32, 'H')));
    EXPECT_TRUE(absl::StrContains(text, "PASSWORD"));
    MustReplay(file.path);
  }
}

TEST_F(FlightRecorderTest, AtItsBoundItEndsWithAWordAndTheNextTermIsRecorded) {
  FlightRecorder::Options options = Options();
  options.max_bytes = 16 << 10;
  HarnessRecorder recorder(options);
  Random random(1);
  CoreHarness harness(CoreConfig(), recorder.Observer());
  for (int j = 0; j < 90; ++j) {
    harness.Submit(absl::StrCat("j", random.Next(), random.Next(), random.Next()),
                   CoreHarness::Spec(1, 100));
    recorder.strand().Advance(absl::Seconds(1));
  }
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_LT(Files()[0].bytes, options.max_bytes / 2 + (4 << 10));
  std::string end;
  PlainText(Files()[0].path, &end);
  EXPECT_TRUE(absl::StrContains(end, "bound")) << end;
  const Replayed replayed = MustReplay(Files()[0].path);
  EXPECT_GT(replayed.steps, 20);
  EXPECT_LT(replayed.steps, recorder.steps());
  EXPECT_EQ(recorder.logged().size(), 1u);
  const std::string text = recorder.metrics().RenderText();
  EXPECT_TRUE(absl::StrContains(text, "flight_recorder_ended_early_total 1")) << text;
  EXPECT_TRUE(absl::StrContains(text, "flight_recorder_recording 0")) << text;
  EXPECT_TRUE(absl::StrContains(
      text, absl::StrCat("flight_recorder_lost_steps_total ", recorder.steps() - replayed.steps)))
      << text;
}

TEST_F(FlightRecorderTest, TheOldestRecordingsGo) {
  FlightRecorder::Options options = Options();
  options.max_bytes = 24 << 10;
  HarnessRecorder recorder(options);
  CoreHarness harness(CoreConfig(), recorder.Observer());
  for (int term = 0; term < 80; ++term) {
    harness.Submit(absl::StrCat("j", term), CoreHarness::Spec(1, 100));
    harness.Sleep(absl::Milliseconds(1));
    harness.NewLeader();
  }
  recorder.End();
  int64_t bytes = 0;
  for (const RecordingFile& file : Files()) bytes += file.bytes;
  EXPECT_LE(bytes, options.max_bytes + (4 << 10));
  EXPECT_GT(Files().size(), 1u);
  EXPECT_LE(Files().size(), 64u);
  EXPECT_TRUE(absl::StrContains(Files().back().path, "epoch-81.")) << Files().back().path;
}

TEST_F(FlightRecorderTest, WhatWaitsIsBounded) {
  FlightRecorder::Options options = Options();
  options.max_waiting_bytes = 2000;
  HarnessRecorder recorder(options);
  CoreHarness harness(CoreConfig(), recorder.Observer());
  const Step step;
  // The writer does nothing meanwhile.
  for (int i = 0; i < 1000; ++i) recorder.recorder().Record(Tick{}, harness.now(), step, false);
  recorder.End();
  std::string end;
  PlainText(Files().at(0).path, &end);
  EXPECT_TRUE(absl::StrContains(end, "waited")) << end;
  EXPECT_TRUE(Says(recorder, "waited"));
  MustReplay(Files()[0].path);
}

TEST_F(FlightRecorderTest, AnEventThatIsTooLargeEndsIt) {
  HarnessRecorder recorder(Options());
  CoreHarness harness(CoreConfig(), recorder.Observer());
  ObservationsReceived large;
  large.observations.add_nodes()->set_preflight_message(std::string(4 << 20, 'x'));
  harness.Apply(large);
  harness.Submit("j", CoreHarness::Spec(1, 100));
  recorder.End();
  std::string end;
  PlainText(Files().at(0).path, &end);
  EXPECT_TRUE(absl::StrContains(end, "too large")) << end;
  // Of what came before.
  EXPECT_EQ(MustReplay(Files()[0].path).steps, 1);
}

TEST_F(FlightRecorderTest, ADiskThatTakesNothingDisturbsNobody) {
  FlightRecorder::Options options = Options();
  options.folder = "/proc/no/such/folder";
  HarnessRecorder recorder(options);
  CoreHarness harness(CoreConfig(), recorder.Observer());
  for (int j = 0; j < 10; ++j) {
    harness.Submit(absl::StrCat("j", j), CoreHarness::Spec(1, 100));
    recorder.strand().Advance(absl::Seconds(1));
  }
  recorder.End();
  EXPECT_EQ(recorder.logged().size(), 1u);
  EXPECT_TRUE(
      absl::StrContains(recorder.metrics().RenderText(), "flight_recorder_ended_early_total 1"));
}

}  // namespace
}  // namespace capstan::scheduler
