#include "services/credentials/adapters/file_key_keeper.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/folder_names.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/aead.h"

namespace capstan::credentials {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  return status::Error(
      error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition,
      "KEY_KEEPER_FILE",
      absl::StrCat("Could not ", what, " the key keeper's file `", path, "`: ", strerror(error)),
      {{"path", path}});
}

absl::Status Unsafe(absl::string_view why, const std::string& path) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "KEY_KEEPER_FILE_UNSAFE",
                       absl::StrCat("The key keeper's file `", path, "` ", why), {{"path", path}});
}

bool Exists(const std::string& path) {
  struct stat attributes;
  return lstat(path.c_str(), &attributes) == 0;
}

// What Create calls a key before it is in its place.
constexpr size_t kSuffixBytes = 8;

// A process that was killed in Create leaves a key that is never used, or a second name of the one
// that is. Once there is one, none of these gets into its place any more.
void RemoveLeftovers(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string prefix = path.substr(folder.size()) + ".";
  for (const std::string& name : FolderNames(folder.empty() ? "." : folder)) {
    absl::string_view suffix = name;
    if (!absl::ConsumePrefix(&suffix, prefix) || suffix.size() != 2 * kSuffixBytes ||
        suffix.find_first_not_of("0123456789abcdef") != absl::string_view::npos) {
      continue;
    }
    unlink((folder + name).c_str());
  }
}

// Under another name first, so that a crash leaves either no file or a whole one; a link, not a
// rename, so that an existing one is never replaced.
absl::Status Create(const std::string& path, SecretSource* source) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string key, source->Bytes(kAeadKeySize));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string suffix, source->Bytes(kSuffixBytes));
  const std::string temporary = absl::StrCat(path, ".", absl::BytesToHexString(suffix));
  {
    const FileDescriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool written =
        file.get() >= 0 &&
        write(file.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size()) &&
        fsync(file.get()) == 0;
    const int error = errno;
    OPENSSL_cleanse(key.data(), key.size());
    if (!written) {
      unlink(temporary.c_str());
      return Failed("write", path, error);
    }
  }
  CrashPoint(crash::kCredentialsKeyWritten);
  const int linked = link(temporary.c_str(), path.c_str());
  const int error = errno;
  CrashPoint(crash::kCredentialsKeyLinked);
  unlink(temporary.c_str());
  // Another process has made it: then it may have removed ours as a leftover, too.
  const bool made_by_another = error == EEXIST || (error == ENOENT && Exists(path));
  if (linked != 0 && !made_by_another) return Failed("make", path, error);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor parent(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || fsync(parent.get()) != 0) return Failed("sync", path, errno);
  return absl::OkStatus();
}

}  // namespace

FileKeyKeeper::FileKeyKeeper(std::string key, SecretSource* source)
    : key_(std::move(key)),
      key_id_(absl::StrCat("file:", absl::BytesToHexString(Sha256::Of(key_).substr(0, 8)))),
      source_(source) {}

FileKeyKeeper::~FileKeyKeeper() { OPENSSL_cleanse(key_.data(), key_.size()); }

absl::StatusOr<std::unique_ptr<FileKeyKeeper>> FileKeyKeeper::Open(const std::string& path,
                                                                   bool create,
                                                                   SecretSource* source) {
  if (create && !Exists(path) && errno == ENOENT) {
    CAPSTAN_RETURN_IF_ERROR(Create(path, source));
  }
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) return Failed("open", path, errno);
  struct stat attributes;
  if (fstat(file.get(), &attributes) != 0) return Failed("examine", path, errno);
  if (!S_ISREG(attributes.st_mode)) return Unsafe("is not a regular file.", path);
  if (attributes.st_uid != geteuid()) return Unsafe("belongs to another user.", path);
  if ((attributes.st_mode & 077) != 0) {
    return Unsafe("can be read by others; its mode must be 0600.", path);
  }
  std::string key(kAeadKeySize + 1, '\0');
  const ssize_t size = read(file.get(), key.data(), key.size());
  if (size < 0) return Failed("read", path, errno);
  if (size != static_cast<ssize_t>(kAeadKeySize)) return Unsafe("must hold 32 bytes.", path);
  key.resize(kAeadKeySize);
  RemoveLeftovers(path);
  return std::unique_ptr<FileKeyKeeper>(new FileKeyKeeper(std::move(key), source));
}

absl::StatusOr<std::string> FileKeyKeeper::Wrap(absl::string_view data_key,
                                                absl::string_view context) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string nonce, source_->Bytes(kAeadNonceSize));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string sealed, AeadSeal(key_, nonce, data_key, context));
  return nonce + sealed;
}

absl::StatusOr<std::string> FileKeyKeeper::Unwrap(absl::string_view wrapped,
                                                  absl::string_view context) {
  const absl::string_view nonce = wrapped.substr(0, kAeadNonceSize);
  return AeadOpen(key_, nonce, wrapped.substr(nonce.size()), context);
}

}  // namespace capstan::credentials
