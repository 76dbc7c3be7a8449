// That the simulated data_loader brings data as the real one does: whole or not at all, taking up
// what a crash has left, and within the room of its Site.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/witness.h"
#include "integration/simulation/world.h"
#include "libs/status/error.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::simulation {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr uint64_t kSeeds = 20;

std::string Uri(const std::string& id) { return absl::StrCat("file:///data/", id, "/"); }
std::string Name(const std::string& id) { return absl::StrCat("projects/p/datasets/", id); }

class OneLoader {
 public:
  explicit OneLoader(uint64_t seed, Mutants mutants = {}) : world_(seed), mutants_(mutants) {
    loader_.Start();
  }

  // A Dataset whose source has as many parts as it takes to have at least `least`.
  void Make(const std::string& id, int64_t least) {
    Replace(id, least);
    pb::CreateDatasetRequest request;
    request.set_parent("projects/p");
    request.set_dataset_id(id);
    request.mutable_dataset()->set_source_uri(Uri(id));
    loader_.CreateDataset(request, [](const absl::StatusOr<pb::Dataset>& made) {
      EXPECT_TRUE(made.ok()) << made.status();
    });
    RunFor(absl::Seconds(1));
  }
  void Replace(const std::string& id, int64_t least) {
    do {
      sources_.Replace(Uri(id), 6);
    } while (sources_.Find(Uri(id))->total_bytes() < least * DatasetSources::kPartBytes);
  }
  int64_t SizeOf(const std::string& id) { return sources_.Find(Uri(id))->total_bytes(); }

  // The load that brings it; empty if there is no answer.
  std::string Ensure(const std::string& id, bool retry = false) {
    pb::EnsureDataLoadRequest request;
    request.set_dataset(Name(id));
    request.set_retry_failed(retry);
    const auto name = std::make_shared<std::string>();
    loader_.EnsureLoad(request, [name](const absl::StatusOr<pb::DataLoad>& load) {
      EXPECT_TRUE(load.ok()) << load.status();
      if (load.ok()) *name = load->name();
    });
    RunFor(absl::Milliseconds(100));
    return *name;
  }
  pb::DataLoad Get(const std::string& load) {
    pb::DataLoad found;
    loader_.GetLoad(load, [&found](const absl::StatusOr<pb::DataLoad>& stored) {
      if (stored.ok()) found = *stored;
    });
    return found;
  }
  pb::DataLoad Bring(const std::string& id, bool retry = false) {
    const std::string load = Ensure(id, retry);
    RunFor(absl::Minutes(5));
    return Get(load);
  }
  std::string Pin(const std::string& version, const std::string& holder) {
    pb::PinVersionRequest request;
    request.set_version(version);
    request.set_holder(holder);
    const auto reason = std::make_shared<std::string>("no answer");
    loader_.PinVersion(request, "c/n", [reason](const absl::StatusOr<pb::PinVersionResponse>& pin) {
      *reason = pin.ok() ? pin->directory() : std::string(status::Reason(pin.status()));
    });
    RunFor(absl::Seconds(1));
    return *reason;
  }
  void Release(const std::string& holder) {
    loader_.ReleasePins(holder, "c/n", [](const absl::StatusOr<bool>&) {});
    RunFor(absl::Seconds(1));
  }

  void RunFor(absl::Duration time) {
    bool over = false;
    world_.After(time, [&over] { over = true; });
    while (!over && world_.Step()) {
    }
  }
  void Restart() {
    loader_.Crash();
    loader_.Start();
  }
  DatasetSources& sources() { return sources_; }
  const DatasetWitness& witness() { return witness_.datasets(); }
  const std::string& violation() const { return world_.violation(); }

 private:
  World world_;
  const MachineClock clock_{&world_};
  const Disk scheduler_disk_;
  Witness witness_{&world_, &scheduler_disk_};
  DatasetSources sources_{&world_};
  const Mutants mutants_;
  LoaderActor loader_{&world_, &clock_, &sources_, &witness_, &mutants_};
};

