#include "libs/rpc/local_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::rpc {
namespace {

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] == '\0' || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a socket's path has 1 to 107 bytes, this one ", path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// True if someone accepts connections at `address`.
bool IsLive(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;
}

// A listening socket at `path`.
absl::StatusOr<int> Listen(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  if (IsLive(address)) {
    return status::Error(absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
                         absl::StrCat("another process listens on ", path), {{"address", path}});
  }
  struct stat found;
  if (lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot make a socket");
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), 0666) != 0 || listen(fd, 128) != 0) {
    const int error = errno;
    close(fd);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot listen on ", path));
  }
  return fd;
}

}  // namespace

LocalServer::LocalServer(Options options, int listen_fd, int wake_read_fd, int wake_write_fd)
    : options_(std::move(options)),
      listen_fd_(listen_fd),
      wake_read_fd_(wake_read_fd),
      wake_write_fd_(wake_write_fd),
      thread_([this] { Accept(); }) {}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const std::string& path,
                                                                MakeServices make,
                                                                Refused refused) {
  Options options;
  options.path = path;
  options.attest = [](int fd) -> absl::StatusOr<std::string> {
    CAPSTAN_ASSIGN_OR_RETURN(const LocalPeer peer, PeerOfSocket(fd));
    return absl::StrCat(peer.uid);
  };
  options.make = [make = std::move(make)](const std::string& peer) {
    uid_t uid = 0;
    // The name that was made of one just above.
    return absl::SimpleAtoi(peer, &uid) ? make(uid) : absl::InternalError("no uid");
  };
  options.refused = std::move(refused);
  return Start(std::move(options));
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(Options options) {
  CAPSTAN_ASSIGN_OR_RETURN(const int listen_fd, Listen(options.path));
  int wake[2];
  if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    const int error = errno;
    close(listen_fd);
    return absl::ErrnoToStatus(error, "cannot make a pipe");
  }
  return std::unique_ptr<LocalServer>(
      new LocalServer(std::move(options), listen_fd, wake[0], wake[1]));
}

LocalServer::~LocalServer() { Shutdown(absl::ZeroDuration()); }

void LocalServer::Shutdown(absl::Duration grace) {
  {
    absl::MutexLock lock(&mutex_);
    if (shut_down_) return;
    shut_down_ = true;
    close(wake_write_fd_);
  }
  unlink(options_.path.c_str());
  thread_.join();
  close(listen_fd_);
  close(wake_read_fd_);
  for (auto& [peer, server] : servers_) server.server->Shutdown(grace);
  servers_.clear();
}

void LocalServer::Drop(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return;
  dropped_.push_back(peer);
  // A full pipe wakes the thread as well.
  const ssize_t ignored = write(wake_write_fd_, "", 1);
  static_cast<void>(ignored);
}

bool LocalServer::Wake() {
  char bytes[64];
  ssize_t size = 0;
  while ((size = read(wake_read_fd_, bytes, sizeof bytes)) > 0) {
  }
  if (size == 0) return false;
  std::vector<std::string> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped.swap(dropped_);
  }
  for (const std::string& peer : dropped) {
    const auto it = servers_.find(peer);
    if (it == servers_.end()) continue;
    it->second.server->Shutdown(absl::ZeroDuration());
    servers_.erase(it);
  }
  return true;
}

void LocalServer::Accept() {
  while (true) {
    pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {wake_read_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0 && !Wake()) return;
    if (fds[0].revents == 0) continue;
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Out of descriptors: the connection stays in the backlog. Look again, but not at once.
      if (errno == EMFILE || errno == ENFILE) poll(&fds[1], 1, 100);
      continue;
    }
    const absl::Status status = Admit(fd);
    if (status.ok()) continue;
    close(fd);
    if (options_.refused) options_.refused(status);
  }
}

absl::Status LocalServer::Admit(int fd) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string peer, options_.attest(fd));
  auto it = servers_.find(peer);
  if (it == servers_.end()) {
    if (servers_.size() >= options_.max_peers) {
      return absl::ResourceExhaustedError("too many peers");
    }
    PeerServer made;
    CAPSTAN_ASSIGN_OR_RETURN(made.services, options_.make(peer));
    ServerConfig config;
    config.services = made.services.services;
    config.max_connection_age = made.services.max_connection_age;
    CAPSTAN_ASSIGN_OR_RETURN(made.server, Server::Start(config));
    it = servers_.emplace(peer, std::move(made)).first;
  }
  std::vector<Connection>& connections = it->second.connections;
  struct stat info;
  std::erase_if(connections, [&info](const Connection& connection) {
    return fstat(connection.fd, &info) != 0 || info.st_ino != connection.inode;
  });
  if (connections.size() >= options_.max_connections) {
    return absl::ResourceExhaustedError("too many connections of one peer");
  }
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "fstat");
  connections.push_back({fd, info.st_ino});
  it->second.server->AddConnection(fd);
  return absl::OkStatus();
}

}  // namespace capstan::rpc
