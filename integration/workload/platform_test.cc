// The official SPIFFE client as a Job on a whole platform: it finds the Workload API by itself,
// sees its SVID renewed, and gets tokens.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

std::string JobOf(const TestPlatform& platform, const std::string& id, const std::string& argv) {
  return absl::StrCat("job_id: ", id, "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n",
                      "      argv: ", argv, "\n      resources: {cpu: 10m, memory: 256Mi}\n",
                      "  retry: {max_restarts: 0}\n  bundle: ", platform.folder(),
                      "/bundle\n  output: false\n");
}

// Standard output of the Job's one Task.
std::vector<std::string> LinesOf(TestPlatform& platform, const std::string& job) {
  std::vector<std::string> lines;
  for (const auto line :
       absl::StrSplit(platform.MustCapstan({"job", "logs", "--follow", job}), '\n')) {
    const size_t at = std::min({line.find("svid "), line.find("jwt "), line.find("valid "),
                                line.find("error "), line.find("refused ")});
    if (at != absl::string_view::npos) lines.emplace_back(line.substr(at));
  }
  return lines;
}

TEST(WorkloadPlatformTest, AJobWithTheOfficialClientSeesItsIdentityRenewed) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  TestPlatform platform("credentials: {task_svid_ttl: 30s, issuer: \"https://id.example\"}");
  const std::string program = platform.folder() + "/bundle/go_spiffe";
  std::filesystem::copy_file("tools/testenv/bin/go_spiffe", program);
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  platform.Up();
  for (const auto& [id, argv] : std::vector<std::pair<std::string, std::string>>{
           {"watch", "[./go_spiffe, watch, \"3\"]"}, {"tokens", "[./go_spiffe, jwt, aws]"}}) {
    const CommandResult result = platform.SubmitText(id, JobOf(platform, id, argv));
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  EXPECT_EQ(platform.MustSucceed("tokens").generation(), 1);
  const std::vector<std::string> tokens = LinesOf(platform, "tokens");
  ASSERT_THAT(tokens, SizeIs(5));
  EXPECT_THAT(tokens[1],
              MatchesRegex("valid spiffe://.*/project/default/sa/.*/job/.*/gen/1/task/w-0.*"));
  EXPECT_THAT(tokens[3], Not(HasSubstr("/job/")));
  // Three certificates of 30 s: two renewals, in one stream.
  EXPECT_EQ(platform.MustSucceed("watch").generation(), 1);
  const std::vector<std::string> svids = LinesOf(platform, "watch");
  ASSERT_THAT(svids, SizeIs(3));
  EXPECT_NE(svids[0], svids[1]);
  EXPECT_NE(svids[1], svids[2]);
  for (const std::string& line : svids) EXPECT_THAT(line, MatchesRegex("svid spiffe://.*"));
}

}  // namespace
}  // namespace capstan::integration
