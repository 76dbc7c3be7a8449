#include "services/data_loader/core/loader_core.h"

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kDataset[] = "projects/p/datasets/d";
constexpr char kOutput[] = "projects/p/jobs/j/output";
constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
const std::string kDigest = "sha256:" + std::string(64, 'a');

// A core with the disk its steps were stored on; Restart builds a new core from that disk alone.
class LoaderCoreTest : public ::testing::Test {
 protected:
  LoaderCoreTest() { Restart(); }

  void Restart() {
    core_ = std::make_unique<LoaderCore>(LoaderConfig{.site = "sites/s", .clusters = {"local"}});
    for (const auto& [key, value] : disk_) {
      store::KeyValue kv;
      kv.key = key;
      kv.value = value;
      ASSERT_TRUE(core_->Load(kv).ok());
    }
    Keep(core_->Resume());
  }

  void Keep(const Step& step) {
    for (const store::Put& put : step.puts) disk_[put.key] = put.value;
    for (const store::Delete& gone : step.deletes) disk_.erase(gone.key);
    for (const Effect& effect : step.after) {
      if (const auto* start = std::get_if<StartLoad>(&effect)) started_.push_back(*start);
      if (const auto* remove = std::get_if<RemoveFolder>(&effect))
        removed_.push_back(remove->folder);
    }
  }

  template <typename T>
  T Keep(DecisionOr<T> decision) {
    EXPECT_TRUE(decision.ok()) << decision.status();
    Keep(decision->step);
    return decision->response;
  }

  pb::CreateDatasetRequest DatasetRequest(const std::string& id = "d") {
    pb::CreateDatasetRequest request;
    request.set_parent("projects/p");
    request.set_dataset_id(id);
    request.mutable_dataset()->set_source_uri("file:///bucket/d/");
    return request;
  }

  pb::DataLoad Ensure(const std::string& id, bool retry = false,
                      const std::string& dataset = kDataset) {
    pb::EnsureDataLoadRequest request;
    request.set_dataset(dataset);
    request.set_cluster("local");
    request.set_retry_failed(retry);
    return Keep(core_->EnsureLoad(request, id, clock_.Read()));
  }

  StagedOutput Staged(int64_t generation, int64_t step, const std::string& copy) {
    StagedOutput staged;
    staged.request.set_name(kOutput);
    staged.request.set_job_uid(kUid);
    staged.request.set_generation(generation);
    staged.request.set_checkpoint_step(step);
    staged.manifest_digest = kDigest;
    staged.folder = absl::StrCat("outputs/", kUid, "/", copy);
    staged.directory = "/site/" + staged.folder;
    return staged;
  }

  pb::OpenOutputResponse Open(int64_t generation) {
    pb::OpenOutputRequest request;
    request.set_name(kOutput);
    request.set_job_uid(kUid);
    request.set_generation(generation);
    return Keep(core_->OpenOutput(request));
  }

  SimulatedClock clock_;
  std::map<std::string, std::string> disk_;
  std::unique_ptr<LoaderCore> core_;
  std::vector<StartLoad> started_;
  std::vector<std::string> removed_;
};

TEST_F(LoaderCoreTest, OneLoadServesAllWhoAsk) {
  Keep(core_->CreateDataset(DatasetRequest(), "u", clock_.Read()));
  const pb::DataLoad first = Ensure("load-1");
  EXPECT_EQ(first.state(), pb::DataLoad::STATE_PLANNING);
  EXPECT_EQ(Ensure("load-2").name(), first.name());
  ASSERT_EQ(started_.size(), 1u);
  Keep(core_->LoadPlanned(first.name(), 10));
  Keep(core_->LoadPublished(first.name(), kDigest, 10, 2, 10, clock_.Read()));
  const pb::DataLoad done = Ensure("load-3");
  EXPECT_EQ(done.state(), pb::DataLoad::STATE_SUCCEEDED);
  EXPECT_EQ(done.version(), absl::StrCat(kDataset, "/versions/aaaaaaaaaaaaaaaa"));
  EXPECT_EQ(started_.size(), 1u);
  Restart();
  EXPECT_EQ(Ensure("load-4").name(), first.name());
}

TEST_F(LoaderCoreTest, FailedLoadIsStartedAgainOnlyWhenAsked) {
  Keep(core_->CreateDataset(DatasetRequest(), "u", clock_.Read()));
  const std::string name = Ensure("load-1").name();
  Keep(core_->LoadFailed(name,
                         status::Error(absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND",
                                       "object 'x' is not at its source"),
                         clock_.Read()));
  const pb::DataLoad failed = Ensure("load-2");
  EXPECT_EQ(failed.reason(), "OBJECT_NOT_FOUND");
  EXPECT_EQ(failed.message(), "object 'x' is not at its source");
  EXPECT_NE(Ensure("load-3", /*retry=*/true).name(), name);
  EXPECT_EQ(started_.size(), 2u);
}

TEST_F(LoaderCoreTest, RestartTakesUpWhatWasUnderWayAndBoundsIt) {
  for (const char* id : {"a", "b", "c"}) {
    Keep(core_->CreateDataset(DatasetRequest(id), id, clock_.Read()));
    Ensure(absl::StrCat("load-", id), false, absl::StrCat("projects/p/datasets/", id));
    clock_.Advance(absl::Seconds(1));
  }
  ASSERT_EQ(started_.size(), 2u);
  started_.clear();
  Restart();
  ASSERT_EQ(started_.size(), 2u);
  EXPECT_EQ(started_[0].load, "projects/p/dataLoads/load-a");
  EXPECT_EQ(started_[1].load, "projects/p/dataLoads/load-b");
  Keep(core_->LoadPublished(started_[0].load, kDigest, 1, 1, 1, clock_.Read()));
  ASSERT_EQ(started_.size(), 3u);
  EXPECT_EQ(started_[2].load, "projects/p/dataLoads/load-c");
  // A report about a load that is final changes nothing.
  EXPECT_TRUE(
      core_->LoadFailed(started_[0].load, absl::InternalError("late"), clock_.Read()).puts.empty());
}

