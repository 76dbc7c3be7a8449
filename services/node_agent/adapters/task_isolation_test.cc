// Tasks are strangers: what a Task may do on a real machine, and what it must not get at.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "services/node_agent/adapters/isolation_probe.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;

constexpr int64_t kVictimUid = 61234;
constexpr int64_t kIntruderUid = 61235;

// Prints `<attempt> allowed` or `<attempt> refused` for each thing a Task must not be able to do to
// another Task or to the platform.
constexpr char kAttempts[] = R"py(
import ctypes, glob, os, signal, socket, subprocess
victim, shim = int(os.environ["VICTIM_PID"]), int(os.environ["SHIM_PID"])
folder, data = os.environ["VICTIM_FOLDER"], os.environ["DATA"]
libc = ctypes.CDLL(None, use_errno=True)

def read(path):
    with open(path, "rb") as file:
        return len(file.read())

def connect():
    peer = socket.socket(socket.AF_UNIX)
    # By a short name: a Task's folder may be too long for an address.
    os.chdir(folder + "/socket")
    peer.connect("task.sock")

def environments():
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if b"VICTIM_SECRET" in open(path, "rb").read():
                return True
        except OSError:
            pass
    raise OSError("not to be seen")

def attach(pid):
    if libc.ptrace(16, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")

def peek(pid):
    buffer = ctypes.create_string_buffer(8)
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    local, remote = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
    if libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) < 0:
        # EFAULT: allowed, only nothing there.
        if ctypes.get_errno() != 14:
            raise OSError(ctypes.get_errno(), "process_vm_readv")

def uncover():
    # Root in a user namespace of its own may take mounts away, but not those that hide something.
    script = "umount -l '%s'; cat '%s/ca.key'" % (data, data)
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True)
    if b"PRIVATE" not in done.stdout:
        raise OSError("still hidden")

def join_cgroup():
    for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True):
        with open(path, "w") as file:
            file.write("0")
        return
    raise OSError("none to be seen")

attempts = {
    "list the folder": lambda: os.listdir(folder),
    "read the spec": lambda: read(folder + "/spec.binpb"),
    "read the status": lambda: read(folder + "/status.binpb"),
    "write the control": lambda: open(folder + "/control.binpb", "wb").close(),
    "list the output": lambda: os.listdir(folder + "/output"),
    "write into the output": lambda: open(folder + "/output/planted", "w").close(),
    "connect to the socket": connect,
    "read the environment": lambda: read("/proc/%d/environ" % victim),
    "find the environment": environments,
    "read the memory": lambda: read("/proc/%d/mem" % victim),
    "peek into the memory": lambda: peek(victim),
    "see the root folder": lambda: os.listdir("/proc/%d/root/" % victim),
    "signal the task": lambda: os.kill(victim, 0),
    "kill the task": lambda: os.kill(victim, signal.SIGKILL),
    "kill the shim": lambda: os.kill(shim, signal.SIGKILL),
    "trace the task": lambda: attach(victim),
    "trace the shim": lambda: attach(shim),
    "read the CA key": lambda: read(data + "/ca.key"),
    "read a store": lambda: read(data + "/scheduler.db"),
    "write a store": lambda: open(data + "/scheduler.db", "ab").close(),
    "uncover what is hidden": uncover,
    "change a cgroup": join_cgroup,
    "become root": lambda: os.setuid(0),
    "write to the machine": lambda: open("/usr/planted", "w").close(),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, "allowed", flush=True)
    except (OSError, RuntimeError) as error:
        print(name, "refused", flush=True)
print("attempts", len(attempts))
)py";

std::vector<std::string> LogLines(const std::string& folder) {
  std::vector<std::string> lines;
  const absl::StatusOr<LogBatch> batch =
      ReadLog(absl::StrCat(folder, "/", kLogFolder), LogCursor(), 1 << 20);
  if (!batch.ok()) return lines;
  for (const auto& record : batch->records) lines.push_back(record.line());
  return lines;
}

void ExpectAllRefused(const std::vector<std::string>& lines) {
  size_t refused = 0;
  for (const std::string& line : lines) {
    EXPECT_FALSE(absl::EndsWith(line, " allowed")) << line;
    if (absl::EndsWith(line, " refused")) ++refused;
  }
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), absl::StrCat("attempts ", refused));
  EXPECT_GT(refused, 20u);
}

void WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

// A socket that listens in a Task's folder, as the agent's for it does.
UniqueFd Listen(const std::string& folder) {
  UniqueFd at(open(absl::StrCat(folder, "/socket").c_str(), O_PATH | O_DIRECTORY));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  absl::StrCat("/proc/self/fd/", at.get(), "/task.sock").copy(address.sun_path, 107);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener.get(), 4), 0);
  chmod(absl::StrCat(folder, "/socket/task.sock").c_str(), 0666);
  return listener;
}

class TaskIsolationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bench_ = std::make_unique<ProcessBench>();
    WriteFile(bench_->data_folder() + "/ca.key", "PRIVATE", 0600);
    WriteFile(bench_->data_folder() + "/scheduler.db", "STORE", 0600);
    // Folders of a real platform are passable down to the Tasks' own.
    chmod(bench_->data_folder().c_str(), 0711);
  }
  void TearDown() override {
    for (const TaskKey& key : made_) {
      bool removed = false;
      bench_->strand().Post([&] {
        bench_->runtime().Kill(key, [&](absl::Status) {
          bench_->runtime().Remove(key, [&](absl::Status status) {
            EXPECT_TRUE(status.ok()) << status;
            removed = true;
          });
        });
      });
      EXPECT_TRUE(bench_->RunUntil([&] { return removed; }));
    }
    bench_.reset();
  }

  static TaskKey Key(int index) {
    TaskKey key;
    key.set_job_uid(absl::StrCat("0b5a7f2e-0000-4000-8000-00000000000", index));
    key.set_generation(1);
    key.set_group("workers");
    key.set_index(index);
    return key;
  }

  ShimSpec Spec(int index, const std::string& script) {
    ShimSpec spec;
    *spec.mutable_key() = Key(index);
    spec.set_deadline_boottime_ns(
        (bench_->strand().clock().Read().boot + absl::Minutes(5)).ToNanoseconds());
    spec.set_log_limit_bytes(1 << 20);
    bench_->Script(script, &spec);
    return spec;
  }

  void Start(ShimSpec spec) {
    absl::Status started = absl::UnknownError("not answered");
    bool answered = false;
    capstan::type::v1::Resources limits;
    limits.set_cpu_millis(250);
    limits.set_memory_bytes(128 << 20);
    made_.push_back(spec.key());
    bench_->strand().Post([&] {
      bench_->runtime().MakePlace(
          spec.key(), limits, spec.unix_uid(), [&](absl::StatusOr<TaskPlace> place) {
            if (!place.ok()) {
              started = place.status();
              answered = true;
              return;
            }
            *spec.mutable_cgroup() = place->cgroup;
            bench_->runtime().Start(spec, [&](absl::Status status) {
              started = status;
              answered = true;
            });
          });
    });
    ASSERT_TRUE(bench_->RunUntil([&] { return answered; }));
    ASSERT_TRUE(started.ok()) << started;
  }

  TaskEnd Finish(int index) {
    EXPECT_TRUE(bench_->RunUntil([&] { return bench_->Status(Key(index)).has_end(); }));
    return bench_->Status(Key(index)).end();
  }

  std::vector<std::string> Lines(int index) { return LogLines(bench_->Folder(Key(index))); }

  std::vector<std::string> Output(const std::string& script) {
    Start(Spec(1, script));
    Finish(1);
    return Lines(1);
  }

  // Another Job's Task, which holds a secret and runs on.
  void StartVictim(bool namespaces) {
    ShimSpec spec = Spec(0, ": > /capstan/output/listens; exec sleep 1000");
    spec.add_env("VICTIM_SECRET=1");
    spec.set_unix_uid(kVictimUid);
    if (!namespaces) MakePlain(&spec);
    Start(spec);
    ASSERT_TRUE(bench_->RunUntil([&] { return bench_->ProgramPid(Key(0)) > 0; }));
    listener_ = Listen(bench_->Folder(Key(0)));
  }

  static void MakePlain(ShimSpec* spec) {
    spec->set_namespaces(false);
    spec->clear_mounts();
    spec->clear_hidden_paths();
    const std::string script = absl::StrReplaceAll(spec->argv(2), {{"/capstan/output/", "/tmp/"}});
    spec->set_argv(2, script);
  }

  // Tries everything on the victim; returns what was tried and how it went.
  std::vector<std::string> Intrude(bool namespaces, int64_t uid) {
    StartVictim(namespaces);
    const pid_t victim = bench_->ProgramPid(Key(0));
    ShimSpec spec = Spec(1, "");
    spec.set_unix_uid(uid);
    if (!namespaces) MakePlain(&spec);
    spec.clear_argv();
    for (const char* word : {"/usr/bin/python3", "-c", kAttempts}) spec.add_argv(word);
    spec.add_env(absl::StrCat("VICTIM_PID=", victim));
    spec.add_env(absl::StrCat("SHIM_PID=", bench_->Status(Key(0)).shim_pid()));
    spec.add_env(absl::StrCat("VICTIM_FOLDER=", bench_->Folder(Key(0))));
    spec.add_env(absl::StrCat("DATA=", bench_->data_folder()));
    Start(spec);
    EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_EXITED);
    return Lines(1);
  }

  void ExpectIntruderIsRefused(bool namespaces) {
    ExpectAllRefused(Intrude(namespaces, kIntruderUid));
    EXPECT_GT(bench_->ProgramPid(Key(0)), 0) << "the other Task runs on";
    EXPECT_FALSE(bench_->Status(Key(0)).has_end());
  }

  std::unique_ptr<ProcessBench> bench_;
  std::vector<TaskKey> made_;
  UniqueFd listener_;
};

