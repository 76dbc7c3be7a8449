#include "libs/rpc/local_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::rpc {
namespace {

// Of Linux 6.5; not in our headers.
constexpr int kSoPeerPidfd = 77;

absl::Status Refused(absl::string_view why) {
  return status::Error(absl::StatusCode::kPermissionDenied, "LOCAL_PEER_REFUSED", why);
}

// A handle of the process that connected; before Linux 6.5 of the process with its pid now.
int OpenPidfd(int fd, pid_t pid) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(fd, SOL_SOCKET, kSoPeerPidfd, &pidfd, &size) == 0) return pidfd;
  if (errno != ENOPROTOOPT) return -1;
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

absl::Status CheckNamespace(pid_t pid, absl::string_view name) {
  struct stat ours;
  struct stat theirs;
  if (stat(absl::StrCat("/proc/self/ns/", name).c_str(), &ours) != 0 ||
      stat(absl::StrCat("/proc/", pid, "/ns/", name).c_str(), &theirs) != 0) {
    return Refused(absl::StrCat("the peer's ", name, " namespace cannot be read"));
  }
  if (ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino) {
    return Refused(absl::StrCat("the peer is in another ", name, " namespace"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LocalPeer> InspectPeer(int fd,
                                      absl::FunctionRef<absl::Status(const LocalPeer&)> look) {
  ucred credentials;
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the peer's credentials");
  }
  // 0 stands for a process that our PID namespace cannot see.
  if (credentials.pid <= 0) return Refused("the peer is in another pid namespace");
  const int pidfd = OpenPidfd(fd, credentials.pid);
  if (pidfd < 0) return Refused("the peer has ended");
  const absl::Cleanup close_pidfd = [pidfd] { close(pidfd); };
  const LocalPeer peer{credentials.uid, credentials.gid, credentials.pid};
  CAPSTAN_RETURN_IF_ERROR(look(peer));
  // Still alive, so the pid named the same process all the while.
  pollfd ended{pidfd, POLLIN, 0};
  if (poll(&ended, 1, 0) != 0) return Refused("the peer has ended");
  return peer;
}

absl::StatusOr<LocalPeer> PeerOfSocket(int fd) {
  return InspectPeer(fd, [](const LocalPeer& peer) {
    absl::Status same = CheckNamespace(peer.pid, "user");
    if (same.ok()) same = CheckNamespace(peer.pid, "pid");
    return same;
  });
}

}  // namespace capstan::rpc
