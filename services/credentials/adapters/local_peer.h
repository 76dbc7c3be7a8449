// Who is at the other end of a Unix socket.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_LOCAL_PEER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_LOCAL_PEER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace capstan::credentials {

// Namespaces that a uid's meaning depends on, as the kernel names them (`user:[4026531837]`).
struct PeerNamespaces {
  std::string user;
  std::string pid;

  friend bool operator==(const PeerNamespaces&, const PeerNamespaces&) = default;
};

// What the kernel says about a peer.
struct LocalPeer {
  // 0 if it cannot be named in this process's PID namespace.
  int64_t pid = 0;
  int64_t uid = -1;
  PeerNamespaces namespaces;
};

// Those of a process: `/proc/<pid>/ns`. FAILED_PRECONDITION if they may not be read, which the kernel
// decides by ptrace's rules.
absl::StatusOr<PeerNamespaces> NamespacesOf(int64_t pid);

// The uid of the peer, if it lives in the same user and PID namespaces as this process: then, and
// only then, its uid is a person's and not that of a Task in namespaces of its own.
// PERMISSION_DENIED/FOREIGN_NAMESPACE otherwise.
absl::StatusOr<int64_t> AdmitPeer(const LocalPeer& peer, const PeerNamespaces& own);

// Reads who connected to `socket` and admits or refuses it. A peer that has ended meanwhile is
// refused, since its pid may be another process's by now. (On kernels before 6.5, which cannot hold a
// peer by a descriptor, a pid that was reused before we looked is not noticed.)
absl::StatusOr<int64_t> UidOfPeer(int socket);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_LOCAL_PEER_H_