TEST_F(TaskIsolationTest, AnotherJobsTaskIsRefusedEverything) { ExpectIntruderIsRefused(true); }

TEST_F(TaskIsolationTest, TheJobsUidAloneRefusesEverythingToo) { ExpectIntruderIsRefused(false); }

// Without either the attempts succeed: they would show a hole.
TEST_F(TaskIsolationTest, TheAttemptsThemselvesWork) {
  const auto lines = Intrude(false, kVictimUid);
  const std::set<std::string> found(lines.begin(), lines.end());
  for (const char* attempt :
       {"list the output", "write into the output", "connect to the socket", "read the environment",
        "find the environment", "peek into the memory", "see the root folder", "signal the task",
        "kill the task"}) {
    EXPECT_EQ(found.count(absl::StrCat(attempt, " allowed")), 1u) << attempt;
  }
}

TEST_F(TaskIsolationTest, TheEnvironmentIsExactlyWhatWasGiven) {
  ShimSpec spec = Spec(1, "");
  spec.clear_argv();
  spec.add_argv("/usr/bin/env");
  spec.clear_env();
  spec.add_env("ONE=1");
  spec.add_env("TWO=a b");
  Start(spec);
  Finish(1);
  EXPECT_EQ(Lines(1), (std::vector<std::string>{"ONE=1", "TWO=a b"}));
}

TEST_F(TaskIsolationTest, ItHasNoRightsAndNoWayToThem) {
  const auto lines = Output(
      "grep -E '^(Cap|NoNewPrivs|Groups|Uid|Gid)' /proc/self/status | tr -s '\\t ' ' '; ulimit -c");
  const std::set<std::string> found(lines.begin(), lines.end());
  for (const char* line :
       {"CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000",
        "CapInh: 0000000000000000", "CapAmb: 0000000000000000", "NoNewPrivs: 1", "Groups: ",
        "Uid: 61234 61234 61234 61234", "Gid: 61234 61234 61234 61234", "0"}) {
    EXPECT_EQ(found.count(line), 1u) << line;
  }
}

TEST_F(TaskIsolationTest, NothingOfThePlatformIsInherited) {
  const auto lines = Output("ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; ls /proc | "
                            "grep -c '^[0-9]'; ls -A /run | wc -l; ls -A /tmp | wc -l; "
                            "ls -A /sys/fs/cgroup | wc -l; cat /proc/1/environ 2>&1");
  // ls has its folder open as a fourth; init, the shell, ls and grep are all there is.
  const std::vector<std::string> expected = {
      "4", "/dev/null", "4", "0", "0", "0", "cat: /proc/1/environ: Permission denied"};
  EXPECT_EQ(lines, expected);
}

TEST_F(TaskIsolationTest, ItMayWriteWhereTheContractSaysAndNowhereElse) {
  const auto lines = Output(
      "for f in /tmp /var/tmp /dev/shm /capstan/output / /usr /etc /var /run /dev /home; do "
      "if touch $f/x 2>/dev/null; then echo $f yes; else echo $f no; fi; done");
  EXPECT_EQ(lines, (std::vector<std::string>{"/tmp yes", "/var/tmp yes", "/dev/shm yes",
                                             "/capstan/output yes", "/ no", "/usr no", "/etc no",
                                             "/var no", "/run no", "/dev no", "/home no"}));
  EXPECT_EQ(access((bench_->Folder(Key(1)) + "/output/x").c_str(), F_OK), 0);
}

