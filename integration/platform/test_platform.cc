#include "integration/platform/test_platform.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "libs/safe_path/folder_names.h"
#include "libs/time/system_clock.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::integration {
namespace {

constexpr char kWitness[] = "integration/platform/witness";
constexpr int kTickMs = 100;
constexpr size_t kShownOfALog = 4000;

std::string ReadFileOrEmpty(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // Unlike iterators, this does not throw where a process ends while it is read.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string Absolute(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  const std::string absolute = resolved == nullptr ? path : resolved;
  free(resolved);
  return absolute;
}

void RunTool(std::vector<std::string> argv) {
  dev::SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.output_file = "/dev/null";
  const auto child = dev::Child::Spawn(spawn);
  if (child.ok()) waitpid(child->id().pid, nullptr, 0);
}

BootTime BootNow() { return SystemClock().Read().boot; }

std::vector<pid_t> AllPids() {
  std::vector<pid_t> pids;
  for (const std::string& name : FolderNames("/proc")) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(name, &pid)) pids.push_back(pid);
  }
  return pids;
}

// A field of /proc/<pid>/stat after the name, counted from 3 as proc(5) does; -1 if it is gone.
int64_t StatField(pid_t pid, size_t field) {
  const std::string stat = ReadFileOrEmpty(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  int64_t value = -1;
  if (fields.size() <= field - 3 || !absl::SimpleAtoi(fields[field - 3], &value)) return -1;
  return value;
}

}  // namespace

absl::optional<std::string> TestPlatform::Unable() {
  if (geteuid() != 0) return "needs root: Tasks run under uids of their own";
  return absl::nullopt;
}

TestPlatform::TestPlatform(absl::string_view config, absl::string_view program)
    : program_(Absolute(std::string(program))) {
  // Not below TEST_TMPDIR: the paths of sockets are short, and Tasks must be able to pass.
  char folder[] = "/tmp/capstan-platform-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    ADD_FAILURE() << "no folder under /tmp";
    return;
  }
  folder_ = folder;
  data_dir_ = folder_ + "/data";
  chmod(folder, 0711);
  for (const char* name : {"/witness", "/bundle"}) mkdir((folder_ + name).c_str(), 0755);
  chmod((folder_ + "/witness").c_str(), 0777);
  const std::string witness = folder_ + "/witness/log";
  std::ofstream(witness).flush();
  chmod(witness.c_str(), 0666);
  std::ofstream(folder_ + "/bundle/witness", std::ios::binary)
      << ReadFileOrEmpty(Absolute(kWitness));
  chmod((folder_ + "/bundle/witness").c_str(), 0755);
  config_file_ = folder_ + "/config.yaml";
  std::string text(config);
  if (!absl::StrContains(text, "node_agent:")) {
    absl::StrAppend(&text, "\nnode_agent:\n  reserved: {cpu: 0, memory: 0}\n");
  }
  absl::StrAppend(&text, "  shared_paths: [", folder_, "/witness]\n");
  std::ofstream(config_file_) << text;
  watch_ = UniqueFd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  inotify_add_watch(watch_.get(), witness.c_str(), IN_MODIFY);
}

TestPlatform::~TestPlatform() {
  if (folder_.empty()) return;
  if (Part("supervisor").has_value()) {
    for (const dev::PartSpec& part : dev::PossibleParts()) Signal(part.name, SIGCONT);
    Down();
  }
  EXPECT_EQ(absl::StrJoin(Leftovers(), "\n"), "") << "left behind";
  if (::testing::Test::HasFailure()) {
    for (const std::string& name : FolderNames(data_dir_ + "/log")) {
      const std::string log = ReadFileOrEmpty(absl::StrCat(data_dir_, "/log/", name));
      ADD_FAILURE() << name << " ends with\n"
                    << (log.size() > kShownOfALog ? log.substr(log.size() - kShownOfALog) : log);
    }
  }
  RunTool({"/bin/rm", "-rf", folder_});
}

void TestPlatform::Use(absl::string_view program) { program_ = Absolute(std::string(program)); }

std::string TestPlatform::CopyOfExample() const {
  std::string copy = folder_ + "/digits";
  RunTool({"/bin/cp", "-rL", Absolute("examples/digits"), copy});
  return copy;
}

