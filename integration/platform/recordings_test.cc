// What a real scheduler decided is decided again by `capstan scheduler replay`, after it was killed
// and while it runs.
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/recording_text.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class RecordingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
  }

  void Submit(const std::string& id, int replicas) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  labels: {about: planted-label}\n"
                         "  task_groups:\n    - name: w\n      replicas: ",
                         replicas,
                         "\n      argv: [/bin/sh, -c, 'exit 0', planted-argument]\n"
                         "      env: {PASSWORD: planted-value}\n"
                         "      resources: {cpu: 10m, memory: 32Mi}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }

  // Paths.
  std::vector<std::string> Recordings() {
    std::vector<std::string> paths;
    const std::string out = platform_->MustCapstan({"scheduler", "recordings"});
    for (const absl::string_view line : absl::StrSplit(out, '\n')) {
      const size_t path = line.find('/');
      if (path != absl::string_view::npos) paths.emplace_back(line.substr(path));
    }
    return paths;
  }

  // What Jobs keep secret is in no recording, and the recording is of these Jobs.
  static void ExpectNoSecrets(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const auto text = RecordingText(
        std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
    ASSERT_TRUE(text.has_value()) << path;
    // Names of variables are there, and labels.
    EXPECT_THAT(*text, HasSubstr("PASSWORD"));
    EXPECT_THAT(*text, HasSubstr("planted-label"));
    EXPECT_THAT(*text, Not(HasSubstr("planted-argument")));
    EXPECT_THAT(*text, Not(HasSubstr("planted-value")));
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(RecordingsTest, EachTermOfAPlatformsSchedulerIsIdentical) {
  for (int j = 0; j < 3; ++j) Submit(absl::StrCat("a", j), 2);
  for (int j = 0; j < 3; ++j) platform_->MustSucceed(absl::StrCat("a", j));
  // A second later the last step is on disk.
  Submit("waits", 1);
  platform_->MustSucceed("waits");
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  Submit("b", 2);
  platform_->MustSucceed("b");
  std::vector<std::string> paths = Recordings();
  ASSERT_THAT(paths, SizeIs(2));
  EXPECT_EQ(platform_->MustCapstan({"scheduler", "recordings", "--newest"}),
            absl::StrCat(paths.back(), "\n"));
  for (const std::string& path : paths) {
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    CommandResult replay;
    // Of the term that goes on, what is younger than a second may not be on disk yet.
    EXPECT_TRUE(platform_->Await([&] {
      replay = platform_->Capstan({"scheduler", "replay", path, "--verbose"});
      return absl::StrContains(replay.out, ", round");
    })) << replay.out;
    EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
    EXPECT_THAT(replay.out, HasSubstr(": identical"));
    // The same program decided.
    EXPECT_THAT(replay.err, Not(HasSubstr("warning")));
    ExpectNoSecrets(path);
  }
  EXPECT_THAT(platform_->Capstan({"scheduler", "replay", paths[0], "--until", "2"}).out,
              HasSubstr("replayed 2 steps"));
  EXPECT_EQ(platform_->Capstan({"scheduler", "replay", "/no/such/file"}).exit_code, 3);
  // And after a stop that left time to say so.
  platform_->Down();
  const CommandResult last = platform_->Capstan({"scheduler", "replay", paths.back()});
  EXPECT_EQ(last.exit_code, 0) << last.out << last.err;
  EXPECT_THAT(last.err, HasSubstr("leadership was lost"));
  for (const std::string& path : paths) ExpectNoSecrets(path);
}

}  // namespace
}  // namespace capstan::integration
