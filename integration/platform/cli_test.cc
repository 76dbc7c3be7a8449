// The command line as people have it: every example of every command's help works in a terminal on
// a running platform, and bash, zsh and fish complete its words, names of the platform's resources
// included.
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/command.h"
#include "integration/platform/terminal.h"
#include "integration/platform/test_platform.h"
#include "libs/time/system_clock.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

constexpr char kTrain[] =
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/sh, -c, 'echo step 1; echo step 2']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n"
    "  output: true\n";

// Goes on until the platform does.
constexpr char kServe[] =
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/sleep, '3600']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

constexpr char kChanges[] =
    "alternatives:\n"
    "  - {name: as-it-is, jobs: [train.yaml]}\n"
    "  - {name: ten-more, add: [{count: 10, like: node-0}]}\n";

// These start, stop or replace a platform, which is lifecycle_test's and backup_test's; what they
// print is tested there.
const std::set<std::string>& OfAPlatformsLife() {
  static const auto* const commands =
      new std::set<std::string>{"dev up", "dev down", "dev demo", "admin restore"};
  return *commands;
}

// What a command's help says about it.
struct Help {
  std::vector<std::string> commands;
  // Lines to be typed.
  std::vector<std::string> examples;
};

Help ReadHelp(const std::string& text) {
  Help help;
  std::string section;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && line[0] != ' ') {
      section = std::string(line);
    } else if (absl::StartsWith(line, "  ") && !absl::StartsWith(line, "   ")) {
      const std::string rest(absl::StripPrefix(line, "  "));
      if (section == "Subcommands:")
        help.commands.push_back(rest.substr(0, rest.find_first_of(" ,")));
      if (section == "Examples:") help.examples.push_back(rest);
    }
  }
  return help;
}

class CliTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    platform_ = new TestPlatform();
    platform_->Up();
    const std::string& folder = platform_->folder();
    // Below the data folder is where Datasets may lie.
    const std::string bucket = platform_->data_dir() + "/buckets/scene";
    for (const std::string& path :
         {folder + "/bin", folder + "/code", platform_->data_dir() + "/buckets", bucket}) {
      mkdir(path.c_str(), 0755);
    }
    EXPECT_EQ(symlink(bucket.c_str(), (folder + "/bucket").c_str()), 0);
    // Where a user's platform lies by default.
    EXPECT_EQ(symlink(platform_->data_dir().c_str(), (folder + "/.capstan").c_str()), 0);
    std::ofstream(folder + "/bucket/digits.csv") << "1,2,3\n";
    std::ofstream(folder + "/code/train.py") << "print('trained')\n";
    std::ofstream(folder + "/train.yaml") << kTrain;
    std::ofstream(folder + "/serve.yaml") << kServe;
    std::ofstream(folder + "/changes.yaml") << kChanges;
    // A name to type, as people have it in their PATH.
    EXPECT_EQ(
        symlink(platform_->CommandLine({}).front().c_str(), (folder + "/bin/capstan").c_str()), 0);
    platform_->MustCapstan({"dataset", "create", "scene", "--source", folder + "/bucket"});
    platform_->MustCapstan({"load", "start", "scene", "--watch"});
    platform_->MustCapstan({"job", "submit", folder + "/train.yaml", "--job-id", "digits"});
    platform_->MustSucceed("digits");
    platform_->MustCapstan({"job", "submit", folder + "/serve.yaml", "--job-id", "serve"});
    EXPECT_TRUE(platform_->Await(
        [] { return platform_->Get("serve").state() == scheduler::v1::Job::STATE_RUNNING; }));
  }
  static void TearDownTestSuite() {
    delete platform_;
    platform_ = nullptr;
  }
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
  }

  static std::vector<std::string> Environment() {
    return {absl::StrCat("PATH=", platform_->folder(), "/bin:/usr/bin:/bin"),
            absl::StrCat("HOME=", platform_->folder()),
            absl::StrCat("CAPSTAN_DATA_DIR=", platform_->data_dir()), "LANG=C.UTF-8", "TERM=xterm"};
  }

  // A file with lines of bash for the scene's folder.
  static std::string Script(const std::string& lines) {
    const std::string file = platform_->folder() + "/script";
    std::ofstream(file) << "set -eu\ncd " << platform_->folder() << "\n" << lines << "\n";
    return file;
  }

  // Runs lines of bash in the scene's folder without a terminal, bounded to two minutes.
  static CommandResult Bash(const std::string& script) {
    return RunCommand({"/usr/bin/timeout", "120", "/bin/bash", Script(script)}, Environment(),
                      platform_->folder());
  }

  // Runs lines of bash in the scene's folder as a person would, in a terminal, bounded to two
  // minutes; `out` is all that was shown.
  static CommandResult InTerminal(const std::string& script) {
    CommandResult result;
    const auto terminal = Terminal::Start({"/bin/bash", Script(script)}, Environment());
    if (terminal == nullptr) return result;
    result.exit_code = terminal->Finish(absl::Minutes(2));
    result.out = terminal->shown();
    return result;
  }

  // Every command below `words`, its help and its examples.
  void Walk(const std::vector<std::string>& words) {
    ASSERT_LT(words.size(), 4) << "the walk goes in circles";
    std::vector<std::string> line = words;
    line.push_back("--help");
    const std::string name = absl::StrJoin(words, " ");
    const Help help = ReadHelp(platform_->MustCapstan(line));
    for (const std::string& command : help.commands) {
      std::vector<std::string> below = words;
      below.push_back(command);
      Walk(below);
    }
    if (!help.commands.empty() || (!words.empty() && words.front() == "serve")) return;
    EXPECT_THAT(help.examples, ::testing::Contains(HasSubstr(absl::StrCat("capstan ", name))))
        << "`capstan " << name << " --help` has no example";
    if (OfAPlatformsLife().count(name) > 0) return;
    std::string settings;
    for (const std::string& example : help.examples) RunExample(example, &settings);
  }

  // What must have happened before an example makes sense, in bash.
  static std::string Preparation(const std::string& example) {
    const std::string exported =
        "capstan audit heads --export heads.bin\ncapstan access trust-bundle >roots.pem\n";
    const std::vector<std::pair<std::string, std::string>> preparations = {
        {"capstan dataset where digits", "capstan load start digits --watch"},
        // A part's first head is signed within a minute.
        {"capstan audit verify --file",
         absl::StrCat("until capstan audit heads | grep -q ^scheduler; do sleep 1; done\n",
                      exported, "cp ~/.capstan/scheduler/audit.chain .\n")},
        {"capstan audit verify --heads", exported},
        {"capstan node order create more-h100", "capstan job submit serve.yaml --job-id train"},
        {"capstan access allow /node/local/node-0",
         "capstan access deny /node/local/node-0 --reason test"},
    };
    for (const auto& [start, script] : preparations) {
      if (absl::StartsWith(example, start)) return script;
    }
    return "";
  }

  void RunExample(const std::string& example, std::string* settings) {
    ++examples_;
    const std::string preparation = Preparation(example);
    if (!preparation.empty()) {
      const CommandResult prepared = Bash(preparation);
      EXPECT_EQ(prepared.exit_code, 0) << "before " << example << "\n"
                                       << prepared.out << prepared.err;
    }
    // The watch of a list goes on until it is interrupted, and so do a forwarded port and a reader.
    const bool endless =
        ((absl::StrContains(example, " list ") || absl::StrContains(example, " demand ")) &&
         absl::EndsWith(example, "--watch")) ||
        absl::StrContains(example, " port-forward ") ||
        absl::StrContains(example, " subscription read to-disk ");
    const CommandResult result =
        InTerminal(absl::StrCat(*settings, endless ? "timeout --foreground 2 " : "", example));
    EXPECT_EQ(result.exit_code, endless ? 124 : 0) << example << "\n" << result.out;
    // A variable that a later line uses.
    const size_t equals = example.find('=');
    if (equals != std::string::npos &&
        example.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == equals) {
      absl::StrAppend(settings, example, "\n");
    }
  }

  static TestPlatform* platform_;
  int examples_ = 0;
};

