#include "services/data_loader/core/loader_core.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
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
    core_ = std::make_unique<LoaderCore>(
        LoaderConfig{.site = "sites/s", .clusters = {"local"}, .site_limit_bytes = limit_});
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
      if (const auto* evict = std::get_if<EvictVersion>(&effect)) {
        evicted_.push_back(evict->manifest_digest);
      }
      if (const auto* forget = std::get_if<ForgetLoad>(&effect)) forgotten_.push_back(forget->load);
      if (const auto* plan = std::get_if<AnswerPlan>(&effect))
        admitted_[plan->load] = plan->admitted;
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

  static std::string Digest(char c) { return "sha256:" + std::string(64, c); }
  static std::string Version(const std::string& dataset, char c) {
    return absl::StrCat("projects/p/datasets/", dataset, "/versions/", std::string(16, c));
  }

  // Makes a Dataset and loads it.
  void LoadVersion(const std::string& dataset, char c, int64_t bytes) {
    const std::string load = absl::StrCat("projects/p/dataLoads/load-", dataset);
    Keep(core_->CreateDataset(DatasetRequest(dataset), "u", clock_.Read()));
    Ensure(absl::StrCat("load-", dataset), false, absl::StrCat("projects/p/datasets/", dataset));
    Keep(core_->LoadPlanned(load, bytes));
    Keep(core_->LoadPublished(load, Digest(c), bytes, 1, bytes, clock_.Read()));
    clock_.Advance(absl::Minutes(1));
  }

  DecisionOr<Pinned> PinOf(const std::string& dataset, char c, const std::string& holder,
                           const std::string& node, const std::string& new_id = "load-new") {
    pb::PinVersionRequest pin;
    pin.set_version(Version(dataset, c));
    pin.set_holder(holder);
    return core_->PinVersion(pin, node, new_id, clock_.Read());
  }

  absl::StatusOr<ReadableContent> Readable(const std::string& dataset, char c,
                                           const std::string& holder, const std::string& node) {
    pb::ContentRef ref;
    ref.set_resource(Version(dataset, c));
    ref.set_manifest_digest(Digest(c));
    ref.set_holder(holder);
    return core_->CheckRead(ref, node);
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
  std::vector<std::string> evicted_;
  std::vector<std::string> forgotten_;
  std::map<std::string, absl::Status> admitted_;
  int64_t limit_ = 0;
};

TEST_F(LoaderCoreTest, APlanOfALoadThatHasEndedIsRefused) {
  LoadVersion("d", 'a', 10);
  const std::string load = "projects/p/dataLoads/load-d";
  EXPECT_TRUE(admitted_.at(load).ok());
  // Its last attempt was begun before anybody heard of the end of the one before.
  Keep(core_->LoadPlanned(load, 10));
  EXPECT_EQ(status::Reason(admitted_.at(load)), "LOAD_ENDED");
  Keep(core_->LoadFailed(load, admitted_.at(load), clock_.Read()));
  EXPECT_EQ(Ensure("load-again").state(), pb::DataLoad::STATE_SUCCEEDED);
}

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
  LoadVersion("d", 'a', 1);
  EXPECT_EQ(Keep(PinOf("d", 'a', "uid/1", "")).manifest_digest, kDigest);
  const size_t stored = disk_.size();
  Keep(PinOf("d", 'a', "uid/1", ""));
  EXPECT_EQ(disk_.size(), stored);
  Restart();
  Keep(core_->ReleasePins("uid/1", "", clock_.Read()));
  EXPECT_EQ(disk_.size(), stored) << "the pin has made room for the note of its release";
  EXPECT_EQ(PinOf("d", 'b', "uid/1", "").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LoaderCoreTest, ANodeReleasesOnlyItsOwnPins) {
  LoadVersion("d", 'a', 1);
  const size_t before = disk_.size();
  for (const char* node : {"c/n1", "c/n2"}) Keep(PinOf("d", 'a', "uid/1", node));
  EXPECT_EQ(disk_.size(), before + 2);
  Restart();
  Keep(core_->ReleasePins("uid/1", "c/n1", clock_.Read()));
  EXPECT_EQ(disk_.size(), before + 1);
  EXPECT_TRUE(Readable("d", 'a', "uid/1", "c/n2").ok());
  EXPECT_EQ(Readable("d", 'a', "uid/1", "c/n1").status().code(), absl::StatusCode::kNotFound);
  Restart();
  // A service speaks for all Nodes.
  Keep(core_->ReleasePins("uid/1", "", clock_.Read()));
  EXPECT_EQ(disk_.size(), before + 1) << "no pin, and the note of their release";
}

