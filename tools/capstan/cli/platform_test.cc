#include "tools/capstan/cli/platform.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/person_identity.h"

namespace capstan::cli {
namespace {

TEST(PlatformTest, TheDataFolderIsFoundInOrder) {
  EXPECT_EQ(DefaultDataDir("/a", "/b", "/c"), "/a");
  EXPECT_EQ(DefaultDataDir(nullptr, "/b", "/c"), "/b/capstan/dev");
  EXPECT_EQ(DefaultDataDir("", "", "/c"), "/c/.local/state/capstan/dev");
}

TEST(PlatformTest, NoPlatformIsUnavailableAndSaysWhatToDo) {
  const auto endpoints = ReadEndpoints("/nonexistent");
  EXPECT_EQ(endpoints.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(endpoints.status()), "NO_PLATFORM");
}

TEST(PlatformTest, SvidsAreRenewedInTheLastThirdOfTheirLife) {
  const absl::Time begin = absl::UnixEpoch();
  const absl::Time end = begin + absl::Hours(3);
  EXPECT_FALSE(NeedsRenewal(begin, end, begin + absl::Hours(1)));
  EXPECT_TRUE(NeedsRenewal(begin, end, begin + absl::Hours(2)));
  EXPECT_TRUE(NeedsRenewal(begin, end, end));
}

TEST(NamesTest, ShortNamesAreMadeWhole) {
  EXPECT_EQ(InProject("p", "jobs", "j"), "projects/p/jobs/j");
  EXPECT_EQ(InProject("p", "jobs", "projects/q/jobs/j"), "projects/q/jobs/j");
  EXPECT_EQ(ProjectParent("projects/p"), "projects/p");
  EXPECT_EQ(NodeResource("node-0"), "clusters/local/nodes/node-0");
  EXPECT_EQ(NodeResource("c/n"), "clusters/c/nodes/n");
  EXPECT_EQ(NodeResource("clusters/c/nodes/n"), "clusters/c/nodes/n");
}

}  // namespace
}  // namespace capstan::cli
