#include "services/credentials/adapters/local_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::credentials {
namespace {

// From Linux 6.5; not yet in Debian 12's headers.
#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;
#endif

absl::Status Unknown(absl::string_view what) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "PEER_UNKNOWN",
                       absl::StrCat("The peer cannot be told: ", what));
}

absl::StatusOr<std::string> ReadLink(const std::string& path) {
  char target[128];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(target))) {
    return Unknown(absl::StrCat("reading ", path, ": ", strerror(errno)));
  }
  return std::string(target, static_cast<size_t>(size));
}

// A descriptor that stays with the process even if its pid is reused; below 0 if there is none.
int PidDescriptor(int socket, pid_t pid) {
  int descriptor = -1;
  socklen_t size = sizeof(descriptor);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0) return descriptor;
  if (errno != ENOPROTOOPT) return -1;
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace

absl::StatusOr<PeerNamespaces> NamespacesOf(int64_t pid) {
  PeerNamespaces namespaces;
  CAPSTAN_ASSIGN_OR_RETURN(namespaces.user, ReadLink(absl::StrCat("/proc/", pid, "/ns/user")));
  CAPSTAN_ASSIGN_OR_RETURN(namespaces.pid, ReadLink(absl::StrCat("/proc/", pid, "/ns/pid")));
  return namespaces;
}

absl::StatusOr<int64_t> AdmitPeer(const LocalPeer& peer, const PeerNamespaces& own) {
  if (peer.pid > 0 && peer.uid >= 0 && !own.user.empty() && !own.pid.empty() &&
      peer.namespaces == own) {
    return peer.uid;
  }
  return status::Error(absl::StatusCode::kPermissionDenied, "FOREIGN_NAMESPACE",
                       absl::StrCat("The peer with uid ", peer.uid,
                                    " is not in the user and PID namespaces of the platform."),
                       {{"uid", absl::StrCat(peer.uid)}});
}

absl::StatusOr<int64_t> UidOfPeer(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
      size != sizeof(credentials)) {
    return Unknown(strerror(errno));
  }
  LocalPeer peer{.pid = credentials.pid, .uid = credentials.uid, .namespaces = {}};
  if (peer.pid <= 0) return AdmitPeer(peer, {});
  const int descriptor = PidDescriptor(socket, credentials.pid);
  if (descriptor < 0) return Unknown("it has ended.");
  const absl::Cleanup close_descriptor = [descriptor] { close(descriptor); };
  CAPSTAN_ASSIGN_OR_RETURN(peer.namespaces, NamespacesOf(peer.pid));
  // Readable once the process has ended: then what was read may be another one's.
  pollfd ended{.fd = descriptor, .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, 0) != 0) return Unknown("it has ended.");
  CAPSTAN_ASSIGN_OR_RETURN(const PeerNamespaces own, NamespacesOf(getpid()));
  return AdmitPeer(peer, own);
}

}  // namespace capstan::credentials
