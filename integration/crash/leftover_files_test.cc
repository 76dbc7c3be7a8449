#include "integration/crash/leftover_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeftoverFilesTest : public ::testing::Test {
 protected:
  void Make(const std::string& path) {
    const std::filesystem::path full = absl::StrCat(folder_.path(), "/", path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << "x";
  }
  std::vector<std::string> Left() const { return LeftoverFiles(folder_.path()); }

  const TemporaryFolder folder_;
  const std::string site_ = "data_loader/site/";
  const std::string version_ = site_ + "versions/" + std::string(64, 'a');
};

TEST_F(LeftoverFilesTest, WhatAPlatformHasIsNone) {
  for (const char* path :
       {"config.yaml", "run/scheduler.pid", "log/scheduler.log", "credentials/key_keeper.key",
        "executor/store.sqlite-wal", "telemetry/audit.chain.torn-123",
        "scheduler/recordings/20261128T190323.746Z-epoch-3.recording",
        "telemetry/streams/projects/default/jobs/j/streams/log/00000000000000000001.seg",
        "telemetry/streams/projects/default/jobs/j/streams/log/synced"}) {
    Make(path);
  }
  Make(version_ + "/one");
  Make(version_ + ".manifest");
  const std::string copy = site_ + "outputs/01a2238a-6d8e-4abf-980b-b9b22db5b20e/g1-r0-s5-6fcd7932";
  Make(copy + "/step");
  Make(copy + ".manifest");
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(LeftoverFilesTest, WhatIsStagedOrHalfDoneIsSeen) {
  const std::vector<std::string> left = {
      site_ + "staging/evicted/8-4/one",
      site_ + "staging/loads/load-1/plan.binpb",
      site_ + "versions/.aa.manifest.17.tmp",
      "node_agent/tasks/uid/1/w-0",
      "node_agent/trash/1",
      "scheduler/.deny_list.7.tmp",
      "scheduler/identity/svid.pem.new",
      "telemetry/streams/projects/p/jobs/j/streams/log/synced.new",
      "credentials/key_keeper.key.0123456789abcdef",
      site_ + "outputs/01a2238a-6d8e-4abf-980b-b9b22db5b20e/staging-1/w-0",
  };
  for (const std::string& path : left) Make(path);
  std::vector<std::string> found = Left();
  for (const std::string& path : left) {
    EXPECT_THAT(found, ::testing::Contains(path));
  }
}

TEST_F(LeftoverFilesTest, HalfOfContentAndASecondVersionAreSeen) {
  Make(version_ + ".manifest");
  EXPECT_THAT(Left(), ElementsAre(version_ + ".manifest of no content"));
  Make(version_ + "/one");
  EXPECT_THAT(Left(), IsEmpty());
  const std::string other = site_ + "versions/" + std::string(64, 'b');
  Make(other + "/one");
  EXPECT_THAT(Left(), ElementsAre(other + " of no manifest", "2 Dataset versions"));
}

}  // namespace
}  // namespace capstan::integration
