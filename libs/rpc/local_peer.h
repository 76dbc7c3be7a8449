#ifndef CAPSTAN_LIBS_RPC_LOCAL_PEER_H_
#define CAPSTAN_LIBS_RPC_LOCAL_PEER_H_

#include <sys/types.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace capstan::rpc {

// Who connected to a Unix socket, by the kernel.
struct LocalPeer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

// Reads the peer of a connected Unix socket and calls `look`, with which its owner looks at the
// process by its pid, for instance at its cgroup. The process is held by a pidfd meanwhile, so that
// what `look` has seen was the peer's and not that of a later process with the same pid: after it
// the peer must still be alive, else PERMISSION_DENIED. Linux 6.5 and later give the pidfd of the
// process that connected; before, it is opened by pid when this is called, so call it at once after
// accept. An error of `look` is returned as it is.
absl::StatusOr<LocalPeer> InspectPeer(int fd,
                                      absl::FunctionRef<absl::Status(const LocalPeer&)> look);

// Reads the peer of a connected Unix socket. PERMISSION_DENIED unless the process that connected is
// alive and in this process's own user and PID namespaces: without root a Task runs in namespaces
// of its own under our own kernel uid, so the uid alone would let it pass for us. The kernel shows
// the namespaces of another user's process only to root; without root other users are refused.
absl::StatusOr<LocalPeer> PeerOfSocket(int fd);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_LOCAL_PEER_H_
