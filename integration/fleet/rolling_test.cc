// Every part of a platform is restarted, one after the other, while people use it and a gang runs.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/fleet/fleet.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

// One command that was run meanwhile.
struct Command {
  std::string name;
  int exit_code = 0;
  double seconds = 0;
};

// Runs the CLI over and over beside the test: writes, and reads of each service.
class Person {
 public:
  explicit Person(TestPlatform* platform)
      : platform_(platform),
        record_(platform->folder() + "/commands"),
        stop_(platform->folder() + "/enough") {
    // A command and what it prints on an error; its budget of retries is its --time-out.
    const std::string capstan = absl::StrJoin(platform->CommandLine({}), " ");
    const std::string script = platform->folder() + "/person.sh";
    std::ofstream(script) << "run() {\n  local begun=$EPOCHREALTIME name=\"$1\" code; shift\n  "
                          << capstan << " --time-out 30s \"$@\" >/dev/null; code=$?\n"
                          << "  echo \"$name $code $begun $EPOCHREALTIME\" >>" << record_ << "\n}\n"
                          << "for ((i = 0; ; ++i)); do\n  [[ -e " << stop_ << " ]] && exit 0\n"
                          << "  run queue-create queue create \"q-$i\"\n"
                          << "  run dataset-create dataset create \"d-$i\" --source "
                          << platform->data_dir() << "/buckets\n"
                          << "  run job-list job list\n  run dataset-list dataset list\n"
                          << "  run cluster-list cluster list\n"
                          << "  run can-i access can-i create jobs\ndone\n";
    dev::SpawnOptions spawn;
    spawn.argv = {"/bin/bash", script};
    spawn.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent"};
    spawn.output_file = platform->folder() + "/person.err";
    auto child = dev::Child::Spawn(spawn);
    EXPECT_TRUE(child.ok()) << child.status();
    if (child.ok()) child_.emplace(*std::move(child));
  }

  // Commands that have ended.
  int64_t Count() const {
    std::ifstream in(record_);
    return std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
  }
  // The last that was printed to standard error.
  std::string Errors() const {
    std::ifstream in(platform_->folder() + "/person.err");
    const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    return all.substr(all.size() < 2000 ? 0 : all.size() - 2000);
  }

  std::vector<Command> Finish() {
    std::ofstream stop(stop_);
    stop.close();
    if (child_.has_value()) waitpid(child_->id().pid, nullptr, 0);
    std::ifstream in(record_);
    std::vector<Command> commands;
    Command one;
    double begun = 0;
    double ended = 0;
    while (in >> one.name >> one.exit_code >> begun >> ended) {
      one.seconds = ended - begun;
      commands.push_back(one);
    }
    return commands;
  }

 private:
  TestPlatform* const platform_;
  const std::string record_;
  const std::string stop_;
  absl::optional<dev::Child> child_;
};

TEST(RollingTest, LosesNoCallThatABudgetOfRetriesCovers) {
  const auto unable = Fleet::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Fleet fleet(
      {.hosts = 2,
       .data_loaders = 2,
       .cluster_managers = 2,
       .config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n"});
  ASSERT_TRUE(fleet.Start());
  TestPlatform& platform = fleet.platform();
  platform.Submit({.id = "calm",
                   .ranks = 2,
                   .steps = 1'000'000,
                   .checkpoint_every = 100,
                   .fence_after = absl::Seconds(60),
                   .slots = 2});
  ASSERT_TRUE(platform.Await([&] { return platform.Witnesses().Count("commit", 1) > 0; }));

  mkdir((platform.data_dir() + "/buckets").c_str(), 0700);
  std::ofstream object(platform.data_dir() + "/buckets/object");
  object << "content";
  object.close();
  Person person(&platform);
  const auto endpoints = cli::ReadEndpoints(platform.data_dir());
  ASSERT_TRUE(endpoints.ok());
  for (const auto& [part, entry] : endpoints->parts()) {
    const int64_t before = person.Count();
    const auto former = platform.Part(part);
    ASSERT_TRUE(former.has_value()) << part;
    platform.Signal(part, SIGTERM);
    ASSERT_TRUE(platform.Await([&, part = part] {
      const auto now = platform.Part(part);
      return now.has_value() && now->pid != former->pid;
    })) << part;
    ASSERT_TRUE(platform.AwaitReady()) << part;
    // One of each kind at least.
    ASSERT_TRUE(platform.Await([&] { return person.Count() >= before + 6; })) << part;
  }
  const std::vector<Command> commands = person.Finish();

  std::set<std::string> kinds;
  double longest = 0;
  for (const Command& command : commands) {
    EXPECT_EQ(command.exit_code, 0) << command.name << ", " << person.Errors();
    kinds.insert(command.name);
    longest = std::max(longest, command.seconds);
  }
  EXPECT_EQ(kinds.size(), 6u);
  std::printf("restarted %zu parts under %zu commands: none failed, the longest took %.2f s\n",
              endpoints->parts().size(), commands.size(), longest);
  // Each create took effect once: a second one would have failed, and none is missing.
  const auto created = std::count_if(commands.begin(), commands.end(), [](const Command& command) {
    return command.name == "queue-create";
  });
  const std::string queues = platform.MustCapstan({"queue", "list", "-o", "name"});
  for (int i = 0; i < created; ++i) {
    EXPECT_NE(queues.find(absl::StrCat("q-", i, "\n")), std::string::npos) << i;
  }
  EXPECT_EQ(platform.Witnesses().last_generation(), 1) << "the gang did not notice";
  EXPECT_EQ(platform.Witnesses().Count("start", 1), 2);
  platform.MustCapstan({"job", "cancel", "calm"});
  EXPECT_EQ(absl::StrJoin(platform.Witnesses().Violations(), "\n"), "");
}

}  // namespace
}  // namespace capstan::integration
