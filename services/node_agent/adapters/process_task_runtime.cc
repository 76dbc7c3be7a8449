#include "services/node_agent/adapters/process_task_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/safe_path/replace_file.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/adapters/event_thread.h"
#include "services/node_agent/adapters/shim_launcher.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/shim/process_identity.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimControl;
using capstan::nodeagent::v1::ShimSpec;
using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::Resources;
using capstan::type::v1::TaskKey;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

// Everything below runs on `thread_`, except the constructor and Init.
class ProcessTaskRuntime::Worker {
 public:
  Worker(Options options, Strand* strand)
      : tasks_(absl::StrCat(options.data_folder, "/tasks")),
        trash_(absl::StrCat(options.data_folder, "/trash")),
        command_(std::move(options.shim_command)),
        groups_(std::move(options.groups)),
        strand_(strand) {}

  ~Worker() {
    if (thread_ != nullptr) thread_->Stop();
    if (removal_ != nullptr) removal_->Stop();
  }

  absl::Status Init() {
    inotify_ = UniqueFd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (!inotify_.valid()) return ErrnoStatus(errno, "inotify_init1", "");
    CAPSTAN_ASSIGN_OR_RETURN(removal_, EventThread::Create("task-removal"));
    CAPSTAN_ASSIGN_OR_RETURN(thread_, EventThread::Create("task-runtime"));
    thread_->Post([this] {
      thread_->SetTick([this] { Tick(); });
      (void)thread_->Watch(inotify_.get(), [this] { OnFolderChange(); });
    });
    return absl::OkStatus();
  }

  void Do(absl::AnyInvocable<void()> task) { thread_->Post(std::move(task)); }

