#include "services/node_agent/adapters/task_peers.h"

#include <string>
#include <utility>

#include "services/node_agent/adapters/task_cgroup.h"

namespace capstan::node_agent {

using session::TaskId;

void TaskPeers::Add(const TaskId& id, const capstan::nodeagent::v1::ShimSpec::Cgroup& cgroup,
                    int64_t unix_uid) {
  if (cgroup.v2().empty() && cgroup.v1_freezer().empty()) return;
  absl::MutexLock lock(&mutex_);
  groups_[id] = {cgroup, unix_uid};
}

void TaskPeers::Remove(const TaskId& id) {
  absl::MutexLock lock(&mutex_);
  groups_.erase(id);
}

absl::StatusOr<TaskPeers::Attested> TaskPeers::Attest(int fd) const {
  Attested attested;
  absl::StatusOr<rpc::LocalPeer> peer =
      rpc::InspectPeer(fd, [this, &attested](const rpc::LocalPeer& process) {
        attested.task = TaskOf(process);
        return absl::OkStatus();
      });
  if (!peer.ok()) return peer.status();
  attested.process = *peer;
  return attested;
}

absl::optional<TaskId> TaskPeers::TaskOf(const rpc::LocalPeer& process) const {
  const std::string cgroup = ReadCgroup(process.pid);
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, group] : groups_) {
    const bool same_uid =
        group.unix_uid <= 0 || static_cast<int64_t>(process.uid) == group.unix_uid;
    if (same_uid && InCgroup(cgroup, group.cgroup)) return id;
  }
  return absl::nullopt;
}

}  // namespace capstan::node_agent
