#include "services/node_agent/core/gpu_book.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

using session::TaskId;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kH100[] = "nvidia.com/h100-80gb";
constexpr char kL4[] = "nvidia.com/l4-23gb";

const TaskId kA{"a", 1, "w", 0};
const TaskId kB{"b", 1, "w", 0};

std::vector<WholeGpu> Machine() {
  return {{"GPU-0", kH100, 0}, {"GPU-1", kL4, 1}, {"GPU-2", kH100, 2}, {"GPU-3", kH100, 3}};
}

std::vector<std::string> Uuids(const absl::StatusOr<std::vector<WholeGpu>>& picked) {
  std::vector<std::string> uuids;
  EXPECT_TRUE(picked.ok()) << picked.status();
  if (!picked.ok()) return uuids;
  for (const WholeGpu& gpu : *picked) uuids.push_back(gpu.uuid);
  return uuids;
}

TEST(GpuBookTest, PicksOfTheModelInTheDriversOrder) {
  GpuBook book;
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 2}}, Machine())), ElementsAre("GPU-0", "GPU-2"));
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 1}}, Machine())), ElementsAre("GPU-3"));
}

TEST(GpuBookTest, SeveralModelsComeInTheDriversOrderToo) {
  GpuBook book;
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 2}, {kL4, 1}}, Machine())),
              ElementsAre("GPU-0", "GPU-1", "GPU-2"));
}

TEST(GpuBookTest, NoGpuIsTwoTasksAndAnEndFreesThem) {
  GpuBook book;
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 2}}, Machine())), ElementsAre("GPU-0", "GPU-2"));
  const absl::Status taken = book.Pick(kB, {{kH100, 2}}, Machine()).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_EQ(status::Reason(taken), "GPU_TAKEN");
  EXPECT_THAT(taken.message(), HasSubstr("wants 1 more"));
  book.Release(kA);
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 2}}, Machine())), ElementsAre("GPU-0", "GPU-2"));
}

TEST(GpuBookTest, APickThatFailsHoldsNothing) {
  GpuBook book;
  EXPECT_FALSE(book.Pick(kA, {{kH100, 3}, {kL4, 2}}, Machine()).ok());
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 3}, {kL4, 1}}, Machine())),
              ElementsAre("GPU-0", "GPU-1", "GPU-2", "GPU-3"));
}

TEST(GpuBookTest, TooFewThatAreThereIsNotWaitedFor) {
  GpuBook book;
  const absl::Status few = book.Pick(kA, {{kL4, 2}}, Machine()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(few)) << few;
  EXPECT_EQ(status::Reason(few), "TOO_FEW_GPUS");
  EXPECT_THAT(few.message(), HasSubstr("has 1 nvidia.com/l4-23gb without a fault; wanted 2"));
  EXPECT_FALSE(book.Pick(kA, {{"nvidia.com/b200-180gb", 1}}, Machine()).ok());
}

TEST(GpuBookTest, ATaskKeepsAGpuThatTheDriverHasLostForAWhile) {
  GpuBook book;
  book.Take(kA, "GPU-2");
  std::vector<WholeGpu> machine = Machine();
  machine.erase(machine.begin() + 2);
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 1}}, machine)), ElementsAre("GPU-0"));
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 2}}, Machine())), ElementsAre("GPU-0", "GPU-3"));
}

TEST(GpuBookTest, PickingAnewFreesWhatOneHad) {
  GpuBook book;
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 3}}, Machine())),
              ElementsAre("GPU-0", "GPU-2", "GPU-3"));
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 1}}, Machine())), ElementsAre("GPU-0"));
  EXPECT_THAT(Uuids(book.Pick(kB, {{kH100, 2}}, Machine())), ElementsAre("GPU-2", "GPU-3"));
}

TEST(GpuBookTest, NoneIsWanted) {
  GpuBook book;
  EXPECT_THAT(Uuids(book.Pick(kA, {}, Machine())), IsEmpty());
  EXPECT_THAT(Uuids(book.Pick(kA, {{kH100, 0}}, {})), IsEmpty());
}

}  // namespace
}  // namespace capstan::node_agent
