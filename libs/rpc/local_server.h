#ifndef CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_
#define CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/local_peer.h"
#include "libs/rpc/server.h"

namespace capstan::rpc {

// The services for one uid; `owner` keeps the implementations.
struct LocalServices {
  std::vector<RegisteredService> services;
  std::shared_ptr<void> owner;
};

// gRPC on a Unix socket whose callers are known by the kernel. gRPC 1.51 says nothing about the
// peer of a Unix socket to handlers, so this class accepts connections itself, asks the kernel
// (PeerOfSocket), and hands each to a gRPC server of that uid's own, whose services were made for
// that uid. To the access check these callers are anonymous: only methods for CALLER_ANONYMOUS can
// be served. Clients use an ordinary insecure channel to `unix:<path>`.
class LocalServer {
 public:
  // Servers are kept for at most this many uids; connections of further ones are refused.
  static constexpr size_t kMaxUids = 256;

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
  ~LocalServer();

  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Takes no new connections, waits for open calls up to `grace`. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  struct UidServer {
    LocalServices services;
    std::unique_ptr<Server> server;
  };

  LocalServer(std::string path, int listen_fd, int wake_read_fd, int wake_write_fd,
              MakeServices make, Refused refused);

  void Accept();
  absl::Status Admit(int fd);

  const std::string path_;
  const int listen_fd_;
  const int wake_read_fd_;
  const int wake_write_fd_;
  const MakeServices make_;
  const Refused refused_;
  // Touched by the accepting thread, and by Shutdown once that has ended.
  std::map<uid_t, UidServer> servers_;
  bool shut_down_ = false;
  std::thread thread_;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_LOCAL_SERVER_H_
