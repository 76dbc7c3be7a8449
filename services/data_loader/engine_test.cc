#include "services/data_loader/engine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/store/testing/pumped_strand.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/adapters/directory_site.h"
#include "services/data_loader/adapters/load_worker.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/records.pb.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
constexpr char kOutput[] = "projects/p/jobs/j/output";

// What the Site's threads post waits here until the test passes it on: it is on its way.
class HeldStrand final : public Strand {
 public:
  explicit HeldStrand(Strand* strand) : strand_(strand) {}

  void Post(Task task) override {
    absl::MutexLock lock(&mutex_);
    held_.push_back(std::move(task));
  }
  TimerId RunAt(BootTime when, Task task) override { return strand_->RunAt(when, std::move(task)); }
  bool Cancel(TimerId timer) override { return strand_->Cancel(timer); }
  const Clock& clock() const override { return strand_->clock(); }

  // Waits until so much is on its way.
  void Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [this, count] {
      mutex_.AssertReaderHeld();
      return held_.size() >= count;
    };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20)));
  }
  void PassOn() {
    std::vector<Task> held;
    {
      absl::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (Task& task : held) strand_->Post(std::move(task));
  }

 private:
  Strand* const strand_;
  absl::Mutex mutex_;
  std::vector<Task> held_ ABSL_GUARDED_BY(mutex_);
};

// The engine at a real Site with one thread, which takes its work in order.
class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "engine.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
    LoadOptions options;
    options.allowed_source_roots = {base_};
    auto site = DirectorySite::Open(base_ + "/site", options, 1, Random(1), &held_);
    EXPECT_TRUE(site.ok()) << site.status();
    site_ = *std::move(site);
    EngineConfig config;
    config.core.site = "sites/shared";
    config.on_leading = [this] { ++ready_; };
    engine_ = std::make_unique<Engine>(std::move(config), &store_, site_.get(), &strand_, Random(2),
                                       &logger_);
    engine_->Start([](const absl::Status& started) { EXPECT_TRUE(started.ok()) << started; });
    strand_.RunReady();
    EXPECT_EQ(ready_, 1);
  }

  // Opens the generation and puts a file into its staging folder.
  std::string Stage() {
    pb::OpenOutputRequest request;
    request.set_name(kOutput);
    request.set_job_uid(kUid);
    request.set_generation(1);
    absl::StatusOr<pb::OpenOutputResponse> opened = absl::UnknownError("not answered");
    engine_->OpenOutput(request, [&](auto answer) { opened = std::move(answer); });
    strand_.RunReady();
    EXPECT_TRUE(opened.ok()) << opened.status();
    const std::string staging = absl::StrCat(opened->staging_root(), "/0");
    EXPECT_EQ(::mkdir(staging.c_str(), 0755), 0);
    Write(staging + "/f");
    return staging;
  }
  static void Write(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT, 0644));
    EXPECT_TRUE(WriteAll(fd.get(), "one", path).ok());
  }
  static pb::CommitOutputRequest Checkpoint(int64_t step, const std::string& staging = "") {
    pb::CommitOutputRequest request;
    request.set_name(kOutput);
    request.set_job_uid(kUid);
    request.set_generation(1);
    request.set_checkpoint_step(step);
    request.set_staging_directory(staging);
    return request;
  }
  Engine::Answer<pb::CommitOutputResponse> Note() {
    return
        [this](absl::StatusOr<pb::CommitOutputResponse> answer) { committed_ = std::move(answer); };
  }
  // A copy of what a Node sends, finished, which the engine has not heard of.
  std::unique_ptr<OutputWriter> Receive(int64_t step, StagedOutput* staged) {
    pb::Manifest manifest;
    pb::Manifest::File& file = *manifest.add_files();
    file.set_path("f");
    file.set_size_bytes(3);
    file.set_sha256(Sha256::Of("one"));
    auto writer = site_->ReceiveOutput(Checkpoint(step), manifest);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Write("one").ok());
    const auto finished = (*writer)->Finish();
    EXPECT_TRUE(finished.ok()) << finished.status();
    *staged = *finished;
    return *std::move(writer);
  }

  // A write fails, so that the engine drops what it knows.
  void FailAWrite() {
    store_.FailNextTxn(absl::UnavailableError("away"));
    pb::CreateDatasetRequest request;
    request.set_parent("projects/p");
    request.set_dataset_id("never");
    request.mutable_dataset()->set_source_uri("file:///d/");
    absl::Status created;
    engine_->CreateDataset(request, [&](const auto& answer) { created = answer.status(); });
    strand_.RunReady();
    EXPECT_TRUE(absl::IsUnavailable(created)) << created;
  }
  void ReadAgain() {
    const int before = ready_;
    for (int i = 0; i < 5 && ready_ == before; ++i) strand_.Advance(absl::Seconds(1));
    ASSERT_EQ(ready_, before + 1);
  }
  // The Site's thread has done what it was given before.
  void Settle() {
    site_->CopyOutput(Checkpoint(1, "/nowhere"), [](const absl::StatusOr<StagedOutput>&) {});
    held_.Await(1);
    held_.PassOn();
    strand_.RunReady();
  }
  // What the store says is there, and nothing else.
  void ExpectCopies(size_t count) {
    Settle();
    std::set<std::string> stored;
    const std::string key = OutputKey(kOutput);
    store_.Range({.key = key}, [&](const absl::StatusOr<store::RangeResult>& range) {
      ASSERT_TRUE(range.ok()) << range.status();
      ASSERT_EQ(range->kvs.size(), 1);
      OutputRecord record;
      ASSERT_TRUE(record.ParseFromString(range->kvs[0].value));
      for (const pb::Checkpoint& checkpoint : record.output().checkpoints()) {
        stored.insert(checkpoint.directory());
        stored.insert(checkpoint.directory() + ".manifest");
      }
    });
    strand_.RunReady();
    std::set<std::string> there;
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat(base_, "/site/outputs/", kUid))) {
      if (entry.path().filename() != "staging-1") there.insert(entry.path().string());
    }
    EXPECT_EQ(there, stored);
    EXPECT_EQ(stored.size(), 2 * count);
  }

  store::PumpedStrand strand_;
  HeldStrand held_{&strand_};
  store::MemoryStore store_{&strand_};
  log::TestingSink sink_;
  log::Logger logger_{"data_loader", &strand_.clock(), &sink_};
  std::string base_;
  int ready_ = 0;
  absl::StatusOr<pb::CommitOutputResponse> committed_ = absl::UnknownError("not answered");
  std::unique_ptr<DirectorySite> site_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, ACopyThatEndsAfterTheStoreWasReadAgainIsCommittedAndThere) {
  engine_->CommitOutput(Checkpoint(5, Stage()), Note());
  held_.Await(1);
  FailAWrite();
  ReadAgain();
  held_.PassOn();
  strand_.RunReady();
  ASSERT_TRUE(committed_.ok()) << committed_.status();
  ExpectCopies(1);
}

