#include "services/node_agent/adapters/local_workspace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

constexpr size_t kCopyBytes = 256 * 1024;

absl::Status GiveTo(int fd, int64_t uid, const std::string& path) {
  if (uid <= 0) return absl::OkStatus();
  const auto owner = static_cast<uid_t>(uid);
  return fchown(fd, owner, owner) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "chown", path);
}

absl::Status CopyFile(const SafeRoot& from, const SafeRoot& to, const std::string& path,
                      int64_t uid) {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd in, from.OpenFile(path, O_RDONLY));
  struct stat about;
  if (fstat(in.get(), &about) != 0) return ErrnoStatus(errno, "stat", path);
  const mode_t mode = (about.st_mode & S_IXUSR) != 0 ? 0755 : 0644;
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd out,
                           to.OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, mode));
  std::string buffer(kCopyBytes, '\0');
  for (;;) {
    const ssize_t got = read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) break;
    CAPSTAN_RETURN_IF_ERROR(
        WriteAll(out.get(), absl::string_view(buffer.data(), static_cast<size_t>(got)), path));
  }
  return GiveTo(out.get(), uid, path);
}

// The folders above `path`, outermost first, each made once and given to the Task.
absl::Status MakeParents(const SafeRoot& to, const std::string& path, int64_t uid) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (to.Stat(folder).ok()) continue;
    CAPSTAN_RETURN_IF_ERROR(to.MakeDirectories(folder));
    CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, to.OpenFile(folder, O_RDONLY | O_DIRECTORY));
    CAPSTAN_RETURN_IF_ERROR(GiveTo(fd.get(), uid, folder));
  }
  return absl::OkStatus();
}

// Makes an empty folder that is the Task's own; its parents are the platform's.
absl::Status MakeOwned(const std::string& path, mode_t mode, int64_t uid) {
  const size_t slash = path.rfind('/');
  const std::string parent = path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, SafeRoot::Open(parent));
  CAPSTAN_RETURN_IF_ERROR(root.RemoveTree(name));
  if (mkdirat(root.fd(), name.c_str(), mode) != 0) return ErrnoStatus(errno, "mkdir", path);
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(name, O_RDONLY | O_DIRECTORY));
  if (fchmod(fd.get(), mode) != 0) return ErrnoStatus(errno, "chmod", path);
  return GiveTo(fd.get(), uid, path);
}

absl::Status DoFurnish(const Furnish& order) {
  const std::string work = absl::StrCat(order.folder, "/work");
  CAPSTAN_RETURN_IF_ERROR(MakeOwned(work, 0700, order.unix_uid));
  if (!order.output_directory.empty()) {
    CAPSTAN_RETURN_IF_ERROR(MakeOwned(order.output_directory, 0700, order.unix_uid));
  }
  if (order.bundle_directory.empty()) return absl::OkStatus();
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot from, SafeRoot::Open(order.bundle_directory));
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot to, SafeRoot::Open(work));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> files, from.ListFiles(""));
  for (const std::string& path : files) {
    CAPSTAN_RETURN_IF_ERROR(MakeParents(to, path, order.unix_uid));
    CAPSTAN_RETURN_IF_ERROR(CopyFile(from, to, path, order.unix_uid));
  }
  return absl::OkStatus();
}

absl::Status DoDiscard(const std::string& directory) {
  const size_t slash = directory.rfind('/');
  if (directory.empty() || slash == std::string::npos || slash == 0) return absl::OkStatus();
  const absl::StatusOr<SafeRoot> root = SafeRoot::Open(directory.substr(0, slash));
  // The generation's staging root may be gone already.
  if (absl::IsNotFound(root.status())) return absl::OkStatus();
  CAPSTAN_RETURN_IF_ERROR(root.status());
  return root->RemoveTree(directory.substr(slash + 1));
}

class LocalWorkspace final : public Workspace {
 public:
  LocalWorkspace(Strand* strand, Strand* files) : strand_(strand), files_(files) {}

  void Furnish(const struct Furnish& order, DoneCallback done) override {
    files_->Post([strand = strand_, order, done = std::move(done)]() mutable {
      strand->Post([done = std::move(done), status = DoFurnish(order)]() mutable { done(status); });
    });
  }

  void DiscardOutput(const std::string& directory, DoneCallback done) override {
    files_->Post([strand = strand_, directory, done = std::move(done)]() mutable {
      strand->Post(
          [done = std::move(done), status = DoDiscard(directory)]() mutable { done(status); });
    });
  }

 private:
  Strand* const strand_;
  Strand* const files_;
};

}  // namespace

std::unique_ptr<Workspace> MakeLocalWorkspace(Strand* strand, Strand* files) {
  return std::make_unique<LocalWorkspace>(strand, files);
}

}  // namespace capstan::node_agent