TEST(LoaderLoadsTest, ALoadThatWasKilledReadsWhatIsMissing) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneLoader loader(seed);
    loader.Make("d", 4);
    const std::string load = loader.Ensure("d");
    constexpr int kKills = 3;
    for (int i = 0; i < kKills; ++i) {
      loader.RunFor(absl::Seconds(5));
      loader.Restart();
    }
    loader.RunFor(absl::Minutes(5));
    const pb::DataLoad done = loader.Get(load);
    EXPECT_EQ(done.state(), pb::DataLoad::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_LE(done.source_bytes_read(), loader.SizeOf("d") + kKills * DatasetSources::kPartBytes);
    EXPECT_GT(loader.witness().taken_up(), 0);
    EXPECT_EQ(loader.violation(), "");
  }
}

// Kills it every few milliseconds while it publishes: some hit between that and its report.
TEST(LoaderLoadsTest, WhatWasPublishedIsNotReadAgainWhenTheReportIsLost) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneLoader loader(seed);
    loader.Make("d", 1);
    const std::string load = loader.Ensure("d");
    for (int i = 0; i < 100'000; ++i) {
      if (loader.Get(load).state() == pb::DataLoad::STATE_PUBLISHING) break;
      loader.RunFor(absl::Milliseconds(1));
    }
    for (int i = 0; i < 300; ++i) {
      loader.RunFor(absl::Milliseconds(10 * (i % 100)));
      if (loader.Get(load).state() == pb::DataLoad::STATE_SUCCEEDED) break;
      loader.Restart();
    }
    loader.RunFor(absl::Minutes(1));
    EXPECT_EQ(loader.Get(load).state(), pb::DataLoad::STATE_SUCCEEDED) << "seed " << seed;
    EXPECT_EQ(loader.Get(load).source_bytes_read(), loader.SizeOf("d"));
    EXPECT_EQ(loader.violation(), "");
  }
}

TEST(LoaderLoadsTest, ASourceThatChangesOrVanishesFailsTheLoadThatReadsIt) {
  OneLoader loader(1);
  loader.Make("d", 4);
  const std::string load = loader.Ensure("d");
  loader.RunFor(absl::Seconds(1));
  loader.Replace("d", 4);
  loader.RunFor(absl::Minutes(5));
  EXPECT_EQ(loader.Get(load).reason(), "SOURCE_CHANGED");
  loader.sources().TakeAway(Uri("d"));
  EXPECT_EQ(loader.Bring("d", /*retry=*/true).reason(), "OBJECT_NOT_FOUND");
  loader.sources().BringBack(Uri("d"));
  EXPECT_EQ(loader.Bring("d", /*retry=*/true).state(), pb::DataLoad::STATE_SUCCEEDED);
  EXPECT_EQ(loader.violation(), "");
}

TEST(LoaderLoadsTest, WhatIsPinnedStaysAndTheRestMakesRoom) {
  OneLoader loader(2);
  loader.Make("a", 4);
  loader.Make("b", 4);
  const std::string version = loader.Bring("a").version();
  ASSERT_NE(version, "");
  EXPECT_NE(loader.Pin(version, "job/1"), "");
  EXPECT_EQ(loader.Bring("b").reason(), "SITE_FULL");
  loader.Release("job/1");
  EXPECT_EQ(loader.Bring("b", /*retry=*/true).state(), pb::DataLoad::STATE_SUCCEEDED);
  EXPECT_EQ(loader.witness().evictions(), 1);
  // It comes back for who wants it once there is room.
  EXPECT_EQ(loader.Pin(version, "job/2"), "VERSION_ON_ITS_WAY");
  loader.RunFor(absl::Minutes(5));
  EXPECT_NE(loader.Pin(version, "job/2").find("/site/versions/"), std::string::npos);
  EXPECT_EQ(loader.violation(), "");
}

TEST(LoaderLoadsTest, TheWitnessSeesWhatIsPinnedLeave) {
  Mutants mutants;
  mutants.eviction_ignores_pins = true;
  OneLoader loader(2, mutants);
  loader.Make("a", 4);
  loader.Make("b", 4);
  loader.Pin(loader.Bring("a").version(), "job/1");
  loader.Bring("b");
  EXPECT_NE(loader.violation().find("leaves the Site while"), std::string::npos)
      << loader.violation();
}

}  // namespace
}  // namespace capstan::simulation
