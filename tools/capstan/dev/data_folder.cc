#include "tools/capstan/dev/data_folder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/config/proto_reader.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/proto_text.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::dev {
namespace {

// Below Linux' ip_local_port_range (32768–60999) and beside the Tasks' ports (20000–29999).
constexpr int kFirstPort = 30000;
constexpr int kLastPort = 32700;
constexpr char kLoopback[] = "127.0.0.1";

absl::Status MakeFolder(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return ErrnoStatus(errno, "making", path);
  // mkdir's mode is cut by the umask, and the folder may have been there.
  if (chmod(path.c_str(), mode) != 0) return ErrnoStatus(errno, "chmod", path);
  return absl::OkStatus();
}

// Folders above the data folder get the person's usual mode.
absl::Status MakeParents(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end);
    if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "making", parent);
    }
  }
  return absl::OkStatus();
}

bool IsFree(const std::string& host, int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Connections of a former server that linger must not make its port look taken.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return false;
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
         listen(fd.get(), 1) == 0;
}

int PortOf(const std::string& address) {
  int port = 0;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return 0;
  return port;
}

// Gives out ports that nobody has.
class PortChooser {
 public:
  // Keeps `*address` if it has a port that is good, else gives it one.
  absl::Status Choose(const std::string& host, bool may_replace, std::string* address) {
    const int kept = PortOf(*address);
    if (kept != 0 && absl::StartsWith(*address, absl::StrCat(host, ":")) &&
        (!may_replace || IsFree(host, kept)) && given_.insert(kept).second) {
      return absl::OkStatus();
    }
    // Different platforms of one machine begin at different places.
    for (int i = 0; i < kLastPort - kFirstPort; ++i) {
      const int port = kFirstPort + (getpid() * 37 + i) % (kLastPort - kFirstPort);
      if (given_.count(port) > 0 || !IsFree(host, port)) continue;
      given_.insert(port);
      *address = absl::StrCat(host, ":", port);
      return absl::OkStatus();
    }
    return status::Error(absl::StatusCode::kResourceExhausted, "NO_FREE_PORT",
                         absl::StrCat("no port from ", kFirstPort, " to ", kLastPort, " of ", host,
                                      " is free; is it an address of this machine?"));
  }

 private:
  std::set<int> given_;
};

}  // namespace

absl::StatusOr<DataFolder> DataFolder::Own(const std::string& path) {
  if (!absl::StartsWith(path, "/")) {
    return status::Error(absl::StatusCode::kInvalidArgument, "DATA_DIR_NOT_ABSOLUTE",
                         absl::StrCat("the data folder must be an absolute path, not ", path));
  }
  if (PersonSocket(path).size() >= sizeof(sockaddr_un::sun_path)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "DATA_DIR_TOO_LONG",
                         absl::StrCat("the path ", path,
                                      " is too long: Unix sockets below it take at most 107 bytes; "
                                      "choose a shorter --data-dir"));
  }
  CAPSTAN_RETURN_IF_ERROR(MakeParents(path));
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(path, 0711));
  const std::string lock_path = absl::StrCat(path, "/lock");
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, "opening", lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "PLATFORM_RUNNING",
        absl::StrCat("a platform is running in ", path,
                     "; see `capstan dev status`, stop it with `capstan dev down`"),
        {{"data_dir", path}});
  }
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(RunFolder(path), 0755));
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(LogFolder(path), 0700));
  return DataFolder(path, std::move(lock));
}

std::string UnfinishedRestoreFile(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/restore.unfinished");
}

absl::Status UnfinishedRestore(const std::string& data_dir) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "RESTORE_UNFINISHED",
                       absl::StrCat("a restore of the platform in ", data_dir,
                                    " was cut off: finish it by `capstan admin restore`"),
                       {{"data_dir", data_dir}});
}

absl::Status MakePartFolders(const std::string& data_dir, const cli::v1::PlatformConfig& config) {
  for (const PartSpec& part : PartsOf(config)) {
    // Tasks reach their own folders below the node agent's.
    const mode_t mode = part.service == kNodeAgent ? 0711 : 0700;
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(PartFolder(data_dir, part.name), mode));
  }
  return absl::OkStatus();
}

absl::StatusOr<cli::v1::Endpoints> KeepEndpoints(const std::string& data_dir,
                                                 const cli::v1::PlatformConfig& config,
                                                 bool may_replace) {
  cli::v1::Endpoints kept;
  const absl::Status read = config::ReadProtoFile(absl::StrCat(data_dir, "/endpoints.json"), &kept);
  if (!read.ok() && read.code() != absl::StatusCode::kNotFound) return read;
  const std::string host = config.host().empty() ? kLoopback : config.host();
  cli::v1::Endpoints endpoints = kept;
  endpoints.clear_parts();
  PortChooser ports;
  for (const PartSpec& part : PartsOf(config)) {
    cli::v1::Endpoints::Part& entry = (*endpoints.mutable_parts())[part.name];
    if (kept.parts().count(part.name) > 0) entry = kept.parts().at(part.name);
    if (part.has_server) {
      CAPSTAN_RETURN_IF_ERROR(ports.Choose(host, may_replace, entry.mutable_address()));
    }
    CAPSTAN_RETURN_IF_ERROR(ports.Choose(kLoopback, may_replace, entry.mutable_metrics_address()));
  }
  CAPSTAN_RETURN_IF_ERROR(ports.Choose(host, may_replace, endpoints.mutable_join_address()));
  endpoints.set_person_socket(PersonSocket(data_dir));
  endpoints.clear_traces();
  if (config.monitoring().has_traces()) {
    *endpoints.mutable_traces() = config.monitoring().traces();
  }
  CAPSTAN_RETURN_IF_ERROR(StoreEndpoints(data_dir, endpoints));
  return endpoints;
}

absl::Status StoreEndpoints(const std::string& data_dir, const cli::v1::Endpoints& endpoints) {
  return WriteFileAtomically(absl::StrCat(data_dir, "/endpoints.json"), cli::ToJson(endpoints),
                             0644);
}

}  // namespace capstan::dev
