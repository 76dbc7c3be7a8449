#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_PEERS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_PEERS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/rpc/local_peer.h"
#include "libs/session/task_id.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Says which of this Node's Tasks is on the other side of a Unix socket. Thread-safe.
//
// The kernel names the process that connected; a Task is known by the cgroup that the process is
// in, which it cannot leave: it has no rights over the hierarchy, and does not see it. A uid alone
// admits no one: without root all Tasks have ours. Where Jobs have uids of their own, the peer's
// must be the Job's as well. A process that passes its connected socket on passes on what it may
// do itself.
class TaskPeers {
 public:
  // `unix_uid` is 0 where Jobs have none. A Task without a cgroup cannot be told from others, and
  // is nobody.
  void Add(const session::TaskId& id, const capstan::nodeagent::v1::ShimSpec::Cgroup& cgroup,
           int64_t unix_uid);
  void Remove(const session::TaskId& id);

  struct Attested {
    rpc::LocalPeer process;
    // Absent for a stranger.
    absl::optional<session::TaskId> task;
  };
  // Call at once after accept (see rpc::InspectPeer). PERMISSION_DENIED if the process has ended.
  absl::StatusOr<Attested> Attest(int fd) const;

 private:
  struct Group {
    capstan::nodeagent::v1::ShimSpec::Cgroup cgroup;
    int64_t unix_uid = 0;
  };

  absl::optional<session::TaskId> TaskOf(const rpc::LocalPeer& process) const;

  mutable absl::Mutex mutex_;
  std::map<session::TaskId, Group> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_PEERS_H_