TEST_F(LoaderCoreTest, APinThatComesAfterItsHolderWasReleasedIsRefused) {
  LoadVersion("d", 'a', 1);
  const pb::Bundle bundle =
      Keep(DecisionOr<pb::Bundle>(core_->BundleStored("projects/p", kDigest, 1, 1, clock_.Read())));
  pb::PinBundleRequest pin_bundle;
  pin_bundle.set_name(bundle.name());
  pin_bundle.set_holder("uid/1");
  const auto refused = [&] {
    const size_t stored = disk_.size();
    const absl::Status version = PinOf("d", 'a', "uid/1", "c/n1").status();
    EXPECT_EQ(status::Reason(version), "HOLDER_RELEASED") << version;
    const absl::Status code = core_->PinBundle(pin_bundle, "c/n1").status();
    EXPECT_EQ(status::Reason(code), "HOLDER_RELEASED") << code;
    EXPECT_EQ(disk_.size(), stored);
    return version.code() == absl::StatusCode::kFailedPrecondition;
  };
  // A Node's word is about itself alone, and about now.
  Keep(PinOf("d", 'a', "uid/1", "c/n1"));
  Keep(core_->ReleasePins("uid/1", "c/n1", clock_.Read()));
  Keep(PinOf("d", 'a', "uid/1", "c/n1"));
  // That of the scheduler is for good, also to a Node that had pinned nothing yet.
  Keep(core_->ReleasePins("uid/1", "", clock_.Read()));
  EXPECT_TRUE(refused());
  Restart();
  EXPECT_TRUE(refused());
  Keep(PinOf("d", 'a', "uid/2", "c/n1"));
  // It may be said again.
  const size_t stored = disk_.size();
  clock_.Advance(absl::Hours(47));
  Keep(core_->ReleasePins("uid/1", "", clock_.Read()));
  EXPECT_EQ(disk_.size(), stored);
  EXPECT_TRUE(refused());
  // In the end nobody can ask any more.
  clock_.Advance(absl::Hours(2));
  Restart();
  Keep(core_->ReleasePins("uid/2", "", clock_.Read()));
  EXPECT_EQ(disk_.size(), stored - 1) << "of uid/2 the pin went, of uid/1 the note";
  Keep(PinOf("d", 'a', "uid/1", "c/n1"));
}

TEST_F(LoaderCoreTest, OnlyWhatANodeHasPinnedMayBeRead) {
  LoadVersion("d", 'a', 1);
  EXPECT_FALSE(Readable("d", 'a', "uid/1", "c/n1").ok());
  Keep(PinOf("d", 'a', "uid/1", "c/n1"));
  EXPECT_EQ(Readable("d", 'a', "uid/1", "c/n1")->folder, "versions/" + std::string(64, 'a'));
  EXPECT_FALSE(Readable("d", 'a', "uid/2", "c/n1").ok());
  EXPECT_FALSE(Readable("d", 'a', "uid/1", "c/n2").ok());
  EXPECT_FALSE(Readable("d", 'b', "uid/1", "c/n1").ok());
  // Checkpoints are for the open generation of their Job.
  Open(1);
  Keep(core_->CommitOutput(Staged(1, 5, "g1s5"), clock_.Read()));
  Open(2);
  pb::ContentRef ref;
  ref.set_resource(kOutput);
  ref.set_manifest_digest(kDigest);
  ref.set_holder(absl::StrCat(kUid, "/2"));
  EXPECT_EQ(core_->CheckRead(ref, "c/n1")->folder, absl::StrCat("outputs/", kUid, "/g1s5"));
  ref.set_holder(absl::StrCat(kUid, "/1"));
  EXPECT_FALSE(core_->CheckRead(ref, "c/n1").ok());
}

TEST_F(LoaderCoreTest, LeastRecentlyUsedVersionsLeaveForALoadThatNeedsTheirRoom) {
  limit_ = 100;
  Restart();
  LoadVersion("old", 'a', 40);
  LoadVersion("mid", 'b', 40);
  clock_.Advance(absl::Hours(1));
  Keep(PinOf("old", 'a', "uid/1", "c/n"));
  Keep(core_->ReleasePins("uid/1", "c/n", clock_.Read()));
  Restart();
  LoadVersion("new", 'c', 40);
  EXPECT_EQ(evicted_, std::vector<std::string>{Digest('b')});
  EXPECT_EQ(core_->AbsentVersions(), std::set<std::string>{Digest('b')});
  Restart();
  EXPECT_EQ(core_->AbsentVersions(), std::set<std::string>{Digest('b')});
  EXPECT_FALSE(Readable("mid", 'b', "uid/1", "c/n").ok());
}