std::vector<std::string> TestPlatform::CommandLine(
    const std::vector<std::string>& arguments) const {
  std::vector<std::string> line = {program_, "--data-dir", data_dir_};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

CommandResult TestPlatform::Capstan(const std::vector<std::string>& arguments) {
  return RunCommand(CommandLine(arguments),
                    {"PATH=/usr/bin:/bin", "HOME=" + folder_, "LANG=C.UTF-8"}, folder_);
}

std::string TestPlatform::MustCapstan(const std::vector<std::string>& arguments) {
  const std::string line = absl::StrJoin(arguments, " ");
  CommandResult result = Capstan(arguments);
  EXPECT_EQ(result.exit_code, 0) << "capstan " << line << "\n" << result.out << result.err;
  return std::move(result.out);
}

void TestPlatform::Up(const std::vector<std::string>& arguments) {
  std::vector<std::string> line = {"dev", "up", "--detach", "--config", config_file_};
  line.insert(line.end(), arguments.begin(), arguments.end());
  MustCapstan(line);
}

void TestPlatform::Down(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"dev", "down"});
  MustCapstan(arguments);
  for (const dev::PartSpec& part : dev::PossibleParts()) {
    EXPECT_FALSE(Part(part.name).has_value()) << part.name << " still runs";
  }
}

CommandResult TestPlatform::SubmitText(absl::string_view name, const std::string& yaml) {
  const std::string file = absl::StrCat(folder_, "/", name, ".yaml");
  std::ofstream(file) << yaml;
  return Capstan({"job", "submit", file});
}

void TestPlatform::Submit(const WitnessJob& job) {
  std::string yaml = absl::StrCat(
      "job_id: ", job.id, "\nspec:\n  task_groups:\n    - name: w\n      replicas: ", job.ranks,
      "\n      argv: [./witness]\n      env:\n        WITNESS_FILE: ", folder_,
      "/witness/log\n        WITNESS_STEPS: \"", job.steps, "\"\n        WITNESS_STEP_MS: \"",
      absl::ToInt64Milliseconds(job.step), "\"\n        WITNESS_CHECKPOINT_EVERY: \"",
      job.checkpoint_every, "\"\n", job.orphan ? "        WITNESS_ORPHAN: \"1\"\n" : "",
      "      resources: {cpu: 10m, memory: ", job.memory,
      job.slots > 0 ? absl::StrCat(", accelerators: {slot: ", job.slots, "}") : "",
      "}\n  retry: {max_restarts: 3, initial_back_off: 0.1s}\n  stop_grace: 1s\n  bundle: ",
      folder_, "/bundle\n  output: ", job.checkpoint_every > 0 ? "true" : "false", "\n");
  if (!job.clusters.empty()) {
    absl::StrAppend(&yaml, "  clusters: [", absl::StrJoin(job.clusters, ", "), "]\n");
  }
  if (job.fence_after > absl::ZeroDuration()) {
    absl::StrAppend(&yaml, "  fence_after: ", absl::FormatDuration(job.fence_after), "\n");
  }
  const CommandResult result = SubmitText(job.id, yaml);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err << yaml;
}

scheduler::v1::Job TestPlatform::Get(const std::string& job) {
  scheduler::v1::Job found;
  const CommandResult result = Capstan({"job", "get", job, "-o", "json"});
  const bool read = google::protobuf::util::JsonStringToMessage(result.out, &found).ok();
  EXPECT_TRUE(result.exit_code == 0 && read) << result.out << result.err;
  return found;
}

scheduler::v1::Job TestPlatform::MustSucceed(const std::string& job) {
  const CommandResult watched = Capstan({"job", "watch", job});
  scheduler::v1::Job ended = Get(job);
  EXPECT_EQ(ended.state(), scheduler::v1::Job::STATE_SUCCEEDED)
      << watched.out << watched.err << ended.DebugString();
  return ended;
}

bool TestPlatform::Await(const std::function<bool()>& condition, absl::Duration time_out) {
  const BootTime deadline = BootNow() + time_out;
  char events[4096];
  while (!condition()) {
    if (BootNow() >= deadline) return false;
    pollfd waiting{watch_.get(), POLLIN, 0};
    poll(&waiting, 1, kTickMs);
    while (read(watch_.get(), events, sizeof events) > 0) {
    }
  }
  return true;
}

WitnessLog TestPlatform::Witnesses() const {
  auto log = WitnessLog::Parse(ReadFileOrEmpty(folder_ + "/witness/log"));
  EXPECT_TRUE(log.ok()) << log.status();
  return log.ok() ? *std::move(log) : WitnessLog();
}