TEST_F(TaskIsolationTest, MountsAreReadOnlyWhereSaidAndMadeWhereAbsent) {
  const std::string source = bench_->data_folder() + "/dataset";
  ASSERT_EQ(mkdir(source.c_str(), 0777), 0);
  chmod(source.c_str(), 0777);
  WriteFile(source + "/part", "bytes", 0644);
  ShimSpec spec = Spec(1, "cat /data/digits/part; echo; touch /data/digits/x || echo read-only");
  ShimSpec::Mount* mount = spec.add_mounts();
  mount->set_source(source);
  mount->set_target("/data/digits");
  mount->set_read_only(true);
  Start(spec);
  Finish(1);
  const auto lines = Lines(1);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "bytes");
  EXPECT_EQ(lines[2], "read-only");
  EXPECT_NE(access("/data/digits", F_OK), 0) << "the machine itself is left alone";
}

TEST_F(TaskIsolationTest, AMountThatCannotBeMadeSaysWhy) {
  ShimSpec spec = Spec(1, "true");
  ShimSpec::Mount* mount = spec.add_mounts();
  mount->set_source("/nonexistent/dataset");
  mount->set_target("/data");
  Start(spec);
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_NE(end.message().find("/nonexistent/dataset"), std::string::npos) << end.message();
}

TEST_F(TaskIsolationTest, ItCannotEndItsInit) {
  EXPECT_EQ(Output("kill -9 1; kill -STOP 1; sleep 0.1; echo alive; kill -TERM 1; sleep 100; echo on"),
            std::vector<std::string>{"alive"});
  // SIGTERM is passed on to the program's group, as if the platform had sent it.
  EXPECT_EQ(bench_->Status(Key(1)).end().signal(), SIGTERM);
}

TEST_F(TaskIsolationTest, AnOrphanInASessionOfItsOwnDiesWithTheTask) {
  Start(Spec(1, "setsid sleep 1000 & setsid setsid sleep 1000 & sleep 0.1; exit 0"));
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(end.exit_code(), 0);
  EXPECT_FALSE(bench_->TaskLives(Key(1))) << "told only once nothing is left";
}

TEST_F(TaskIsolationTest, WithoutNamespacesAnOrphanDiesByTheCgroup) {
  ShimSpec spec = Spec(1, "setsid sleep 1000 & sleep 0.1; exit 0");
  MakePlain(&spec);
  Start(spec);
  EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_FALSE(bench_->TaskLives(Key(1)));
}

TEST_F(TaskIsolationTest, PassingTheMemoryLimitIsToldAsSuch) {
  ShimSpec spec = Spec(1, "exec /usr/bin/python3 -c 'x = bytearray(1 << 29)'");
  Start(spec);
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_OUT_OF_MEMORY) << end.DebugString();
}

TEST_F(TaskIsolationTest, FilesInMemoryCountAgainstTheLimit) {
  Start(Spec(1, "exec head -c 600000000 /dev/zero > /dev/shm/big"));
  EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_OUT_OF_MEMORY);
}

TEST_F(TaskIsolationTest, ItIsNeverRunAsRoot) {
  ShimSpec spec = Spec(1, "id");
  spec.set_unix_uid(0);
  Start(spec);
  EXPECT_TRUE(bench_->RunUntil([&] {
    std::ifstream errors(bench_->Folder(Key(1)) + "/shim.err");
    std::string text;
    std::getline(errors, text);
    return text.find("Unix uid") != std::string::npos;
  }));
  EXPECT_FALSE(bench_->TaskLives(Key(1)));
}

// The platform run by an ordinary user: the kernel's uid is the same for everything, and the namespaces
// alone keep Tasks from it and from each other.
class UserNamespaceTest : public ::testing::Test {
 protected:
  static constexpr uid_t kUser = 61500;

  void SetUp() override {
    ASSERT_EQ(geteuid(), 0u) << "needs root: leave out tests tagged `root` otherwise";
    char pattern[] = "/var/lib/capstan-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    data_ = pattern;
    ASSERT_EQ(chmod(data_.c_str(), 0700), 0);
    ASSERT_EQ(chown(data_.c_str(), kUser, kUser), 0);
    // Bazel's folders are root's alone.
    shim_ = data_ + "/shim";
    std::ifstream in("services/node_agent/shim/shim", std::ios::binary);
    std::ofstream(shim_, std::ios::binary) << in.rdbuf();
    ASSERT_EQ(chmod(shim_.c_str(), 0755), 0);
  }
  void TearDown() override {
    for (const pid_t shim : shims_) {
      kill(shim, SIGKILL);
      waitpid(shim, nullptr, 0);
    }
    EXPECT_TRUE(EmptyTrash(data_).ok());
    rmdir(data_.c_str());
  }