TEST_F(LoaderCoreTest, WhatCannotFitSaysWhoHoldsTheRoom) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  Keep(PinOf("a", 'a', "uid-of-job/1", "c/n"));
  Keep(core_->CreateDataset(DatasetRequest("b"), "u", clock_.Read()));
  const std::string load = Ensure("load-b", false, "projects/p/datasets/b").name();
  Keep(core_->LoadPlanned(load, 50));
  EXPECT_EQ(status::Reason(admitted_.at(load)), "SITE_FULL");
  EXPECT_TRUE(absl::StrContains(admitted_.at(load).message(), "Jobs uid-of-job"))
      << admitted_.at(load);
  Keep(core_->LoadPlanned(load, 101));
  EXPECT_EQ(status::Reason(admitted_.at(load)), "CONTENT_TOO_LARGE");
  // Room that is promised is not promised twice, also after a restart.
  Keep(core_->LoadPlanned(load, 30));
  EXPECT_TRUE(admitted_.at(load).ok());
  Restart();
  Keep(core_->CreateDataset(DatasetRequest("c"), "u", clock_.Read()));
  const std::string other = Ensure("load-c", false, "projects/p/datasets/c").name();
  Keep(core_->LoadPlanned(other, 11));
  EXPECT_EQ(status::Reason(admitted_.at(other)), "SITE_FULL");
  Keep(core_->LoadPlanned(other, 10));
  EXPECT_TRUE(admitted_.at(other).ok());
}

TEST_F(LoaderCoreTest, AVersionThatLeftIsBroughtAgainForWhoPinsIt) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  LoadVersion("b", 'b', 60);
  ASSERT_EQ(evicted_.size(), 1u);
  const Pinned pinned = Keep(PinOf("a", 'a', "uid/1", "c/n", "load-again"));
  EXPECT_EQ(status::Reason(pinned.there), "VERSION_ON_ITS_WAY");
  EXPECT_EQ(status::Reason(Keep(PinOf("a", 'a', "uid/1", "c/n", "load-twice")).there),
            "VERSION_ON_ITS_WAY");
  EXPECT_EQ(started_.back().load, "projects/p/dataLoads/load-again");
  Keep(core_->LoadPlanned("projects/p/dataLoads/load-again", 60));
  Keep(core_->LoadPublished("projects/p/dataLoads/load-again", Digest('a'), 60, 1, 60,
                            clock_.Read()));
  Restart();
  EXPECT_TRUE(Keep(PinOf("a", 'a', "uid/1", "c/n")).there.ok());
  // Asked for by its Dataset it comes again too.
  EXPECT_EQ(Ensure("load-b2", false, "projects/p/datasets/b").name(),
            "projects/p/dataLoads/load-b2");
}

TEST_F(LoaderCoreTest, APinnedVersionThatLeftWaitsForRoomAndComesWhenThereIsSome) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  LoadVersion("b", 'b', 60);
  ASSERT_TRUE(Keep(PinOf("b", 'b', "other/1", "c/n")).there.ok());
  const std::string again = "projects/p/dataLoads/load-again";
  const auto ask = [&] { return Keep(PinOf("a", 'a', "uid/1", "c/n", "load-again")).there; };
  EXPECT_EQ(status::Reason(ask()), "VERSION_ON_ITS_WAY");
  const auto no_room = [&] {
    Keep(core_->LoadPlanned(again, 60));
    EXPECT_EQ(status::Reason(admitted_.at(again)), "SITE_FULL");
    Keep(core_->LoadFailed(again, admitted_.at(again), clock_.Read()));
  };
  no_room();
  const size_t started = started_.size();
  for (int restarts = 0; restarts < 2; ++restarts) {
    const absl::Status told = ask();
    EXPECT_TRUE(absl::IsUnavailable(told)) << "PREPARE goes on: " << told;
    EXPECT_EQ(status::Reason(told), "VERSION_WAITS_FOR_ROOM");
    EXPECT_TRUE(absl::StrContains(told.message(), "Jobs other")) << told;
    EXPECT_TRUE(status::GetRetryDelay(told).has_value());
    if (restarts == 0) {
      // After a restart it asks for room at once, finds none, and waits again.
      Restart();
      no_room();
    }
  }
  // Other Jobs' pins change nothing.
  Keep(core_->ReleasePins("nobody/1", "", clock_.Read()));
  EXPECT_EQ(started_.size(), started + 1);
  Keep(core_->ReleasePins("other/1", "", clock_.Read()));
  ASSERT_EQ(started_.size(), started + 2);
  EXPECT_EQ(started_.back().load, again);
  EXPECT_EQ(status::Reason(ask()), "VERSION_ON_ITS_WAY");
  Keep(core_->LoadPlanned(again, 60));
  EXPECT_TRUE(admitted_.at(again).ok());
  Keep(core_->LoadPublished(again, Digest('a'), 60, 1, 60, clock_.Read()));
  EXPECT_TRUE(ask().ok());
}

