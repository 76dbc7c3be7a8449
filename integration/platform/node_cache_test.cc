// A Node that does not share the file system of the data_loader's Site: Bundles, Datasets and
// checkpoints come to its own cache, and what Tasks write is sent.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;

class NodeCachePlatformTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n"
        "  data_cache: {shared_site: false, limit: 1Gi}\n");
    platform_->Up();
  }
  // What lies in a collection of the Node's cache, wherever the agent has its folder.
  int InCache(const std::string& collection) const {
    int found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(
             platform_->data_dir(), fs::directory_options::skip_permission_denied)) {
      if (entry.is_directory() && entry.path().filename() == "cache" &&
          fs::exists(entry.path() / "cache.binpb")) {
        for (const auto& content : fs::directory_iterator(entry.path() / collection)) {
          found += content.is_directory() ? 1 : 0;
        }
      }
    }
    return found;
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(NodeCachePlatformTest, AJobReadsItsDatasetFromTheNodesCache) {
  const std::string bucket = platform_->data_dir() + "/buckets/shared";
  mkdir((platform_->data_dir() + "/buckets").c_str(), 0700);
  mkdir(bucket.c_str(), 0700);
  std::ofstream(bucket + "/one") << std::string(3 << 20, 'o');
  platform_->MustCapstan({"dataset", "create", "shared", "--source", bucket});
  const CommandResult result = platform_->SubmitText(
      "reader",
      "job_id: reader\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
      "      argv: [/bin/sh, -c, \"test $(cat $CAPSTAN_DATASET_SHARED/one | wc -c) = 3145728 && "
      "! touch $CAPSTAN_DATASET_SHARED/new\"]\n      resources: {cpu: 10m, memory: 32Mi}\n"
      "  datasets: [{dataset: shared}]\n");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  platform_->MustSucceed("reader");
  EXPECT_EQ(InCache("versions"), 1);
}

TEST_F(NodeCachePlatformTest, AKilledRankRestartsFromTheCheckpointThatWasSent) {
  platform_->Submit({.id = "killed", .ranks = 2, .steps = 60, .checkpoint_every = 10});
  ASSERT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("commit", 1) > 0; }));
  const auto victim = platform_->FindTask("killed", 1, 1);
  ASSERT_TRUE(victim.has_value());
  dev::SignalProcess(victim->program, SIGKILL);
  EXPECT_EQ(platform_->MustSucceed("killed").generation(), 2);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_GT(log.lives().at({2, 0}).first_step, 1);
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");
  EXPECT_EQ(InCache("bundles"), 1);
  EXPECT_GT(InCache("outputs"), 0);
}

}  // namespace
}  // namespace capstan::integration
