#include "services/credentials/adapters/person_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "libs/rpc/callback_threads.h"
#include "libs/status/error.h"
#include "services/credentials/adapters/local_peer.h"

namespace capstan::credentials {
namespace {

// Larger than any certificate request.
constexpr int kMaxMessage = 64 * 1024;

absl::Status Failed(absl::string_view what, const std::string& path) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "PERSON_SOCKET",
                       absl::StrCat("Could not ", what, " the people's socket `", path,
                                    "`: ", strerror(errno)),
                       {{"path", path}});
}

absl::Status TooMany(absl::string_view message) {
  return status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CONNECTIONS", message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PersonSocket>> PersonSocket::Start(Options options) {
  rpc::KeepCallbackThreads();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (options.path.empty() || options.path.size() >= sizeof(address.sun_path)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "SOCKET_PATH_TOO_LONG",
                         absl::StrCat("The path of the people's socket, `", options.path,
                                      "`, must have 1 to 107 bytes."));
  }
  std::copy(options.path.begin(), options.path.end(), address.sun_path);
  struct stat existing;
  if (lstat(options.path.c_str(), &existing) == 0 && S_ISSOCK(existing.st_mode)) {
    unlink(options.path.c_str());
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int socket =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (wake < 0 || socket < 0 ||
      bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      // Anyone may knock; who it is decides what happens.
      chmod(options.path.c_str(), 0666) != 0 || listen(socket, 64) != 0) {
    const absl::Status status = Failed("serve", options.path);
    if (wake >= 0) close(wake);
    if (socket >= 0) close(socket);
    return status;
  }
  std::unique_ptr<PersonSocket> result(new PersonSocket(std::move(options), socket, wake));
  result->thread_ = std::thread([raw = result.get()] { raw->Loop(); });
  return result;
}

PersonSocket::~PersonSocket() {
  const uint64_t one = 1;
  // Cannot fail: the counter is far from full.
  if (write(wake_, &one, sizeof(one)) != sizeof(one)) std::abort();
  thread_.join();
  close(socket_);
  close(wake_);
  unlink(options_.path.c_str());
  for (auto& [uid, person] : persons_) {
    person.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
  for (auto& [uid, person] : persons_) person.server->Wait();
}

void PersonSocket::Loop() {
  pthread_setname_np(pthread_self(), "person-socket");
  for (;;) {
    pollfd ready[2] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                       {.fd = socket_, .events = POLLIN, .revents = 0}};
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[0].revents != 0) return;
    if (ready[1].revents == 0) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      // Out of descriptors: the connection stays in the backlog; do not spin on it.
      if (errno == EMFILE || errno == ENFILE) poll(ready, 1, 100);
      continue;
    }
    if (const absl::Status status = Admit(connection); !status.ok()) {
      close(connection);
      options_.on_refused(status);
    }
  }
}

absl::Status PersonSocket::Admit(int connection) {
  const absl::StatusOr<int64_t> uid = UidOfPeer(connection);
  if (!uid.ok()) return uid.status();
  absl::StatusOr<Person*> person = PersonOf(*uid);
  if (!person.ok()) return person.status();
  const BootTime now = options_.clock->Read().boot;
  (*person)->allowance =
      std::min(kBurst, (*person)->allowance +
                           kPerSecond * absl::ToDoubleSeconds(now - (*person)->counted));
  (*person)->counted = now;
  if ((*person)->allowance < 1) {
    return TooMany(absl::StrCat("Uid ", *uid, " connects too often."));
  }
  (*person)->allowance -= 1;
  grpc::AddInsecureChannelFromFd((*person)->server.get(), connection);
  return absl::OkStatus();
}

absl::StatusOr<PersonSocket::Person*> PersonSocket::PersonOf(int64_t uid) {
  const auto known = persons_.find(uid);
  if (known != persons_.end()) return &known->second;
  if (persons_.size() >= kMaxUids) return TooMany("Too many users of this machine have connected.");
  Person person;
  person.service = options_.make_service(uid);
  person.counted = options_.clock->Read().boot;
  grpc::ServerBuilder builder;
  builder.RegisterService(person.service.get());
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 5'000);
  person.server = builder.BuildAndStart();
  if (person.server == nullptr) {
    return status::Error(absl::StatusCode::kInternal, "PERSON_SOCKET",
                         "The server of a person could not be started.");
  }
  return &persons_.emplace(uid, std::move(person)).first->second;
}

}  // namespace capstan::credentials