  template <typename Body>
  pid_t AsUser(Body body) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(kUser) != 0 || setuid(kUser) != 0) _exit(1);
      umask(077);
      body();
      _exit(0);
    }
    return pid;
  }

  // Starts the spec's Task as the user; returns its folder.
  std::string Start(const std::string& name, ShimSpec spec) {
    const std::string folder = absl::StrCat(data_, "/", name);
    spec.add_env("PATH=/usr/bin:/bin");
    spec.set_working_directory("/tmp");
    spec.set_namespaces(true);
    spec.set_user_namespace(true);
    spec.add_hidden_paths(data_);
    spec.set_deadline_boottime_ns(
        (clock_.Read().boot + absl::Minutes(5)).ToNanoseconds());
    ShimSpec::Mount* mount = spec.add_mounts();
    mount->set_source(folder + "/output");
    mount->set_target("/capstan/output");
    shims_.push_back(AsUser([&] {
      for (const char* part : {"", "/output", "/socket"}) mkdir((folder + part).c_str(), 0700);
      std::ofstream(folder + "/spec.binpb", std::ios::binary) << spec.SerializeAsString();
      setsid();
      execl(shim_.c_str(), "shim", folder.c_str(), nullptr);
    }));
    return folder;
  }

  static bool Until(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }

  SystemClock clock_;
  std::string data_;
  std::string shim_;
  std::vector<pid_t> shims_;
};

TEST_F(UserNamespaceTest, AnotherTaskIsRefusedEverythingForAnOrdinaryUserToo) {
  waitpid(AsUser([&] {
            std::ofstream(data_ + "/ca.key") << "PRIVATE";
            std::ofstream(data_ + "/scheduler.db") << "STORE";
          }),
          nullptr, 0);
  ShimSpec victim_spec;
  for (const char* word : {"/bin/sleep", "1000"}) victim_spec.add_argv(word);
  victim_spec.add_env("VICTIM_SECRET=1");
  const std::string victim = Start("victim", victim_spec);
  ASSERT_TRUE(Until([&] {
    const auto status = ReadShimStatus(victim);
    return status.has_value() && (status->task_pid() > 0 || status->has_end());
  }));
  const auto status = *ReadShimStatus(victim);
  ASSERT_FALSE(status.has_end()) << status.DebugString();
  pid_t program = 0;
  ASSERT_TRUE(Until([&] {
    std::ifstream(absl::StrCat("/proc/", status.task_pid(), "/task/", status.task_pid(),
                               "/children")) >>
        program;
    return program > 0;
  }));
  const UniqueFd listener = Listen(victim);

  ShimSpec spec;
  for (const char* word : {"/usr/bin/python3", "-c", kAttempts}) spec.add_argv(word);
  spec.add_env(absl::StrCat("VICTIM_PID=", program));
  spec.add_env(absl::StrCat("SHIM_PID=", status.shim_pid()));
  spec.add_env(absl::StrCat("VICTIM_FOLDER=", victim));
  spec.add_env(absl::StrCat("DATA=", data_));
  const std::string intruder = Start("intruder", spec);
  ASSERT_TRUE(Until([&] {
    const auto now = ReadShimStatus(intruder);
    return now.has_value() && now->has_end();
  }));
  EXPECT_EQ(ReadShimStatus(intruder)->end().cause(), TaskEnd::CAUSE_EXITED)
      << ReadShimStatus(intruder)->DebugString();
  ExpectAllRefused(LogLines(intruder));
  EXPECT_EQ(kill(program, 0), 0) << "the other Task runs on";
  // Without a cgroup the PID namespace takes everything along.
  kill(static_cast<pid_t>(status.shim_pid()), SIGKILL);
  EXPECT_TRUE(Until([&] { return kill(program, 0) != 0; }));
}

TEST(IsolationProbeTest, FindsWhatThisMachineCanDo) {
  ASSERT_EQ(geteuid(), 0u) << "needs root: leave out tests tagged `root` otherwise";
  const absl::StatusOr<cgroup::Tree> none = cgroup::Tree::Open("unused", "/dev/null");
  ASSERT_TRUE(none.ok());
  const std::string scratch = absl::StrCat(getenv("TEST_TMPDIR"), "/probe");
  const auto probed = ProbeIsolation({"services/node_agent/shim/shim"}, scratch, *none);
  ASSERT_TRUE(probed.ok()) << probed.status();
  EXPECT_TRUE(probed->isolation.namespaces) << probed->reason;
  EXPECT_FALSE(probed->isolation.user_namespace);
  EXPECT_EQ(probed->limitations,
            (std::vector<capstan::type::v1::NodeObservation::Limitation>{
                capstan::type::v1::NodeObservation::LIMITATION_LIMITS_NOT_ENFORCED}));
  EXPECT_FALSE(ProbeIsolation({"/bin/false"}, scratch, *none).ok());
}

}  // namespace
}  // namespace capstan::node_agent