  // Answers on the strand.
  template <typename Callback, typename Result>
  void Answer(Callback done, Result result) {
    strand_->Post([done = std::move(done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
  }

  void SetStatusCallback(StatusCallback on_status) {
    on_status_ = std::make_shared<StatusCallback>(std::move(on_status));
  }

  absl::StatusOr<TaskPlace> MakePlace(const TaskKey& key, const Resources& limits,
                                      int64_t unix_uid) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string leaf, TaskLeaf(key));
    CAPSTAN_RETURN_IF_ERROR(MakeTaskFolder(tasks_, key, geteuid() == 0 ? unix_uid : 0));
    CrashPoint(crash::kAgentFolderMade);
    CAPSTAN_ASSIGN_OR_RETURN(
        const cgroup::Paths group,
        groups_.Make(leaf, cgroup::Limits{limits.cpu_millis(), limits.memory_bytes()}));
    CrashPoint(crash::kAgentCgroupMade);
    TaskPlace place;
    place.folder = TaskFolder(tasks_, key);
    place.cgroup.set_v2(group.v2);
    place.cgroup.set_v1_freezer(group.v1_freezer);
    place.cgroup.set_v1_cpu(group.v1_cpu);
    place.cgroup.set_v1_memory(group.v1_memory);
    return place;
  }

  absl::Status Start(const ShimSpec& spec) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string leaf, TaskLeaf(spec.key()));
    const std::string folder = TaskFolder(tasks_, spec.key());
    const std::string path = absl::StrCat(folder, "/", kSpecFile);
    if (!Exists(folder)) return NoPlace(leaf);
    if (Exists(path)) {
      return status::Error(absl::StatusCode::kAlreadyExists, "TASK_STARTED",
                           absl::StrCat("Task ", leaf, " was started before"));
    }
    CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(path, spec.SerializeAsString(), 0600));
    CrashPoint(crash::kAgentSpecWritten);
    Watched& task = WatchFolder(leaf, spec.key());
    CAPSTAN_ASSIGN_OR_RETURN(const pid_t pid, LaunchShim(command_, folder));
    CrashPoint(crash::kAgentShimForked);
    Follow(task, OpenProcess(pid, ProcessStartTicks(pid)));
    return absl::OkStatus();
  }

  absl::Status Control(const TaskKey& key, const ShimControl& control) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string leaf, TaskLeaf(key));
    const std::string folder = TaskFolder(tasks_, key);
    if (!Exists(folder)) return NoPlace(leaf);
    return ReplaceFile(absl::StrCat(folder, "/", kControlFile), control.SerializeAsString());
  }

  void Kill(const TaskKey& key, DoneCallback done) {
    absl::StatusOr<std::string> leaf = TaskLeaf(key);
    if (!leaf.ok()) return Answer(std::move(done), leaf.status());
    const std::string folder = TaskFolder(tasks_, key);
    // First of all, so that a shim that has not started its Task yet never does.
    if (Exists(folder)) {
      const absl::Status marked = ReplaceFile(absl::StrCat(folder, "/", kKilledFile), "");
      if (!marked.ok()) return Answer(std::move(done), marked);
    }
    kills_.push_back(PendingKill{key, *leaf, std::move(done)});
    Tick();
  }

  std::vector<FoundTask> Discover() {
    std::map<std::string, TaskKey> keys;
    for (const TaskKey& key : ListTaskFolders(tasks_)) {
      const absl::StatusOr<std::string> leaf = TaskLeaf(key);
      if (leaf.ok()) keys[*leaf] = key;
    }
    for (const std::string& leaf : groups_.List()) {
      const absl::optional<TaskKey> key = ParseTaskLeaf(leaf);
      if (key.has_value()) keys[leaf] = *key;
    }
    // What an agent that died in between left there.
    removal_->Post([this] { (void)EmptyTrash(trash_); });
    std::vector<FoundTask> found;
    for (const auto& [leaf, key] : keys) {
      const std::string folder = TaskFolder(tasks_, key);
      FoundTask task;
      task.key = key;
      task.has_spec = Exists(absl::StrCat(folder, "/", kSpecFile));
      task.cgroup_empty = IsDead(key, leaf);
      // Watched before it is read, so that no change is lost in between.
      Watched* watched = task.has_spec ? &WatchFolder(leaf, key) : nullptr;
      const absl::optional<ShimStatus> status = ReadShimStatus(folder);
      if (status.has_value()) task.status = *status;
      UniqueFd shim =
          OpenProcess(static_cast<pid_t>(task.status.shim_pid()), task.status.shim_start_ticks());
      task.shim_alive = shim.valid() || IsShimLocked(folder);
      if (watched != nullptr) {
        watched->last = task.status;
        // Without a status yet its pid comes with the first one; a dead one has been told here.
        if (shim.valid()) Follow(*watched, std::move(shim));
        if (!task.shim_alive) Forget(leaf);
      }
      found.push_back(std::move(task));
    }
    return found;
  }

  void Remove(const TaskKey& key, DoneCallback done) {
    absl::StatusOr<std::string> leaf = TaskLeaf(key);
    if (!leaf.ok()) return Answer(std::move(done), leaf.status());
    const std::string folder = TaskFolder(tasks_, key);
    const absl::optional<ShimStatus> status = ReadShimStatus(folder);
    const bool over =
        (status.has_value() && status->has_end()) || Exists(absl::StrCat(folder, "/", kKilledFile));
    const bool shim_alive = IsShimLocked(folder);
    if (!IsDead(key, *leaf) || (shim_alive && !over)) {
      return Answer(std::move(done),
                    status::Error(absl::StatusCode::kFailedPrecondition, "TASK_ALIVE",
                                  absl::StrCat("Task ", *leaf, " still has a process")));
    }
    if (shim_alive) {
      // Its Task is no more; all it could still do is write into the folder.
      EndShim(folder);
      removals_.push_back(PendingKill{key, *leaf, std::move(done)});
      return Tick();
    }
    FinishRemoval(key, *leaf, std::move(done));
  }

 private:
  struct Watched {
    TaskKey key;
    std::string leaf;
    std::string folder;
    int watch = -1;
    ShimStatus last;
    UniqueFd shim;
  };

  struct PendingKill {
    TaskKey key;
    std::string leaf;
    DoneCallback done;
  };

  static absl::Status NoPlace(const std::string& leaf) {
    return status::Error(absl::StatusCode::kNotFound, "NO_PLACE",
                         absl::StrCat("Task ", leaf, " has no folder here"));
  }

  Watched& WatchFolder(const std::string& leaf, const TaskKey& key) {
    Watched& task = watched_[leaf];
    if (task.watch >= 0) return task;
    task.key = key;
    task.leaf = leaf;
    task.folder = TaskFolder(tasks_, key);
    task.watch = inotify_add_watch(inotify_.get(), task.folder.c_str(), IN_MOVED_TO);
    by_watch_[task.watch] = leaf;
    return task;
  }

  void Forget(const std::string& leaf) {
    const auto it = watched_.find(leaf);
    if (it == watched_.end()) return;
    if (it->second.shim.valid()) thread_->Unwatch(it->second.shim.get());
    inotify_rm_watch(inotify_.get(), it->second.watch);
    by_watch_.erase(it->second.watch);
    watched_.erase(it);
  }

  // Learns of the shim's end through its descriptor; an invalid one means that it has ended.
  void Follow(Watched& task, UniqueFd shim) {
    const std::string leaf = task.leaf;
    if (!shim.valid()) return OnShimEnd(leaf);
    task.shim = std::move(shim);
    (void)thread_->Watch(task.shim.get(), [this, leaf] { OnShimEnd(leaf); });
  }

  void OnFolderChange() {
    alignas(inotify_event) char buffer[16 << 10];
    std::set<std::string> changed;
    ssize_t n;
    while ((n = read(inotify_.get(), buffer, sizeof buffer)) > 0) {
      for (const char* p = buffer; p < buffer + n;) {
        const auto* event = reinterpret_cast<const inotify_event*>(p);
        p += sizeof(inotify_event) + event->len;
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          for (const auto& [leaf, task] : watched_) changed.insert(leaf);
        }
        const auto it = by_watch_.find(event->wd);
        if (it != by_watch_.end()) changed.insert(it->second);
      }
    }
    for (const std::string& leaf : changed) {
      const auto it = watched_.find(leaf);
      if (it == watched_.end()) continue;
      Tell(it->second);
      if (it->second.shim.valid() || it->second.last.shim_pid() == 0) continue;
      // Found alive after a restart, before its first status.
      Follow(it->second, OpenProcess(static_cast<pid_t>(it->second.last.shim_pid()),
                                     it->second.last.shim_start_ticks()));
    }
  }

  // Tells the status if it has changed.
  void Tell(Watched& task) {
    const absl::optional<ShimStatus> status = ReadShimStatus(task.folder);
    if (!status.has_value() ||
        google::protobuf::util::MessageDifferencer::Equals(*status, task.last)) {
      return;
    }
    task.last = *status;
    Post(task.key, *status);
  }

  void OnShimEnd(const std::string& leaf) {
    const auto it = watched_.find(leaf);
    if (it == watched_.end()) return;
    Tell(it->second);
    if (!it->second.last.has_end()) {
      ShimStatus dead = it->second.last;
      dead.set_shim_pid(0);
      dead.set_shim_start_ticks(0);
      Post(it->second.key, dead);
    }
    Forget(leaf);
  }

  void Post(const TaskKey& key, const ShimStatus& status) {
    if (on_status_ == nullptr) return;
    strand_->Post([on_status = on_status_, key, status] { (*on_status)(key, status); });
  }

  // No process in the group, nor, where there is no group, the Task's init.
  bool IsDead(const TaskKey& key, const std::string& leaf) {
    const cgroup::Paths group = groups_.Find(leaf);
    if (!cgroup::IsEmpty(group)) return false;
    if (group.fences()) return true;
    return !OpenInit(TaskFolder(tasks_, key)).valid();
  }

  static UniqueFd OpenInit(const std::string& folder) {
    const absl::optional<ShimStatus> status = ReadShimStatus(folder);
    if (!status.has_value()) return UniqueFd();
    return OpenProcess(static_cast<pid_t>(status->task_pid()), status->task_start_ticks());
  }

  // Also one that has not written a status yet.
  void EndShim(const std::string& folder) {
    KillShim(folder);
    for (const auto& [leaf, task] : watched_) {
      if (task.folder == folder) SignalProcess(task.shim, SIGKILL);
    }
  }

  // One round of ending what is to end, until nothing is left of it.
  void Tick() {
    std::vector<PendingKill> left;
    for (PendingKill& kill : std::exchange(kills_, {})) {
      const std::string folder = TaskFolder(tasks_, kill.key);
      const absl::optional<ShimStatus> status = ReadShimStatus(folder);
      absl::Status ended = cgroup::Kill(groups_.Find(kill.leaf));
      SignalProcess(OpenInit(folder), SIGKILL);
      // A shim that has not come to forking its Task would fork it into the group later.
      const bool unstarted =
          (!status.has_value() || status->task_pid() == 0) && IsShimLocked(folder);
      if (unstarted) EndShim(folder);
      if (ended.ok() && (unstarted || !IsDead(kill.key, kill.leaf))) {
        left.push_back(std::move(kill));
      } else {
        Answer(std::move(kill.done), ended);
      }
    }
    for (PendingKill& kill : left) kills_.push_back(std::move(kill));
    left.clear();
    for (PendingKill& removal : std::exchange(removals_, {})) {
      if (IsShimLocked(TaskFolder(tasks_, removal.key))) {
        left.push_back(std::move(removal));
      } else {
        FinishRemoval(removal.key, removal.leaf, std::move(removal.done));
      }
    }
    for (PendingKill& removal : left) removals_.push_back(std::move(removal));
    thread_->KeepTicking(!kills_.empty() || !removals_.empty());
  }

  void FinishRemoval(const TaskKey& key, const std::string& leaf, DoneCallback done) {
    Forget(leaf);
    const absl::Status removed = groups_.Remove(leaf);
    if (!removed.ok()) return Answer(std::move(done), removed);
    CrashPoint(crash::kAgentCgroupRemoved);
    const absl::Status moved = MoveToTrash(tasks_, trash_, key);
    if (!moved.ok()) return Answer(std::move(done), moved);
    // An output folder may be large, and nothing here may hold up a Kill.
    CrashPoint(crash::kAgentFolderMoved);
    removal_->Post([this, done = std::move(done)]() mutable {
      absl::Status emptied = EmptyTrash(trash_);
      CrashPoint(crash::kAgentFolderRemoved);
      Answer(std::move(done), std::move(emptied));
    });
  }

  const std::string tasks_;
  const std::string trash_;
  const std::vector<std::string> command_;
  const cgroup::Tree groups_;
  Strand* const strand_;
  std::shared_ptr<StatusCallback> on_status_;
  UniqueFd inotify_;
  std::map<std::string, Watched> watched_;
  std::map<int, std::string> by_watch_;
  std::vector<PendingKill> kills_;
  std::vector<PendingKill> removals_;
  std::unique_ptr<EventThread> removal_;
  std::unique_ptr<EventThread> thread_;
};

