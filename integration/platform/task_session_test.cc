// People inside running Tasks on a whole platform: commands with their streams, terminals and exit
// codes, ports, and how sessions end.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/terminal.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

// Rank 0 serves 10 MiB of noise at a port that it chooses, and says which; rank 1 waits.
constexpr char kServer[] =
    "import hashlib, http.server\n"
    "body = b''.join(hashlib.sha256(str(i).encode()).digest() for i in range(327680))\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200)\n"
    "        self.send_header('Content-Length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body)\n"
    "    def log_message(self, *args):\n"
    "        pass\n"
    "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)\n"
    "open('port', 'w').write(str(server.server_port))\n"
    "print('serving', flush=True)\n"
    "server.serve_forever()\n";

constexpr char kJob[] =
    "spec:\n"
    "  bundle: server\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 2\n"
    "      argv: [/bin/sh, -c, 'if [ $RANK = 0 ]; then exec python3 server.py; else exec sleep "
    "3600; fi']\n"
    "      env: {COLOUR: green, WITNESS_FILE: $FILE}\n"
    "      resources: {cpu: 10m, memory: 128Mi}\n";

class TaskSessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    platform_ = new TestPlatform();
    platform_->Up();
    const std::string& folder = platform_->folder();
    mkdir((folder + "/server").c_str(), 0755);
    std::ofstream(folder + "/server/server.py") << kServer;
    // By its file the platform's test finds a Task's processes.
    std::ofstream(folder + "/serve.yaml")
        << absl::StrReplaceAll(kJob, {{"$FILE", folder + "/witness/log"}});
    EXPECT_EQ(symlink(platform_->CommandLine({}).front().c_str(), (folder + "/capstan").c_str()),
              0);
    Submit("serve");
  }
  static void TearDownTestSuite() {
    delete platform_;
    platform_ = nullptr;
  }
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
  }

  static void Submit(const std::string& job) {
    platform_->MustCapstan({"job", "submit", platform_->folder() + "/serve.yaml", "--job-id", job});
    EXPECT_TRUE(platform_->Await(
        [&] { return platform_->Get(job).state() == scheduler::v1::Job::STATE_RUNNING; }));
  }
  static CommandResult Exec(std::vector<std::string> command) {
    command.insert(command.begin(), {"job", "exec", "serve", "--"});
    return platform_->Capstan(command);
  }
  static std::vector<std::string> Environment() {
    return {absl::StrCat("PATH=", platform_->folder(), ":/usr/bin:/bin"),
            absl::StrCat("CAPSTAN_DATA_DIR=", platform_->data_dir()), "LANG=C.UTF-8", "TERM=xterm"};
  }
  // Runs a line of sh, with `capstan` in its PATH; standard output and error together.
  static CommandResult Shell(const std::string& line) {
    dev::Child child = Spawn({"/bin/sh", "-c", line}, "shell.out");
    CommandResult result;
    int wait_status = 0;
    if (waitpid(child.id().pid, &wait_status, 0) < 0) return result;
    result.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128;
    result.out = Read("shell.out");
    return result;
  }
  static dev::Child Spawn(const std::vector<std::string>& argv, const std::string& output) {
    const std::string file = absl::StrCat(platform_->folder(), "/", output);
    unlink(file.c_str());
    dev::SpawnOptions spawn;
    spawn.argv = argv;
    spawn.environment = Environment();
    spawn.output_file = file;
    auto child = dev::Child::Spawn(spawn);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  static std::string Read(const std::string& name) {
    std::ifstream in(absl::StrCat(platform_->folder(), "/", name));
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  // Waits for the end; the exit code, 128 and more for a signal.
  static int Finish(dev::Child& child) {
    int code = -1;
    EXPECT_TRUE(platform_->Await([&] {
      const auto status = child.TryReap();
      if (!status.has_value()) return false;
      code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
      return true;
    }));
    return code;
  }
  // Whether some process of the machine has this as its command line.
  static bool Runs(const std::string& command_line) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      // Unlike iterators, this does not throw where the process ends while it is read.
      std::ostringstream read;
      read << file.rdbuf();
      std::string text = read.str();
      std::replace(text.begin(), text.end(), '\0', ' ');
      if (absl::StripSuffix(text, " ") == command_line) return true;
    }
    return false;
  }
  // The records of telemetry's chain, whose texts lie in it as they are.
  static std::string Audit() {
    std::ifstream in(platform_->data_dir() + "/telemetry/audit.chain", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }

  static TestPlatform* platform_;
};