TEST_F(EngineTest, AnUploadThatEndsAfterTheStoreWasReadAgainIsCommittedAndThere) {
  Stage();
  StagedOutput staged;
  auto writer = Receive(5, &staged);
  FailAWrite();
  ReadAgain();
  engine_->OutputReceived(staged, Note());
  writer.reset();
  strand_.RunReady();
  ASSERT_TRUE(committed_.ok()) << committed_.status();
  ExpectCopies(1);
}

TEST_F(EngineTest, CopiesThatEndWhileTheStoreIsReadAreCollectedAndMadeAnew) {
  const std::string staging = Stage();
  engine_->CommitOutput(Checkpoint(5, staging), Note());
  held_.Await(1);
  StagedOutput staged;
  auto writer = Receive(6, &staged);
  FailAWrite();
  held_.PassOn();
  strand_.RunReady();
  EXPECT_EQ(status::Reason(committed_.status()), "NOT_READY");
  committed_ = absl::UnknownError("not answered");
  engine_->OutputReceived(staged, Note());
  writer.reset();
  EXPECT_EQ(status::Reason(committed_.status()), "NOT_READY");
  ReadAgain();
  ExpectCopies(0);
  engine_->CommitOutput(Checkpoint(5, staging), Note());
  Settle();
  ASSERT_TRUE(committed_.ok()) << committed_.status();
  ExpectCopies(1);
}

// What an attempt came to is on its way while another is begun, of the same load: by one that has
// read the store meanwhile, and has not heard of it.
TEST_F(EngineTest, ALoadThatIsBegunAgainAfterItsEndHoldsNoThread) {
  pb::CreateDatasetRequest dataset;
  dataset.set_parent("projects/p");
  dataset.set_dataset_id("d");
  dataset.mutable_dataset()->set_source_uri(absl::StrCat("file://", base_, "/bucket/"));
  engine_->CreateDataset(dataset, [](const auto& made) { EXPECT_TRUE(made.ok()); });
  pb::EnsureDataLoadRequest load;
  load.set_dataset("projects/p/datasets/d");
  engine_->EnsureLoad(load, [](const auto& ensured) { EXPECT_TRUE(ensured.ok()); });
  strand_.RunReady();
  held_.Await(1);
  // It has failed, for there is no source yet; the next attempt finds one.
  ASSERT_EQ(::mkdir((base_ + "/bucket").c_str(), 0755), 0);
  Write(base_ + "/bucket/f");
  FailAWrite();
  ReadAgain();
  held_.Await(2);
  held_.PassOn();
  strand_.RunReady();
  absl::StatusOr<pb::DataLoad> ended = absl::UnknownError("not answered");
  engine_->EnsureLoad(load, [&](auto answer) { ended = std::move(answer); });
  strand_.RunReady();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->state(), pb::DataLoad::STATE_FAILED);
  // The Site's one thread is free for a checkpoint.
  engine_->CommitOutput(Checkpoint(5, Stage()), Note());
  // The end of that attempt, then the copy's.
  for (int i = 0; i < 2; ++i) {
    held_.Await(1);
    held_.PassOn();
    strand_.RunReady();
  }
  EXPECT_TRUE(committed_.ok()) << committed_.status();
}

TEST_F(EngineTest, ACopyWhoseCommitFailedIsCollected) {
  Stage();
  StagedOutput staged;
  auto writer = Receive(5, &staged);
  store_.FailNextTxn(absl::UnavailableError("away"));
  engine_->OutputReceived(staged, Note());
  writer.reset();
  strand_.RunReady();
  EXPECT_TRUE(absl::IsUnavailable(committed_.status())) << committed_.status();
  ReadAgain();
  ExpectCopies(0);
}

TEST_F(EngineTest, ACopyWhoseCommitTookEffectUnheardOfStays) {
  Stage();
  StagedOutput staged;
  auto writer = Receive(5, &staged);
  store_.FailNextTxnAfterCommit(absl::UnavailableError("away"));
  engine_->OutputReceived(staged, Note());
  writer.reset();
  strand_.RunReady();
  EXPECT_TRUE(absl::IsUnavailable(committed_.status())) << committed_.status();
  ReadAgain();
  ExpectCopies(1);
}

}  // namespace
}  // namespace capstan::data_loader