TestPlatform* CliTest::platform_ = nullptr;

TEST_F(CliTest, EveryExampleOfEveryHelpWorks) {
  Walk({});
  EXPECT_GE(examples_, 60) << "the walk has lost its way";
}

struct Shell {
  std::vector<std::string> argv;
  std::string setup;
};

TEST_F(CliTest, ShellsCompleteCommandsOptionsValuesAndNames) {
  const std::map<std::string, Shell> shells = {
      {"bash",
       {{"/bin/bash", "--norc", "--noprofile", "-i"}, "source <(capstan completion bash)\n"}},
      {"zsh",
       {{"/usr/bin/zsh", "-f", "-i"},
        "autoload -Uz compinit; compinit -u -D; source <(capstan completion zsh)\n"}},
      {"fish", {{"/usr/bin/fish", "--no-config", "-i"}, "capstan completion fish | source\n"}},
  };
  for (const auto& [name, shell] : shells) {
    SCOPED_TRACE(name);
    ASSERT_EQ(access(shell.argv.front().c_str(), X_OK), 0)
        << name << " is not there; ./dev setup installs it";
    const auto terminal = Terminal::Start(shell.argv, Environment());
    ASSERT_NE(terminal, nullptr);
    terminal->Type(shell.setup);
    // What is typed is not what is shown.
    terminal->Type("echo set-''up\n");
    ASSERT_TRUE(terminal->AwaitText("set-up", absl::Seconds(30))) << terminal->shown();
    // Only the completed line is a command that shows the Job's uid.
    terminal->Type("capstan jo\tge\tdig\t-o jsonpath='<{.uid}>'\n");
    const std::string uid =
        platform_->MustCapstan({"job", "get", "digits", "-o", "jsonpath=<{.uid}>"});
    EXPECT_TRUE(terminal->AwaitText(uid, absl::Seconds(30))) << terminal->shown();
    terminal->Type("capstan job list --que\t def\t --stat\t succ\t -o na\t; echo end-''1\n");
    EXPECT_TRUE(terminal->AwaitText("end-1", absl::Seconds(30))) << terminal->shown();
    EXPECT_THAT(terminal->shown(), HasSubstr("projects/default/jobs/digits"));
    // A file, where one is wanted.
    terminal->Type(absl::StrCat("cd ", platform_->folder(), "\n"));
    terminal->Type("capstan job submit trai\t--dry-run\n");
    EXPECT_TRUE(terminal->AwaitText("train.yaml is good", absl::Seconds(30))) << terminal->shown();
    terminal->Type("capstan job submit train.yaml --job-id next --after dig\t--dry-run -o name\n");
    EXPECT_TRUE(terminal->AwaitText("projects/default/jobs/next", absl::Seconds(30)))
        << terminal->shown();
    // What fits is listed with what it means.
    terminal->Type("capstan access \t\t");
    EXPECT_TRUE(terminal->AwaitText("Say whether you may do", absl::Seconds(30)))
        << terminal->shown();
  }
}

TEST_F(CliTest, AServerThatHangsIsNotWaitedFor) {
  const auto complete = [] {
    return platform_->MustCapstan({"job", "list"}).empty()
               ? std::string()
               : Bash("capstan __complete -- job get '' 2>/dev/null").out;
  };
  EXPECT_THAT(complete(), HasSubstr("digits\tSUCCEEDED"));
  platform_->Signal("scheduler", SIGSTOP);
  const SystemClock clock;
  const BootTime begin = clock.Read().boot;
  const CommandResult hung = Bash("capstan __complete -- job get '' 2>/dev/null");
  const absl::Duration took = clock.Read().boot - begin;
  platform_->Signal("scheduler", SIGCONT);
  EXPECT_EQ(hung.exit_code, 0);
  EXPECT_EQ(hung.out, ":none\n");
  // Two seconds, and a busy machine.
  EXPECT_LT(took, absl::Seconds(10));
  EXPECT_TRUE(platform_->AwaitReady());
}

}  // namespace
}  // namespace capstan::integration