void TestPlatform::ForgetWitnesses() {
  EXPECT_EQ(truncate((folder_ + "/witness/log").c_str(), 0), 0);
}

bool TestPlatform::AwaitJob(const std::string& job, const std::string& expected) {
  return Await([&] {
    return absl::StartsWith(
        MustCapstan({"job", "get", job, "-o", "jsonpath={.state} {.reason} {.generation}"}),
        expected);
  });
}

bool TestPlatform::AwaitReady(absl::Duration time_out) {
  return Await([&] { return Capstan({"dev", "status"}).exit_code == 0; }, time_out);
}

absl::optional<dev::ProcessId> TestPlatform::Part(absl::string_view part) const {
  return dev::ReadPidFile(dev::PidFile(data_dir_, part));
}

void TestPlatform::Signal(absl::string_view part, int signal) {
  const auto process = Part(part);
  if (process.has_value()) dev::SignalProcess(*process, signal);
}

void TestPlatform::KillAndAwait(absl::string_view part) {
  const auto before = Part(part);
  ASSERT_TRUE(before.has_value()) << part << " does not run";
  dev::SignalProcess(*before, SIGKILL);
  EXPECT_TRUE(Await([&] {
    const auto now = Part(part);
    return now.has_value() && now->pid != before->pid;
  })) << part
      << " was not started again";
}

absl::optional<TaskProcesses> TestPlatform::FindTask(const std::string& job, int64_t generation,
                                                     int rank) const {
  const std::string name = absl::StrCat("CAPSTAN_JOB=projects/default/jobs/", job);
  const std::string number = absl::StrCat("CAPSTAN_GENERATION=", generation);
  const std::string position = absl::StrCat("RANK=", rank);
  for (const pid_t pid : AllPids()) {
    const std::vector<std::string> environment =
        absl::StrSplit(ReadFileOrEmpty(absl::StrCat("/proc/", pid, "/environ")), '\0');
    int found = 0;
    bool here = false;
    for (const std::string& variable : environment) {
      found += variable == name || variable == number || variable == position ? 1 : 0;
      here |= variable == absl::StrCat("WITNESS_FILE=", folder_, "/witness/log");
    }
    // The program leads its session; what it has left behind does not.
    if (found != 3 || !here || StatField(pid, 6) != pid) continue;
    const auto program = dev::FindProcess(pid);
    const pid_t init_pid = static_cast<pid_t>(StatField(pid, 4));
    const auto init = dev::FindProcess(init_pid);
    const auto shim = dev::FindProcess(static_cast<pid_t>(StatField(init_pid, 4)));
    if (program.has_value() && init.has_value() && shim.has_value()) {
      return TaskProcesses{*program, *init, *shim};
    }
  }
  return absl::nullopt;
}

std::vector<std::string> TestPlatform::Leftovers() const {
  std::vector<std::string> found;
  for (const pid_t pid : AllPids()) {
    if (pid == getpid()) continue;
    std::string line = ReadFileOrEmpty(absl::StrCat("/proc/", pid, "/cmdline"));
    std::replace(line.begin(), line.end(), '\0', ' ');
    const std::string environment = ReadFileOrEmpty(absl::StrCat("/proc/", pid, "/environ"));
    if (absl::StrContains(line, folder_) || absl::StrContains(environment, folder_ + "/witness")) {
      found.push_back(absl::StrCat("process ", pid, ": ", line));
    }
  }
  for (const absl::string_view line :
       absl::StrSplit(ReadFileOrEmpty("/proc/self/mountinfo"), '\n')) {
    if (absl::StrContains(line, folder_)) found.push_back(absl::StrCat("mount ", line));
  }
  const std::string group = dev::CgroupName(data_dir_);
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer",
                           "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"}) {
    struct stat info = {};
    const std::string path = absl::StrCat(root, "/", group);
    if (stat(path.c_str(), &info) == 0) found.push_back("cgroup " + path);
  }
  for (const absl::string_view line : absl::StrSplit(ReadFileOrEmpty("/proc/net/unix"), '\n')) {
    if (absl::StrContains(line, folder_)) found.push_back(absl::StrCat("socket ", line));
  }
  for (const std::string& name : FolderNames(dev::RunFolder(data_dir_))) {
    found.push_back("run file " + name);
  }
  for (const std::string& name : FolderNames(data_dir_ + "/node_agent/tasks")) {
    found.push_back("Task folder " + name);
  }
  return found;
}

}  // namespace capstan::integration