TestPlatform* TaskSessionTest::platform_ = nullptr;

TEST_F(TaskSessionTest, StreamsAreApartAndTheExitCodeIsTheCommands) {
  // A Job is running a moment before its Node has told telemetry so.
  ASSERT_TRUE(platform_->Await([] { return Exec({"true"}).exit_code == 0; }));
  const CommandResult result = Exec({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(Exec({"true"}).exit_code, 0);
  EXPECT_EQ(Exec({"sh", "-c", "kill -9 $$"}).exit_code, 128 + SIGKILL);
  const CommandResult absent = Exec({"no-such-program"});
  EXPECT_EQ(absent.exit_code, 127);
  EXPECT_THAT(absent.err, HasSubstr("no-such-program: No such file or directory"));
  // Who did it and how it ended is on record, and no byte that went.
  EXPECT_TRUE(platform_->Await([] {
    const std::string audit = Audit();
    return absl::StrContains(audit, "command 'sh' '-c' 'echo out; echo err >&2; exit 7'") &&
           absl::StrContains(audit, "exit code 7, 0 bytes to the Task, 8 from it");
  }));
}

TEST_F(TaskSessionTest, StandardInputGoesIn) {
  EXPECT_EQ(Shell("echo hello | capstan job exec serve -i -- cat").out, "hello\n");
  const CommandResult digest = Shell(
      "cd $CAPSTAN_DATA_DIR/.. && head -c 3000000 /dev/urandom >noise && "
      "capstan job exec serve -i -- sha256sum <noise && sha256sum <noise");
  const std::vector<std::string> lines = absl::StrSplit(digest.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << digest.out;
  EXPECT_EQ(lines[0], lines[1]);
  // A command that does not read it ends all the same, and so does one that nobody reads.
  EXPECT_EQ(Shell("yes | capstan job exec serve -i -- echo done").out, "done\n");
  EXPECT_EQ(Shell("capstan job exec serve -- yes | head -n 1").out, "y\n");
}

TEST_F(TaskSessionTest, TheCommandIsWhereTheTaskIs) {
  absl::optional<TaskProcesses> task;
  ASSERT_TRUE(platform_->Await([&] {
    task = platform_->FindTask("serve", 1, 1);
    return task.has_value();
  }));
  struct stat about;
  ASSERT_EQ(stat(absl::StrCat("/proc/", task->program.pid).c_str(), &about), 0);
  const auto in_task = [&](const std::string& line) {
    return std::string(absl::StripSuffix(
        platform_->MustCapstan({"job", "exec", "serve", "--rank", "1", "--", "sh", "-c", line}),
        "\n"));
  };
  EXPECT_EQ(in_task("id -u"), absl::StrCat(about.st_uid));
  EXPECT_NE(about.st_uid, 0u);
  EXPECT_EQ(in_task("echo $RANK $COLOUR"), "1 green");
  for (const char* kind : {"pid", "mnt", "ipc"}) {
    EXPECT_EQ(in_task(absl::StrCat("readlink /proc/self/ns/", kind)),
              std::filesystem::read_symlink(absl::StrCat("/proc/", task->program.pid, "/ns/", kind))
                  .string())
        << kind;
  }
  EXPECT_EQ(
      in_task("pwd"),
      std::filesystem::read_symlink(absl::StrCat("/proc/", task->program.pid, "/cwd")).string());
  EXPECT_EQ(in_task("cat /proc/1/environ >/dev/null 2>&1 && echo open || echo shut"), "shut");
  EXPECT_THAT(in_task("grep CapEff /proc/self/status"), HasSubstr("0000000000000000"));
  EXPECT_THAT(in_task("grep NoNewPrivs /proc/self/status"), HasSubstr("1"));
}

TEST_F(TaskSessionTest, ATerminalHasASizeAndIsGivenBack) {
  const auto terminal =
      Terminal::Start({"/bin/bash", "--norc", "--noprofile", "-i"}, Environment());
  ASSERT_NE(terminal, nullptr);
  // All in one line: what is typed before the session ends is the session's.
  terminal->Type(
      "stty rows 40 cols 100; capstan job exec serve -it -- sh; echo code-$?; "
      "stty -a | grep -o ' icanon'; echo back-''again\n");
  terminal->Type("stty size; tty -s && echo is-''one\n");
  EXPECT_TRUE(terminal->AwaitText("40 100", absl::Seconds(60))) << terminal->shown();
  EXPECT_TRUE(terminal->AwaitText("is-one", absl::Seconds(30))) << terminal->shown();
  // Ctrl-C is the command's, not ours.
  terminal->Type("sleep 7005\n");
  // Typed ahead of it, Ctrl-C would throw the line away.
  ASSERT_TRUE(platform_->Await([] { return Runs("sleep 7005"); }));
  terminal->Type("\x03");
  ASSERT_TRUE(platform_->Await([] { return !Runs("sleep 7005"); }));
  terminal->Type("echo still-''here; exit 5\n");
  EXPECT_TRUE(terminal->AwaitText("still-here", absl::Seconds(30))) << terminal->shown();
  EXPECT_TRUE(terminal->AwaitText("back-again", absl::Seconds(30))) << terminal->shown();
  EXPECT_THAT(terminal->shown(), HasSubstr("code-5"));
  EXPECT_THAT(terminal->shown(), HasSubstr(" icanon"));
  // A window that changes, told from outside.
  terminal->Type("(sleep 2; stty rows 50 cols 120 </dev/tty) & capstan job exec serve -it -- sh\n");
  terminal->Type("until [ \"$(stty size)\" = '50 120' ]; do :; done; echo grown-''up; exit\n");
  EXPECT_TRUE(terminal->AwaitText("grown-up", absl::Seconds(60))) << terminal->shown();
  terminal->Type("exit\n");
  terminal->Finish(absl::Seconds(10));
}

TEST_F(TaskSessionTest, AJobThatDoesNotRunSaysSo) {
  const CommandResult none = platform_->Capstan({"job", "exec", "nosuch", "--", "true"});
  EXPECT_EQ(none.exit_code, 4);
  const CommandResult rank =
      platform_->Capstan({"job", "exec", "serve", "--rank", "9", "--", "true"});
  EXPECT_EQ(rank.exit_code, 6);
  EXPECT_THAT(rank.err, HasSubstr("rank 9 of serve does not run"));
  EXPECT_EQ(platform_->Capstan({"job", "exec", "serve"}).exit_code, 2);
  EXPECT_EQ(Shell("capstan job exec serve -t -- true </dev/null").exit_code, 3);
}

TEST_F(TaskSessionTest, TheCommandEndsWithTheTaskAndWithTheSession) {
  Submit("brief");
  dev::Child with_task = Spawn(
      platform_->CommandLine({"job", "exec", "brief", "--", "sleep", "7001"}), "with_task.out");
  // What leaves the session's group is ended too.
  dev::Child with_session = Spawn(platform_->CommandLine({"job", "exec", "serve", "--", "sh", "-c",
                                                          "setsid sleep 7003 & sleep 7002"}),
                                  "with_session.out");
  ASSERT_TRUE(platform_->Await(
      [] { return Runs("sleep 7001") && Runs("sleep 7002") && Runs("sleep 7003"); }));
  platform_->MustCapstan({"job", "cancel", "brief", "--wait"});
  EXPECT_NE(Finish(with_task), 0);
  EXPECT_FALSE(Runs("sleep 7001"));
  EXPECT_TRUE(Runs("sleep 7002"));
  kill(with_session.id().pid, SIGKILL);
  EXPECT_EQ(Finish(with_session), 128 + SIGKILL);
  EXPECT_TRUE(platform_->Await([] { return !Runs("sleep 7002") && !Runs("sleep 7003"); }));
}

TEST_F(TaskSessionTest, TheCommandEndsWithTheAgentAndTheTaskDoesNot) {
  absl::optional<TaskProcesses> before;
  ASSERT_TRUE(platform_->Await([&] {
    before = platform_->FindTask("serve", 1, 0);
    return before.has_value();
  }));
  dev::Child session =
      Spawn(platform_->CommandLine({"job", "exec", "serve", "--", "sleep", "7004"}), "agent.out");
  ASSERT_TRUE(platform_->Await([] { return Runs("sleep 7004"); }));
  platform_->KillAndAwait("node_agent");
  EXPECT_EQ(Finish(session), 5);
  EXPECT_THAT(Read("agent.out"), HasSubstr("the Task's Node has left the session"));
  EXPECT_TRUE(platform_->Await([] { return !Runs("sleep 7004"); }));
  const auto after = platform_->FindTask("serve", 1, 0);
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(before->program.pid, after->program.pid);
  // The next agent watches again.
  EXPECT_TRUE(platform_->Await([] { return Exec({"true"}).exit_code == 0; }));
}

TEST_F(TaskSessionTest, APortIsReachedAndWhatComesIsWhatWasSent) {
  std::string port;
  ASSERT_TRUE(platform_->Await([&] {
    port = Exec({"cat", "port"}).out;
    return !port.empty();
  }));
  dev::Child forward =
      Spawn(platform_->CommandLine({"job", "port-forward", "serve", absl::StrCat(":", port)}),
            "forward.out");
  std::string local;
  ASSERT_TRUE(platform_->Await([&] {
    const std::string shown = Read("forward.out");
    const size_t begin = shown.find(':');
    const size_t end = shown.find(' ');
    if (begin == std::string::npos || end == std::string::npos) return false;
    local = shown.substr(begin + 1, end - begin - 1);
    return true;
  })) << Read("forward.out");
  const CommandResult wanted = Shell(
      "python3 -c \"import hashlib; print(hashlib.sha256(b''.join(hashlib.sha256(str(i).encode())"
      ".digest() for i in range(327680))).hexdigest())\"");
  const std::string fetch = absl::StrCat("curl -sf http://127.0.0.1:", local, "/ | sha256sum");
  // One after the other, then four at once.
  EXPECT_EQ(Shell(fetch).out, absl::StrCat(absl::StripSuffix(wanted.out, "\n"), "  -\n"));
  const CommandResult four = Shell(absl::StrCat("for i in 1 2 3 4; do (", fetch, ") & done; wait"));
  const std::vector<std::string> lines = absl::StrSplit(four.out, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, ::testing::AllOf(::testing::SizeIs(4),
                                      ::testing::Each(::testing::StartsWith(
                                          std::string(absl::StripSuffix(wanted.out, "\n"))))));
  kill(forward.id().pid, SIGINT);
  EXPECT_EQ(Finish(forward), 0) << Read("forward.out");
  EXPECT_TRUE(platform_->Await([&] {
    const std::string audit = Audit();
    return absl::StrContains(audit, absl::StrCat("ports ", port)) &&
           absl::StrContains(audit, "5 connections, ");
  }));
}

}  // namespace
}  // namespace capstan::integration
