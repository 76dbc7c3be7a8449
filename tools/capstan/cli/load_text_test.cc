#include "tools/capstan/cli/load_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::cli {
namespace {

using dataloader::v1::DataLoad;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kBegin = absl::FromUnixSeconds(1'700'000'000);

BootTime At(int seconds) { return BootTime::FromNanoseconds(int64_t{seconds} * 1'000'000'000); }

DataLoad Load(DataLoad::State state, int64_t loaded, int64_t total, double rate = 0) {
  DataLoad load;
  load.set_name("projects/p/dataLoads/l1");
  load.set_dataset("projects/p/datasets/digits");
  load.set_site("sites/shared");
  load.set_state(state);
  load.set_loaded_bytes(loaded);
  load.set_total_bytes(total);
  load.set_bytes_per_second(rate);
  *load.mutable_create_time() = ToProto(kBegin);
  return load;
}

DataLoad Done(int64_t total, absl::Duration took) {
  DataLoad load = Load(DataLoad::STATE_SUCCEEDED, total, total);
  load.set_version("projects/p/datasets/digits/versions/c042");
  *load.mutable_end_time() = ToProto(kBegin + took);
  return load;
}

TEST(LoadLinesTest, ALoadThatIsOverAtOnceHasABeginningAndAnEnd) {
  LoadLines lines((Terminal()));
  const auto shown = lines.OnLoad(Done(100 << 10, absl::Milliseconds(200)), At(0), kBegin);
  EXPECT_THAT(shown.lines,
              ElementsAre("data digits: 0%, loading to sites/shared (projects/p/dataLoads/l1)",
                          "data digits: 100% of 100 KiB in 200ms, 500 KiB/s, at sites/shared, "
                          "version c042"));
  EXPECT_EQ(shown.live, "");
}

TEST(LoadLinesTest, APipeGetsALineForEachTenthOrFiveSeconds) {
  LoadLines lines((Terminal()));
  const auto at = [&](int64_t loaded, int seconds) {
    DataLoad load = Load(DataLoad::STATE_LOADING, loaded << 20, 100 << 20, 1 << 20);
    *load.mutable_eta() = ToProto(absl::Seconds(100 - loaded));
    return lines.OnLoad(load, At(seconds), kBegin).lines;
  };
  EXPECT_EQ(lines.OnLoad(Load(DataLoad::STATE_PLANNING, 0, 0), At(0), kBegin).lines.size(), 1u);
  EXPECT_THAT(at(9, 1), IsEmpty());
  EXPECT_THAT(at(12, 2), ElementsAre("data digits: 12%, 12 MiB of 100 MiB, 1.0 MiB/s, ETA 1m28s"));
  EXPECT_THAT(at(15, 3), IsEmpty());
  EXPECT_THAT(at(16, 8), ElementsAre("data digits: 16%, 16 MiB of 100 MiB, 1.0 MiB/s, ETA 1m24s"));
  EXPECT_EQ(lines.OnLoad(Done(100 << 20, absl::Seconds(100)), At(100), kBegin).lines.size(), 1u);
}

TEST(LoadLinesTest, ATerminalHasALiveLineMeanwhile) {
  Terminal terminal;
  terminal.interactive = true;
  LoadLines lines(terminal);
  const auto planning = lines.OnLoad(Load(DataLoad::STATE_PLANNING, 0, 0), At(0), kBegin);
  EXPECT_EQ(planning.live, "data digits: [....................] ? PLANNING, ETA ?");
  const auto half =
      lines.OnLoad(Load(DataLoad::STATE_LOADING, 50 << 20, 100 << 20, 2 << 20), At(1), kBegin);
  EXPECT_THAT(half.lines, IsEmpty());
  EXPECT_EQ(half.live,
            "data digits: [##########..........] 50% 50 MiB of 100 MiB, 2.0 MiB/s, ETA ?");
  EXPECT_EQ(lines.OnLoad(Done(100 << 20, absl::Seconds(2)), At(2), kBegin).live, "");
}

TEST(LoadLinesTest, AFailedLoadSaysWhy) {
  LoadLines lines((Terminal()));
  DataLoad load = Load(DataLoad::STATE_FAILED, 0, 0);
  load.set_reason("OBJECT_NOT_FOUND");
  load.set_message("missing.npy is not there");
  EXPECT_THAT(lines.OnLoad(load, At(0), kBegin).lines,
              ElementsAre("data digits: 0%, loading to sites/shared (projects/p/dataLoads/l1)",
                          "data digits: FAILED OBJECT_NOT_FOUND at ? - missing.npy is not there"));
}

TEST(LoadLinesTest, WhatWasLoadedBeforeIsOneLine) {
  LoadLines lines((Terminal()));
  EXPECT_THAT(lines.OnLoad(Done(1 << 10, absl::Seconds(1)), At(0), kBegin + absl::Seconds(2)).lines,
              ElementsAre("data digits: 1.0 KiB are at sites/shared already, version c042"));
}

}  // namespace
}  // namespace capstan::cli
