#include "tools/capstan/cli/changes_file.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] = R"(alternatives:
  - name: more
    add:
      - {count: 10, like: node-0}
      - count: 2
        cluster: east
        allocatable: {cpu: 4, memory: 8Gi}
    jobs: [train.yaml, /jobs/large.yaml]
  - name: without-rack
    remove: [node-1, east/n]
    cordon: [node-2]
    uncordon: [clusters/west/nodes/m]
)";

constexpr char kJob[] = R"(spec:
  queue: research
  task_groups:
    - name: w
      replicas: 1
      argv: [/bin/true]
      resources: {cpu: 1, memory: 64Mi}
)";

absl::StatusOr<Changes> Parse(absl::string_view text, const std::string& job = kJob) {
  return ParseChangesFile(text, "plans/changes.yaml", "vision",
                          [&job](const std::string& file, const std::string& project) {
                            Random random(1);
                            return ParseSubmitFile(job, file, project, &random);
                          });
}

TEST(ChangesFileTest, MakesShortNamesWholeAndReadsJobsBesideIt) {
  const auto changes = Parse(kFile);
  ASSERT_TRUE(changes.ok()) << changes.status();
  const auto& request = changes->request;
  EXPECT_EQ(request.parent(), "projects/vision");
  EXPECT_FALSE(request.allow_leader());
  ASSERT_EQ(request.alternatives_size(), 2);
  const auto& more = request.alternatives(0);
  ASSERT_EQ(more.node_changes_size(), 2);
  EXPECT_EQ(more.node_changes(0).add().count(), 10);
  EXPECT_EQ(more.node_changes(0).add().like(), "clusters/local/nodes/node-0");
  EXPECT_EQ(more.node_changes(1).add().cluster(), "clusters/east");
  EXPECT_EQ(more.node_changes(1).add().allocatable().cpu_millis(), 4000);
  EXPECT_EQ(more.node_changes(1).add().allocatable().memory_bytes(), int64_t{8} << 30);
  ASSERT_EQ(more.jobs_size(), 2);
  EXPECT_EQ(more.jobs(0).queue(), "queues/research");
  EXPECT_EQ(changes->alternatives[0].name, "more");
  EXPECT_EQ(changes->alternatives[0].jobs[0].file, "plans/train.yaml");
  EXPECT_EQ(changes->alternatives[0].jobs[1].file, "/jobs/large.yaml");
  const auto& without = request.alternatives(1);
  ASSERT_EQ(without.node_changes_size(), 4);
  EXPECT_EQ(without.node_changes(0).remove(), "clusters/local/nodes/node-1");
  EXPECT_EQ(without.node_changes(1).remove(), "clusters/east/nodes/n");
  EXPECT_EQ(without.node_changes(2).cordon(), "clusters/local/nodes/node-2");
  EXPECT_EQ(without.node_changes(3).uncordon(), "clusters/west/nodes/m");
  EXPECT_EQ(without.jobs_size(), 0);
}

TEST(ChangesFileTest, TheProjectOfTheFileIsThatOfItsJobs) {
  const auto changes = Parse(absl::StrCat("project: speech\n", kFile));
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(changes->request.parent(), "projects/speech");
  const auto other = Parse(kFile, absl::StrCat("project: speech\n", kJob));
  EXPECT_EQ(other.status().message(),
            "plans/changes.yaml:8:12: alternatives[0].jobs[0]: is of projects/speech, and the "
            "others of projects/vision; expected Jobs of one Project");
}

TEST(ChangesFileTest, SaysWhatIsWrongWhere) {
  EXPECT_THAT(std::string(Parse("alternatives:\n  - name: a b\n").status().message()),
              HasSubstr("plans/changes.yaml:2:11: alternatives[0].name: 'a b' is not an id"));
  EXPECT_THAT(std::string(Parse("alternatives:\n  - cordon: [n]\n").status().message()),
              HasSubstr("alternatives[0].name: '' is not an id"));
  EXPECT_THAT(
      std::string(Parse("alternatives:\n  - name: a\n  - name: a\n").status().message()),
      HasSubstr("plans/changes.yaml:3:11: alternatives[1].name: 'a' is the name of another"));
  EXPECT_THAT(std::string(Parse("alternatives:\n  - {name: a, remov: [n]}\n").status().message()),
              HasSubstr("remove"));
  EXPECT_THAT(std::string(Parse("project: A\nalternatives: []\n").status().message()),
              HasSubstr("plans/changes.yaml:1:10: project: 'A' is not an id"));
  EXPECT_THAT(std::string(Parse(kFile, "spec: {queu: x}\n").status().message()),
              HasSubstr("plans/train.yaml:1:"));
  // How many there may be the platform says.
  EXPECT_TRUE(Parse("alternatives: []\n").ok());
}

TEST(ChangesFileTest, PlacesWhatThePlatformRefuses) {
  const auto changes = Parse(kFile);
  ASSERT_TRUE(changes.ok());
  const auto located = [&](const char* field) {
    status::FieldErrors errors;
    errors.Add(field, "is wrong");
    const absl::Status status = LocateChanges(errors.ToStatus(), *changes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(located("alternatives[0].node_changes[0].add.count"),
            "plans/changes.yaml:4:17: alternatives[0].add[0].count: is wrong");
  EXPECT_EQ(located("alternatives[0].node_changes[1].add.allocatable.cpu_millis"),
            "plans/changes.yaml:7:28: alternatives[0].add[1].allocatable.cpu_millis: is wrong");
  EXPECT_EQ(located("alternatives[1].node_changes[1].remove"),
            "plans/changes.yaml:10:22: alternatives[1].remove[1]: is wrong");
  EXPECT_EQ(located("alternatives[1].node_changes[3].uncordon"),
            "plans/changes.yaml:12:16: alternatives[1].uncordon[0]: is wrong");
  EXPECT_EQ(located("alternatives[0].jobs[1].task_groups[0].replicas"),
            "/jobs/large.yaml:5:17: spec.task_groups[0].replicas: is wrong");
  EXPECT_EQ(located("alternatives[1].jobs"), "plans/changes.yaml:9:5: alternatives[1]: is wrong");
  EXPECT_EQ(located("alternatives"), "plans/changes.yaml:2:3: alternatives: is wrong");
  EXPECT_THAT(located("parent"), HasSubstr("project: is wrong"));
  // Nothing that a server says leads out of the file.
  for (const char* odd :
       {"alternatives[7].jobs", "alternatives[", "alternatives[x].y", "alternatives[0].jobs[9].x",
        "alternatives[0].node_changes[99999999999999999999].x", "", "else"}) {
    EXPECT_THAT(located(odd), HasSubstr("is wrong")) << odd;
  }
  const absl::Status other = absl::UnavailableError("no");
  EXPECT_EQ(LocateChanges(other, *changes), other);
}

}  // namespace
}  // namespace capstan::cli