TEST_F(LoaderCoreTest, RequestIdMakesCreateIdempotentForADay) {
  pb::CreateDatasetRequest request = DatasetRequest();
  request.set_request_id(kUid);
  EXPECT_EQ(Keep(core_->CreateDataset(request, "u1", clock_.Read())).uid(), "u1");
  Restart();
  EXPECT_EQ(Keep(core_->CreateDataset(request, "u2", clock_.Read())).uid(), "u1");
  request.mutable_dataset()->set_source_uri("file:///other/");
  EXPECT_EQ(status::Reason(core_->CreateDataset(request, "u3", clock_.Read()).status()),
            "REQUEST_ID_REUSED");
  clock_.Advance(absl::Hours(25));
  EXPECT_EQ(status::Reason(core_->CreateDataset(request, "u4", clock_.Read()).status()),
            "DATASET_EXISTS");
}

TEST_F(LoaderCoreTest, OutputGenerationOnlyRises) {
  EXPECT_FALSE(Open(1).has_resume_from());
  Keep(core_->CommitOutput(Staged(1, 5, "g1s5"), clock_.Read()));
  EXPECT_EQ(Open(2).resume_from().step(), 5);
  Restart();
  EXPECT_EQ(Open(2).resume_from().step(), 5);
  pb::OpenOutputRequest old;
  old.set_name(kOutput);
  old.set_job_uid(kUid);
  old.set_generation(1);
  EXPECT_EQ(status::Reason(core_->OpenOutput(old).status()), "GENERATION_SUPERSEDED");
  // A late writer of the older generation is refused, for a new step and after a restart.
  EXPECT_EQ(status::Reason(core_->CommitOutput(Staged(1, 6, "g1s6"), clock_.Read()).status()),
            "GENERATION_SUPERSEDED");
  old.set_job_uid("1b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b");
  old.set_generation(3);
  EXPECT_EQ(status::Reason(core_->OpenOutput(old).status()), "OUTPUT_OF_ANOTHER_JOB");
}

TEST_F(LoaderCoreTest, CommitIsIdempotentAndTheTwinsCopyGoes) {
  Open(1);
  const auto first = Keep(core_->CommitOutput(Staged(1, 5, "one"), clock_.Read()));
  const auto again = Keep(core_->CommitOutput(Staged(1, 5, "two"), clock_.Read()));
  EXPECT_EQ(again.directory(), first.directory());
  EXPECT_EQ(removed_, std::vector<std::string>{absl::StrCat("outputs/", kUid, "/two")});
  EXPECT_EQ(core_->OutputFolders().size(), 1u);
}

TEST_F(LoaderCoreTest, ResumedRunReplacesLaterStepsOfOlderGenerations) {
  Open(1);
  Keep(core_->CommitOutput(Staged(1, 5, "g1s5"), clock_.Read()));
  Keep(core_->CommitOutput(Staged(1, 10, "g1s10"), clock_.Read()));
  Open(2);
  Keep(core_->CommitOutput(Staged(2, 10, "g2s10"), clock_.Read()));
  EXPECT_EQ(removed_, std::vector<std::string>{absl::StrCat("outputs/", kUid, "/g1s10")});
  EXPECT_EQ(Open(3).resume_from().generation(), 2);
}

TEST_F(LoaderCoreTest, PinsLastUntilReleased) {
  Keep(core_->CreateDataset(DatasetRequest(), "u", clock_.Read()));
  const std::string load = Ensure("load-1").name();
  Keep(core_->LoadPublished(load, kDigest, 1, 1, 1, clock_.Read()));
  pb::PinVersionRequest pin;
  pin.set_version(absl::StrCat(kDataset, "/versions/aaaaaaaaaaaaaaaa"));
  pin.set_holder("uid/1");
  EXPECT_EQ(Keep(core_->PinVersion(pin)), kDigest);
  const size_t stored = disk_.size();
  Keep(core_->PinVersion(pin));
  EXPECT_EQ(disk_.size(), stored);
  Restart();
  Keep(core_->ReleasePins("uid/1"));
  EXPECT_EQ(disk_.size(), stored - 1);
  pin.set_version(absl::StrCat(kDataset, "/versions/bbbb"));
  EXPECT_EQ(core_->PinVersion(pin).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LoaderCoreTest, WrongRequestsNameTheField) {
  pb::CreateDatasetRequest request;
  request.set_parent("projekte/p");
  request.set_dataset_id("D!");
  request.mutable_dataset()->set_source_uri("file:///a/../etc");
  request.mutable_dataset()->add_objects("../x");
  const auto violations =
      status::GetFieldViolations(core_->CreateDataset(request, "u", clock_.Read()).status());
  ASSERT_EQ(violations.size(), 4u);
  EXPECT_EQ(violations[0].field, "parent");
  EXPECT_EQ(violations[1].field, "dataset_id");
  EXPECT_EQ(violations[2].field, "dataset.source_uri");
  EXPECT_EQ(violations[3].field, "dataset.objects[0]");
}

}  // namespace
}  // namespace capstan::data_loader