absl::StatusOr<std::unique_ptr<ProcessTaskRuntime>> ProcessTaskRuntime::Create(Options options,
                                                                               Strand* strand) {
  if (options.shim_command.empty()) {
    return absl::InvalidArgumentError("shim_command is empty");
  }
  // Shims are executed from `/`, and /proc/self/exe names another file in them.
  char* resolved = realpath(options.shim_command.front().c_str(), nullptr);
  if (resolved == nullptr) {
    return ErrnoStatus(errno, "shim command", options.shim_command.front());
  }
  options.shim_command.front() = resolved;
  free(resolved);
  auto worker = std::make_unique<Worker>(std::move(options), strand);
  CAPSTAN_RETURN_IF_ERROR(worker->Init());
  return std::unique_ptr<ProcessTaskRuntime>(new ProcessTaskRuntime(std::move(worker)));
}

ProcessTaskRuntime::ProcessTaskRuntime(std::unique_ptr<Worker> worker)
    : worker_(std::move(worker)) {}

ProcessTaskRuntime::~ProcessTaskRuntime() = default;

void ProcessTaskRuntime::SetStatusCallback(StatusCallback on_status) {
  worker_->Do([w = worker_.get(), on_status = std::move(on_status)]() mutable {
    w->SetStatusCallback(std::move(on_status));
  });
}

