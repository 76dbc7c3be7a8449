// That the witness learns of checkpoints from the data_loader's disk and not from its answers: an
// answer may be lost with the process, and the checkpoint is the newest all the same.
#include "integration/simulation/loader_actor.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/witness.h"
#include "integration/simulation/world.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"

namespace capstan::simulation {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
constexpr char kOutput[] = "projects/p/jobs/j/output";
constexpr int64_t kStep = 4;
// Some of them kill the data_loader with the commit on disk and its answer not given.
constexpr uint64_t kSeeds = 40;

class OneLoader {
 public:
  explicit OneLoader(uint64_t seed) : world_(seed) { loader_.Start(); }

  // The step that generation `generation` is to begin after.
  int64_t Open(int64_t generation) {
    pb::OpenOutputRequest request;
    request.set_name(kOutput);
    request.set_job_uid(kUid);
    request.set_generation(generation);
    const auto step = std::make_shared<int64_t>(-1);
    loader_.OpenOutput(request, [step](const absl::StatusOr<pb::OpenOutputResponse>& opened) {
      EXPECT_TRUE(opened.ok()) << opened.status();
      if (opened.ok()) *step = opened->resume_from().step();
    });
    RunFor(absl::Minutes(1));
    EXPECT_NE(*step, -1) << "not answered";
    return *step;
  }

  // Generation 1 commits a checkpoint and hears within `limit` that it has, or not.
  bool Commit(absl::Duration limit) {
    pb::CommitOutputRequest request;
    request.set_name(kOutput);
    request.set_job_uid(kUid);
    request.set_generation(1);
    request.set_checkpoint_step(kStep);
    const auto answered = std::make_shared<bool>(false);
    loader_.CommitOutput(request, [this, answered](const auto& committed) {
      EXPECT_TRUE(committed.ok()) << committed.status();
      witness_.CommitAcknowledged(kUid, 1, kStep);
      *answered = true;
    });
    RunFor(limit);
    return *answered;
  }

  // Kills the data_loader while its disk, which is slow, writes the checkpoint. False if the commit
  // was answered before.
  bool CrashInCommit() {
    Open(1);
    loader_.mutable_disk()->slowest = absl::Minutes(1);
    // Copying the files is over by then.
    if (Commit(absl::Seconds(3))) return false;
    loader_.Crash();
    loader_.mutable_disk()->Heal();
    loader_.Start();
    return true;
  }

  int64_t witnessed() const { return witness_.commits(); }
  const std::string& violation() const { return world_.violation(); }

 private:
  void RunFor(absl::Duration time) {
    bool over = false;
    world_.After(time, [&over] { over = true; });
    while (!over && world_.Step()) {
    }
  }

  World world_;
  const MachineClock clock_{&world_};
  const Disk scheduler_disk_;
  Witness witness_{&world_, &scheduler_disk_};
  const DatasetSources sources_{&world_};
  const Mutants mutants_;
  LoaderActor loader_{&world_, &clock_, &sources_, &witness_, &mutants_};
};

TEST(LoaderActorTest, TheNextGenerationBeginsFromACheckpointWhoseAnswerWasLost) {
  int there = 0;
  int gone = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneLoader loader(seed);
    if (!loader.CrashInCommit()) continue;
    const bool stored = loader.Open(2) == kStep;
    EXPECT_EQ(loader.witnessed(), stored ? 1 : 0) << "seed " << seed;
    EXPECT_EQ(loader.violation(), "");
    ++(stored ? there : gone);
  }
  EXPECT_GT(there, 0);
  EXPECT_GT(gone, 0);
}

TEST(LoaderActorTest, ACheckpointWhoseAnswerWasLostIsAcknowledgedWhenAskedForAgain) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneLoader loader(seed);
    if (!loader.CrashInCommit()) continue;
    EXPECT_TRUE(loader.Commit(absl::Minutes(1)));
    EXPECT_EQ(loader.witnessed(), 1) << "seed " << seed;
    EXPECT_EQ(loader.violation(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace capstan::simulation