TEST_F(LoaderCoreTest, ALoadThatNobodyWaitsForAnyMoreFailsWhenTheSiteIsFull) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  LoadVersion("b", 'b', 60);
  Keep(PinOf("b", 'b', "other/1", "c/n"));
  const std::string again = "projects/p/dataLoads/load-again";
  Keep(PinOf("a", 'a', "uid/1", "c/n", "load-again"));
  Keep(core_->LoadPlanned(again, 60));
  Keep(core_->LoadFailed(again, admitted_.at(again), clock_.Read()));
  // The Job gives up; the load gets its turn, finds no room, and ends.
  Keep(core_->ReleasePins("uid/1", "", clock_.Read()));
  ASSERT_EQ(started_.back().load, again);
  Keep(core_->LoadPlanned(again, 60));
  Keep(core_->LoadFailed(again, admitted_.at(again), clock_.Read()));
  const size_t started = started_.size();
  Keep(core_->ReleasePins("other/1", "", clock_.Read()));
  EXPECT_EQ(started_.size(), started);
}

TEST_F(LoaderCoreTest, AVersionWhoseSourceHasChangedIsGone) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  LoadVersion("b", 'b', 60);
  Keep(PinOf("a", 'a', "uid/1", "c/n", "load-again"));
  Keep(core_->LoadPlanned("projects/p/dataLoads/load-again", 60));
  Keep(core_->LoadPublished("projects/p/dataLoads/load-again", Digest('f'), 60, 1, 60,
                            clock_.Read()));
  const Pinned pinned = Keep(PinOf("a", 'a', "uid/1", "c/n"));
  EXPECT_EQ(status::Reason(pinned.there), "VERSION_GONE");
  EXPECT_EQ(pinned.there.code(), absl::StatusCode::kFailedPrecondition);
  // Whoever asks for it by name is not given the other one for it.
  pb::EnsureDataLoadRequest request;
  request.set_dataset("projects/p/datasets/a");
  request.set_version(std::string(16, 'a'));
  EXPECT_EQ(status::Reason(core_->EnsureLoad(request, "load-more", clock_.Read()).status()),
            "VERSION_GONE");
  request.set_version(std::string(16, 'f'));
  EXPECT_EQ(Keep(core_->EnsureLoad(request, "load-more", clock_.Read())).version(),
            Version("a", 'f'));
}

// A load may have published it, and been killed before it came to say so.
TEST_F(LoaderCoreTest, AVersionThatIsBeingBroughtAgainIsNotTakenForOneThatHasLeft) {
  limit_ = 100;
  Restart();
  LoadVersion("a", 'a', 60);
  LoadVersion("b", 'b', 60);
  EXPECT_EQ(core_->AbsentVersions(), std::set<std::string>{Digest('a')});
  EXPECT_TRUE(core_->OpenLoads().empty());
  Keep(PinOf("a", 'a', "uid/1", "c/n", "load-again"));
  const std::string again = "projects/p/dataLoads/load-again";
  Restart();
  EXPECT_TRUE(core_->AbsentVersions().empty());
  EXPECT_EQ(core_->OpenLoads(), std::set<std::string>{again});
  forgotten_.clear();
  Keep(core_->LoadFailed(again, absl::InternalError("torn"), clock_.Read()));
  EXPECT_EQ(forgotten_, std::vector<std::string>{again});
  EXPECT_EQ(core_->AbsentVersions(), std::set<std::string>{Digest('a')});
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