void ProcessTaskRuntime::MakePlace(const TaskKey& key, const Resources& limits, int64_t unix_uid,
                                   absl::AnyInvocable<void(absl::StatusOr<TaskPlace>)> done) {
  worker_->Do([w = worker_.get(), key, limits, unix_uid, done = std::move(done)]() mutable {
    w->Answer(std::move(done), w->MakePlace(key, limits, unix_uid));
  });
}

void ProcessTaskRuntime::Start(const ShimSpec& spec, DoneCallback done) {
  worker_->Do([w = worker_.get(), spec, done = std::move(done)]() mutable {
    w->Answer(std::move(done), w->Start(spec));
  });
}

void ProcessTaskRuntime::Control(const TaskKey& key, const ShimControl& control,
                                 DoneCallback done) {
  worker_->Do([w = worker_.get(), key, control, done = std::move(done)]() mutable {
    w->Answer(std::move(done), w->Control(key, control));
  });
}

void ProcessTaskRuntime::Kill(const TaskKey& key, DoneCallback done) {
  worker_->Do([w = worker_.get(), key, done = std::move(done)]() mutable {
    w->Kill(key, std::move(done));
  });
}

void ProcessTaskRuntime::Discover(
    absl::AnyInvocable<void(absl::StatusOr<std::vector<FoundTask>>)> done) {
  worker_->Do([w = worker_.get(), done = std::move(done)]() mutable {
    w->Answer(std::move(done), absl::StatusOr<std::vector<FoundTask>>(w->Discover()));
  });
}

void ProcessTaskRuntime::Remove(const TaskKey& key, DoneCallback done) {
  worker_->Do([w = worker_.get(), key, done = std::move(done)]() mutable {
    w->Remove(key, std::move(done));
  });
}

}  // namespace capstan::node_agent
