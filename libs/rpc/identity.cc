#include "libs/rpc/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::rpc {
namespace {

constexpr char kSvidFile[] = "/svid.pem";
constexpr char kBundleFile[] = "/bundle.pem";
constexpr size_t kMaxFileSize = 1 << 20;

absl::Status ErrnoError(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError("open", path);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  std::string bytes;
  char buffer[4096];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("read", path);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > kMaxFileSize) return absl::DataLossError(absl::StrCat(path, " is too big"));
  }
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// gRPC's file watcher tells a swap between its reads of key and chain by the whole seconds of the
// file's modification time, so each version gets a later second than the one before.
void RaiseModificationTime(int fd, const std::string& replaced_path) {
  struct stat replaced;
  struct stat written;
  if (stat(replaced_path.c_str(), &replaced) != 0 || fstat(fd, &written) != 0) return;
  timespec times[2] = {written.st_atim, written.st_mtim};
  times[1].tv_sec = std::max(written.st_mtim.tv_sec, replaced.st_mtim.tv_sec + 1);
  futimens(fd, times);
}

absl::Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoError("open", folder);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (fsync(fd) != 0) return ErrnoError("sync", folder);
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& folder, const std::string& path,
                         absl::string_view bytes) {
  const std::string temporary = absl::StrCat(path, ".new");
  unlink(temporary.c_str());
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError("create", temporary);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd, bytes, temporary));
  RaiseModificationTime(fd, path);
  if (fsync(fd) != 0) return ErrnoError("sync", temporary);
  CrashPoint(crash::kIdentityBeforeRename);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoError("rename", temporary);
  CrashPoint(crash::kIdentityRenamed);
  return SyncFolder(folder);
}

// Fails unless key, chain and bundle make an identity.
absl::StatusOr<std::shared_ptr<const IdentitySnapshot>> MakeSnapshot(Svid svid) {
  if (svid.chain.empty()) return absl::InvalidArgumentError("the SVID has no certificate");
  if (svid.bundle.empty()) return absl::InvalidArgumentError("the trust bundle is empty");
  CAPSTAN_ASSIGN_OR_RETURN(const PrivateKey key, PrivateKey::FromPem(svid.key_pem));
  CAPSTAN_ASSIGN_OR_RETURN(const Certificate leaf, ParseCertificate(svid.chain[0]));
  if (key.PublicKey() != leaf.public_key) {
    return absl::InvalidArgumentError("the key is not that of the certificate");
  }
  if (leaf.is_ca) return absl::InvalidArgumentError("the first certificate is not a leaf");
  auto snapshot = std::make_shared<IdentitySnapshot>();
  CAPSTAN_ASSIGN_OR_RETURN(snapshot->id, auth::SpiffeId::Parse(leaf.uri));
  for (const std::string& root : svid.bundle) {
    CAPSTAN_ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(root));
    if (!parsed.is_ca) return absl::InvalidArgumentError("the bundle holds a leaf");
  }
  snapshot->serial = leaf.serial;
  snapshot->not_before = leaf.not_before;
  snapshot->not_after = leaf.not_after;
  snapshot->svid = std::move(svid);
  return snapshot;
}

absl::Status WriteFiles(const std::string& folder, const Svid& svid) {
  // Bundle first: with an old one the new chain might not verify.
  CAPSTAN_RETURN_IF_ERROR(
      ReplaceFile(folder, folder + kBundleFile, CertificatesToPem(svid.bundle)));
  return ReplaceFile(
      folder, folder + kSvidFile,
      absl::StrCat(svid.key_pem, CertificatesToPem(svid.chain), CertificatesToPem(svid.bundle)));
}

}  // namespace

Identity::Identity(std::string folder, std::shared_ptr<const IdentitySnapshot> snapshot)
    : folder_(std::move(folder)),
      spiffe_id_(snapshot->id.ToString()),
      trust_domain_(snapshot->id.trust_domain),
      snapshot_(std::move(snapshot)) {}

std::string Identity::svid_path() const { return folder_ + kSvidFile; }

absl::StatusOr<std::shared_ptr<Identity>> Identity::Load(const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string svid_pem, ReadFile(folder + kSvidFile));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bundle_pem, ReadFile(folder + kBundleFile));
  const auto damaged = [&folder](const absl::Status& status) {
    return status::Error(absl::StatusCode::kDataLoss, "IDENTITY_DAMAGED",
                         absl::StrCat("the identity in ", folder, ": ", status.message()),
                         {{"folder", folder}});
  };
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(svid_pem);
  if (!key.ok()) return damaged(key.status());
  absl::StatusOr<std::vector<std::string>> all = CertificatesFromPem(svid_pem);
  if (!all.ok()) return damaged(all.status());
  absl::StatusOr<std::vector<std::string>> bundle = CertificatesFromPem(bundle_pem);
  if (!bundle.ok()) return damaged(bundle.status());
  Svid svid;
  svid.key_pem = key->ToPem();
  svid.bundle = *std::move(bundle);
  for (std::string& der : *all) {
    absl::StatusOr<Certificate> certificate = ParseCertificate(der);
    if (!certificate.ok()) return damaged(certificate.status());
    if (certificate->self_issued) break;
    svid.chain.push_back(std::move(der));
  }
  absl::StatusOr<std::shared_ptr<const IdentitySnapshot>> snapshot = MakeSnapshot(std::move(svid));
  if (!snapshot.ok()) return damaged(snapshot.status());
  return std::shared_ptr<Identity>(new Identity(folder, *std::move(snapshot)));
}

absl::StatusOr<std::shared_ptr<Identity>> Identity::Store(const std::string& folder, Svid svid) {
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<const IdentitySnapshot> snapshot,
                           MakeSnapshot(std::move(svid)));
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoError("create", folder);
  CAPSTAN_RETURN_IF_ERROR(WriteFiles(folder, snapshot->svid));
  return std::shared_ptr<Identity>(new Identity(folder, std::move(snapshot)));
}

std::shared_ptr<const IdentitySnapshot> Identity::Get() const {
  absl::ReaderMutexLock lock(&mutex_);
  return snapshot_;
}

absl::Status Identity::Replace(Svid svid) {
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<const IdentitySnapshot> snapshot,
                           MakeSnapshot(std::move(svid)));
  if (snapshot->id.ToString() != spiffe_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the new SVID is of ", snapshot->id.ToString(), ", not of ", spiffe_id_));
  }
  absl::MutexLock write_lock(&write_mutex_);
  CAPSTAN_RETURN_IF_ERROR(WriteFiles(folder_, snapshot->svid));
  absl::MutexLock lock(&mutex_);
  snapshot_ = std::move(snapshot);
  return absl::OkStatus();
}

std::shared_ptr<void> Identity::GetOrMakeAttachment(
    absl::FunctionRef<std::shared_ptr<void>()> make) const {
  absl::MutexLock lock(&attachment_mutex_);
  if (attachment_ == nullptr) attachment_ = make();
  return attachment_;
}

}  // namespace capstan::rpc
