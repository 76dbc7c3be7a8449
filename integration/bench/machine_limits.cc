#include "integration/bench/machine_limits.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "integration/bench/bench.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/dev/process.h"

namespace capstan::bench {
namespace {

constexpr size_t kPage = 4096;
// As large as the log of a database between two checkpoints.
constexpr size_t kPages = 1024;
constexpr size_t kWrite = size_t{4} << 20;
// Of what is signed in a certificate.
constexpr size_t kSigned = 512;

// A file that goes with this object.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder)
      : path_(absl::StrCat(folder, "/scratch")),
        fd_(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  absl::Status Write(const std::string& bytes, off_t at) const {
    if (pwrite(fd_.get(), bytes.data(), bytes.size(), at) != static_cast<ssize_t>(bytes.size())) {
      return ErrnoStatus(errno, "writing", path_);
    }
    return absl::OkStatus();
  }
  absl::Status Sync() const {
    if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "syncing", path_);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
};

}  // namespace

absl::StatusOr<double> SyncsPerSecond(const Clock* clock, const std::string& folder,
                                      absl::Duration time) {
  const ScratchFile file(folder);
  CAPSTAN_RETURN_IF_ERROR(file.Write(std::string(kPage * kPages, 'x'), 0));
  CAPSTAN_RETURN_IF_ERROR(file.Sync());
  const std::string page(kPage, 'y');
  const Stopwatch watch(clock);
  int64_t syncs = 0;
  while (watch.Elapsed() < time) {
    const auto at = static_cast<off_t>(static_cast<size_t>(syncs) % kPages * kPage);
    CAPSTAN_RETURN_IF_ERROR(file.Write(page, at));
    CAPSTAN_RETURN_IF_ERROR(file.Sync());
    ++syncs;
  }
  return static_cast<double>(syncs) / absl::ToDoubleSeconds(watch.Elapsed());
}

absl::StatusOr<double> SyncedMegabytesPerSecond(const Clock* clock, const std::string& folder,
                                                int64_t megabytes) {
  const ScratchFile file(folder);
  const std::string bytes(kWrite, 'x');
  const Stopwatch watch(clock);
  int64_t written = 0;
  while (written < megabytes * 1'000'000) {
    CAPSTAN_RETURN_IF_ERROR(file.Write(bytes, written));
    CAPSTAN_RETURN_IF_ERROR(file.Sync());
    written += static_cast<int64_t>(kWrite);
  }
  return static_cast<double>(written) / 1e6 / absl::ToDoubleSeconds(watch.Elapsed());
}

absl::StatusOr<double> SignaturesPerSecond(const Clock* clock, absl::Duration time) {
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
  const std::string text(kSigned, 'x');
  const Stopwatch watch(clock);
  int64_t signatures = 0;
  while (watch.Elapsed() < time) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    unsigned char signature[128];
    size_t size = sizeof signature;
    if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
        EVP_DigestSign(context.get(), signature, &size,
                       reinterpret_cast<const unsigned char*>(text.data()), text.size()) != 1) {
      return absl::InternalError("OpenSSL does not sign");
    }
    ++signatures;
  }
  return static_cast<double>(signatures) / absl::ToDoubleSeconds(watch.Elapsed());
}

absl::StatusOr<absl::Duration> RunToEnd(const Clock* clock, const std::vector<std::string>& argv,
                                        const std::vector<std::string>& environment) {
  dev::SpawnOptions spawn;
  spawn.argv = argv;
  spawn.environment = environment;
  spawn.output_file = "/dev/null";
  const Stopwatch watch(clock);
  CAPSTAN_ASSIGN_OR_RETURN(const dev::Child child, dev::Child::Spawn(spawn));
  int wait_status = 0;
  if (waitpid(child.id().pid, &wait_status, 0) < 0) return ErrnoStatus(errno, "awaiting", argv[0]);
  const absl::Duration elapsed = watch.Elapsed();
  if (wait_status != 0) {
    return absl::InternalError(
        absl::StrCat(argv.front(), " ended with ", dev::DescribeWaitStatus(wait_status)));
  }
  return elapsed;
}

int Cores() { return std::max(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), 1); }

}  // namespace capstan::bench
