#ifndef CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_
#define CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/rpc/local_peer.h"
#include "libs/rpc/server.h"

namespace capstan::rpc {

// The services for one peer; `owner` keeps the implementations.
struct LocalServices {
  std::vector<RegisteredService> services;
  std::shared_ptr<void> owner;
  // Connections are ended, gracefully, after this time.
  absl::Duration max_connection_age = absl::Hours(12);
};

// gRPC on a Unix socket whose callers are known by the kernel. gRPC 1.51 says nothing about the
// peer of a Unix socket to handlers, so this class accepts connections itself, asks the kernel
// who that is, and hands each to a gRPC server of that peer's own, whose services were made for
// that peer alone: no call can be taken for another's, whatever happens to connections. To the
// access check these callers are anonymous: only methods for CALLER_ANONYMOUS can be served.
// Clients use an ordinary insecure channel to `unix:<path>`.
class LocalServer {
 public:
  struct Options {
    // At most 107 bytes; the socket has mode 0666: the folder's mode decides who may connect. A
    // dead socket that lies there is replaced.
    std::string path;
    // Who is on the other side of a connection: a name, by which its services are made and kept.
    // On the accepting thread, at once after accept. An error refuses the connection.
    std::function<absl::StatusOr<std::string>(int fd)> attest;
    // Makes the services for a name at its first connection, on the accepting thread. An error
    // refuses the connection.
    std::function<absl::StatusOr<LocalServices>(const std::string& peer)> make;
    // Told about each refused connection, on the accepting thread; may be null.
    std::function<void(const absl::Status&)> refused{};
    // Servers are kept for at most this many peers, and each has at most so many connections;
    // further ones are refused.
    size_t max_peers = 256;
    size_t max_connections = 256;
  };

  // Makes the services for a uid at its first connection, on the accepting thread. An error refuses
  // the connection.
  using MakeServices = std::function<absl::StatusOr<LocalServices>(uid_t)>;
  // Told about each refused connection, on the accepting thread.
  using Refused = std::function<void(const absl::Status&)>;

  // Listens on `path` (at most 107 bytes, mode 0666: the folder's mode decides who may connect). A
  // dead socket that lies there is replaced; UNAVAILABLE if a live one does.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const std::string& path,
                                                            MakeServices make,
                                                            Refused refused = nullptr);
  // UNAVAILABLE if another process listens at the path.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(Options options);
  ~LocalServer();

  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Ends the peer's connections and forgets its services, soon, on the accepting thread;
  // thread-safe. Whoever answers its calls must end those that are open: no other peer is admitted
  // before they are over.
  void Drop(const std::string& peer);

  // Takes no new connections, waits for open calls up to `grace`. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  // An open descriptor and the socket behind it: when gRPC has closed it, its number may be that of
  // another.
  struct Connection {
    int fd = -1;
    ino_t inode = 0;
  };
  struct PeerServer {
    LocalServices services;
    std::unique_ptr<Server> server;
    std::vector<Connection> connections;
  };

  LocalServer(Options options, int listen_fd, int wake_read_fd, int wake_write_fd);

  void Accept();
  absl::Status Admit(int fd);
  // False if it is time to end.
  bool Wake();

  const Options options_;
  const int listen_fd_;
  const int wake_read_fd_;
  const int wake_write_fd_;
  // Touched by the accepting thread, and by Shutdown once that has ended.
  std::map<std::string, PeerServer> servers_;
  absl::Mutex mutex_;
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_
