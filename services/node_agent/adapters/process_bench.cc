#include "services/node_agent/adapters/process_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/shim/process_identity.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::TaskKey;

constexpr char kShim[] = "services/node_agent/shim/shim";
constexpr absl::Duration kPatience = absl::Seconds(30);
// Between two looks at a condition that has no event of its own.
constexpr absl::Duration kPoll = absl::Milliseconds(5);

}  // namespace

std::unique_ptr<ProcessBench> ProcessBench::Make(const std::string& mountinfo) {
  if (geteuid() != 0) return nullptr;
  return std::unique_ptr<ProcessBench>(new ProcessBench(mountinfo));
}

ProcessBench::ProcessBench(const std::string& mountinfo) {
  // Not below Bazel's folders, which are root's alone and would hide what a Task may reach; nor
  // below /tmp, which a Task has of its own.
  char pattern[] = "/var/lib/capstan-test-XXXXXX";
  if (mkdtemp(pattern) == nullptr) abort();
  data_folder_ = pattern;
  group_name_ = absl::StrCat("capstan-test-", data_folder_.substr(data_folder_.rfind('-') + 1));
  absl::StatusOr<cgroup::Tree> groups = cgroup::Tree::Open(group_name_, mountinfo);
  if (!groups.ok()) {
    ADD_FAILURE() << groups.status();
    abort();
  }
  groups_ = std::make_unique<cgroup::Tree>(*std::move(groups));
  strand_ = std::make_unique<ThreadStrand>("agent", &clock_);
  MakeRuntime();
}

ProcessBench::~ProcessBench() {
  runtime_.reset();
  strand_.reset();
  const absl::Status removed = groups_->RemoveTree();
  EXPECT_TRUE(removed.ok()) << removed;
  EXPECT_TRUE(EmptyTrash(data_folder_).ok());
  rmdir(data_folder_.c_str());
}

void ProcessBench::MakeRuntime() {
  ProcessTaskRuntime::Options options;
  options.data_folder = data_folder_;
  options.shim_command = {kShim};
  options.groups = *groups_;
  absl::StatusOr<std::unique_ptr<ProcessTaskRuntime>> runtime =
      ProcessTaskRuntime::Create(std::move(options), strand_.get());
  if (!runtime.ok()) {
    ADD_FAILURE() << runtime.status();
    abort();
  }
  runtime_ = *std::move(runtime);
}

void ProcessBench::RestartAgent() {
  runtime_.reset();
  MakeRuntime();
}

absl::Status ProcessBench::Start(ShimSpec spec, const capstan::type::v1::Resources& limits) {
  absl::Status started = absl::DeadlineExceededError("not answered");
  bool answered = false;
  const auto answer = [&](const absl::Status& status) {
    started = status;
    answered = true;
  };
  strand_->Post([&] {
    runtime_->MakePlace(spec.key(), limits, spec.unix_uid(), [&](absl::StatusOr<TaskPlace> place) {
      if (!place.ok()) return answer(place.status());
      *spec.mutable_cgroup() = place->cgroup;
      runtime_->Start(spec, answer);
    });
  });
  EXPECT_TRUE(RunUntil([&] { return answered; }));
  return started;
}

bool ProcessBench::RunUntil(std::function<bool()> condition) {
  struct Wait {
    std::function<bool()> condition;
    BootTime give_up;
    bool held = false;
    absl::Notification over;
  };
  Wait wait{std::move(condition), clock_.Read().boot + kPatience, false, {}};
  std::function<void()> look = [this, &wait, &look] {
    wait.held = wait.condition();
    if (wait.held || clock_.Read().boot >= wait.give_up) return wait.over.Notify();
    strand_->RunAfter(kPoll, [&look] { look(); });
  };
  strand_->Post([&look] { look(); });
  wait.over.WaitForNotification();
  return wait.held;
}

void ProcessBench::Complete(Program program, ShimSpec* spec) {
  switch (program) {
    case Program::kExitsWith3:
      return Script("exit 3", spec);
    case Program::kRunsUntilTerminated:
      return Script("trap 'exit 0' TERM; : > /capstan/output/listens; while :; do sleep 0.05; done",
                    spec);
    case Program::kIgnoresTermination:
      // With a grandchild in a session of its own, which must not outlive the Task.
      return Script(
          "trap '' TERM; : > /capstan/output/listens; setsid sleep 1000 & while :; do sleep 0.05; "
          "done",
          spec);
    case Program::kCannotBeExecuted:
      Script("", spec);
      spec->set_argv(0, "/nonexistent/program");
  }
}

void ProcessBench::Script(const std::string& script, ShimSpec* spec) {
  spec->clear_argv();
  for (const char* word : {"/bin/sh", "-c", script.c_str()}) spec->add_argv(word);
  spec->add_env("PATH=/usr/bin:/bin");
  spec->set_working_directory("/tmp");
  spec->set_unix_uid(61234);
  spec->set_namespaces(true);
  spec->add_hidden_paths(data_folder_);
  const std::string output = absl::StrCat(Folder(spec->key()), "/output");
  ShimSpec::Mount* mount = spec->add_mounts();
  mount->set_source(output);
  mount->set_target("/capstan/output");
}

std::string ProcessBench::Folder(const TaskKey& key) const {
  return TaskFolder(absl::StrCat(data_folder_, "/tasks"), key);
}

ShimStatus ProcessBench::Status(const TaskKey& key) const {
  return ReadShimStatus(Folder(key)).value_or(ShimStatus());
}

pid_t ProcessBench::ProgramPid(const TaskKey& key) const {
  const int64_t init = Status(key).task_pid();
  pid_t pid = 0;
  std::ifstream(absl::StrCat("/proc/", init, "/task/", init, "/children")) >> pid;
  return pid;
}

void ProcessBench::ToShim(const TaskKey& key, Act act) {
  const int signal = act == Act::kKill ? SIGKILL : act == Act::kStop ? SIGSTOP : SIGCONT;
  kill(static_cast<pid_t>(Status(key).shim_pid()), signal);
}

void ProcessBench::CrashTask(const TaskKey& key) {
  // The program follows a moment after its init.
  RunUntil([&] { return ProgramPid(key) > 0; });
  kill(ProgramPid(key), SIGSEGV);
}

bool ProcessBench::ProgramListens(const TaskKey& key) {
  return access(absl::StrCat(Folder(key), "/output/listens").c_str(), F_OK) == 0;
}

bool ProcessBench::TaskLives(const TaskKey& key) {
  const cgroup::Paths group = groups_->Find(*TaskLeaf(key));
  if (!cgroup::IsEmpty(group)) return true;
  // Without cgroups it is init that shows: it becomes a zombie only when its PID namespace is
  // empty.
  const ShimStatus status = Status(key);
  return !group.fences() && status.task_pid() > 0 &&
         ProcessStartTicks(static_cast<pid_t>(status.task_pid())) == status.task_start_ticks();
}

}  // namespace capstan::node_agent
