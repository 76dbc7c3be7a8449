#include "services/node_agent/adapters/intrusion.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {

const char kIntrusion[] = R"py(
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

UniqueFd ListenInTaskFolder(const std::string& folder) {
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

}  // namespace capstan::node_agent
