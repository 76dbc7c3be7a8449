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

LocalServer::LocalServer(std::string path, int listen_fd, int wake_read_fd, int wake_write_fd,
                         MakeServices make, Refused refused)
    : path_(std::move(path)),
      listen_fd_(listen_fd),
      wake_read_fd_(wake_read_fd),
      wake_write_fd_(wake_write_fd),
      make_(std::move(make)),
      refused_(std::move(refused)),
      thread_([this] { Accept(); }) {}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const std::string& path,
                                                                MakeServices make,
                                                                Refused refused) {
  CAPSTAN_ASSIGN_OR_RETURN(const int listen_fd, Listen(path));
  int wake[2];
  if (pipe2(wake, O_CLOEXEC) != 0) {
    const int error = errno;
    close(listen_fd);
    return absl::ErrnoToStatus(error, "cannot make a pipe");
  }
  return std::unique_ptr<LocalServer>(
      new LocalServer(path, listen_fd, wake[0], wake[1], std::move(make), std::move(refused)));
}

LocalServer::~LocalServer() { Shutdown(absl::ZeroDuration()); }

void LocalServer::Shutdown(absl::Duration grace) {
  if (shut_down_) return;
  shut_down_ = true;
  unlink(path_.c_str());
  close(wake_write_fd_);
  thread_.join();
  close(listen_fd_);
  close(wake_read_fd_);
  for (auto& [uid, server] : servers_) server.server->Shutdown(grace);
  servers_.clear();
}

void LocalServer::Accept() {
  while (true) {
    pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {wake_read_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Out of descriptors: the connection stays in the backlog. Look again, but not at once.
      if (errno == EMFILE || errno == ENFILE) poll(&fds[1], 1, 100);
      continue;
    }
    const absl::Status status = Admit(fd);
    if (status.ok()) continue;
    close(fd);
    if (refused_) refused_(status);
  }
}

absl::Status LocalServer::Admit(int fd) {
  CAPSTAN_ASSIGN_OR_RETURN(const LocalPeer peer, PeerOfSocket(fd));
  auto it = servers_.find(peer.uid);
  if (it == servers_.end()) {
    if (servers_.size() >= kMaxUids) return absl::ResourceExhaustedError("too many users");
    UidServer made;
    CAPSTAN_ASSIGN_OR_RETURN(made.services, make_(peer.uid));
    ServerConfig config;
    config.services = made.services.services;
    CAPSTAN_ASSIGN_OR_RETURN(made.server, Server::Start(config));
    it = servers_.emplace(peer.uid, std::move(made)).first;
  }
  it->second.server->AddConnection(fd);
  return absl::OkStatus();
}

}  // namespace capstan::rpc
