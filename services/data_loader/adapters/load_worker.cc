#include "services/data_loader/adapters/load_worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/content/manifest.h"
#include "libs/content/part_journal.h"
#include "libs/content/publish.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/adapters/open_source.h"
#include "services/data_loader/core/load_plan.pb.h"
#include "services/data_loader/core/part_plan.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr size_t kMaxPlan = 256 << 20;

// Copies the parts that are not in the journal.
class PartCopier {
 public:
  PartCopier(const DataSource* source, const SafeRoot* staged, const LoadPlan* plan,
             content::PartJournal* journal, const LoadListener* listener,
             const std::atomic<bool>* stop)
      : source_(source),
        staged_(staged),
        plan_(plan),
        journal_(journal),
        listener_(listener),
        stop_(stop) {}

  // `source_bytes_read` are those of earlier attempts.
  absl::Status Run(const std::vector<Part>& parts, int parallel, int64_t source_bytes_read);
  int64_t source_bytes_read() {
    absl::MutexLock lock(&mutex_);
    return source_bytes_read_;
  }

 private:
  void Work(const std::vector<Part>& todo);
  absl::Status Copy(const Part& part);
  void Read(int64_t bytes);

  const DataSource* const source_;
  const SafeRoot* const staged_;
  const LoadPlan* const plan_;
  content::PartJournal* const journal_;
  const LoadListener* const listener_;
  const std::atomic<bool>* const stop_;
  std::atomic<size_t> next_ = 0;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t loaded_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t source_bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status PartCopier::Run(const std::vector<Part>& parts, int parallel,
                             int64_t source_bytes_read) {
  std::vector<Part> todo;
  int64_t found_bytes = 0;
  for (const Part& part : parts) {
    if (journal_->found().count({part.file, part.index}) == 0) {
      todo.push_back(part);
    } else {
      found_bytes += part.size;
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    loaded_bytes_ = found_bytes;
    source_bytes_read_ = std::max(source_bytes_read, found_bytes);
    listener_->progressed(loaded_bytes_, source_bytes_read_);
  }
  std::vector<std::thread> threads;
  const int count = std::min<int>(parallel, static_cast<int>(todo.size()));
  for (int i = 1; i < count; ++i) threads.emplace_back([this, &todo] { Work(todo); });
  if (count > 0) Work(todo);
  for (std::thread& thread : threads) thread.join();
  absl::MutexLock lock(&mutex_);
  return status_;
}

void PartCopier::Work(const std::vector<Part>& todo) {
  while (true) {
    const size_t i = next_++;
    if (i >= todo.size()) return;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
    }
    const absl::Status copied = Copy(todo[i]);
    absl::MutexLock lock(&mutex_);
    if (!copied.ok()) {
      if (status_.ok()) status_ = copied;
      return;
    }
    loaded_bytes_ += todo[i].size;
    listener_->progressed(loaded_bytes_, source_bytes_read_);
  }
}

void PartCopier::Read(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  source_bytes_read_ += bytes;
}

absl::Status PartCopier::Copy(const Part& part) {
  const LoadPlan::File& file = plan_->files(part.file);
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd out,
                           staged_->OpenFile(file.path(), O_WRONLY | O_CREAT, 0600));
  int64_t at = part.offset;
  const auto write = [&](absl::string_view bytes) -> absl::Status {
    if (*stop_) return absl::CancelledError("stopped");
    Read(static_cast<int64_t>(bytes.size()));
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(out.get(), bytes.data(), bytes.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", file.path());
      at += n;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  };
  CAPSTAN_RETURN_IF_ERROR(source_->Read(file, part.offset, part.size, write));
  if (::fdatasync(out.get()) != 0) return ErrnoStatus(errno, "fdatasync", file.path());
  CrashPoint(crash::kLoaderPartSynced);
  CAPSTAN_RETURN_IF_ERROR(journal_->Append({part.file, part.index}));
  CrashPoint(crash::kLoaderPartNoted);
  return absl::OkStatus();
}

// Parts of what the source gives only whole are one.
std::vector<Part> PartsOf(const LoadPlan& plan, const std::vector<int64_t>& sizes) {
  std::vector<Part> parts = PlanParts(sizes, plan.part_bytes());
  parts.erase(std::remove_if(parts.begin(), parts.end(),
                             [&plan](const Part& part) {
                               return plan.files(part.file).whole() && part.index > 0;
                             }),
              parts.end());
  for (Part& part : parts) {
    if (plan.files(part.file).whole()) part.size = sizes[static_cast<size_t>(part.file)];
  }
  return parts;
}

std::string LoadFolder(const std::string& load) {
  return absl::StrCat("staging/loads/", load.substr(load.rfind('/') + 1));
}

absl::StatusOr<LoadPlan> ReadOrMakePlan(const SafeRoot& site, const DataSource& source,
                                        const StartLoad& load, const LoadOptions& options) {
  const std::string path = LoadFolder(load.load) + "/plan.binpb";
  LoadPlan plan;
  absl::StatusOr<UniqueFd> fd = site.OpenFile(path, O_RDONLY);
  if (fd.ok()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd->get(), kMaxPlan, path));
    if (plan.ParseFromString(bytes)) return plan;
    return status::Error(absl::StatusCode::kDataLoss, "PLAN_CORRUPT",
                         absl::StrCat("plan of '", load.load, "' can't be parsed"));
  }
  if (!absl::IsNotFound(fd.status())) return fd.status();
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<LoadPlan::File> files, source.List(load.objects));
  for (LoadPlan::File& file : files) *plan.add_files() = std::move(file);
  plan.set_part_bytes(options.part_bytes);
  CAPSTAN_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(site.path(), "/", path), plan.SerializeAsString(), 0600));
  CrashPoint(crash::kLoaderPlanned);
  return plan;
}

// What an attempt that was killed between publishing and its report has published, if anything.
absl::StatusOr<absl::optional<Published>> FindPublished(const SafeRoot& site,
                                                        const StartLoad& load) {
  const std::string path = LoadFolder(load.load) + "/digest";
  absl::StatusOr<UniqueFd> fd = site.OpenFile(path, O_RDONLY);
  if (absl::IsNotFound(fd.status())) return absl::optional<Published>();
  CAPSTAN_RETURN_IF_ERROR(fd.status());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string digest, ReadAll(fd->get(), 100, path));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string hex, content::DigestHex(digest));
  const std::string version = "versions/" + hex;
  if (!site.Stat(version).ok()) return absl::optional<Published>();
  CAPSTAN_ASSIGN_OR_RETURN(fd, site.OpenFile(version + ".manifest", O_RDONLY));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd->get(), kMaxPlan, version));
  Manifest manifest;
  if (!manifest.ParseFromString(bytes)) {
    return status::Error(absl::StatusCode::kDataLoss, "MANIFEST_CORRUPT",
                         absl::StrCat("manifest of '", version, "' can't be parsed"));
  }
  return absl::optional<Published>(Published{digest, content::TotalBytes(manifest),
                                             manifest.files_size(), load.source_bytes_read});
}

absl::StatusOr<Published> Load(const SafeRoot& site, const StartLoad& load,
                               const LoadOptions& options, const LoadListener& listener,
                               const std::atomic<bool>& stop) {
  const std::string folder = LoadFolder(load.load);
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataSource> source,
      OpenDataSource(load.source_uri, options.allowed_source_roots, options.http, stop));
  CAPSTAN_RETURN_IF_ERROR(site.MakeDirectories(folder + "/files", 0700));
  CAPSTAN_ASSIGN_OR_RETURN(const absl::optional<Published> before, FindPublished(site, load));
  if (before.has_value()) return *before;
  CAPSTAN_ASSIGN_OR_RETURN(const LoadPlan plan, ReadOrMakePlan(site, *source, load, options));
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot staged, site.Descend(folder + "/files"));
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const LoadPlan::File& file : plan.files()) {
    sizes.push_back(file.size_bytes());
    total += file.size_bytes();
    const size_t slash = file.path().rfind('/');
    if (slash != std::string::npos) {
      CAPSTAN_RETURN_IF_ERROR(staged.MakeDirectories(file.path().substr(0, slash), 0700));
    }
  }
  CAPSTAN_RETURN_IF_ERROR(listener.planned(total));

  CAPSTAN_ASSIGN_OR_RETURN(content::PartJournal journal,
                           content::PartJournal::Open(site, folder + "/parts.journal"));
  PartCopier copier(source.get(), &staged, &plan, &journal, &listener, &stop);
  CAPSTAN_RETURN_IF_ERROR(
      copier.Run(PartsOf(plan, sizes), options.parallel_parts, load.source_bytes_read));
  for (const LoadPlan::File& file : plan.files()) {
    if (stop) return absl::CancelledError("stopped");
    CAPSTAN_RETURN_IF_ERROR(source->CheckUnchanged(file));
  }

  listener.publishing();
  CAPSTAN_ASSIGN_OR_RETURN(Manifest manifest, content::HashFolder(site, folder + "/files", stop));
  if (manifest.files_size() != plan.files_size()) {
    return status::Error(
        absl::StatusCode::kDataLoss, "STAGED_FILES_LOST",
        absl::StrCat("staged ", manifest.files_size(), " files of ", plan.files_size()));
  }
  for (int i = 0; i < plan.files_size(); ++i) {
    if (!plan.files(i).sha256().empty() && plan.files(i).sha256() != manifest.files(i).sha256()) {
      return status::Error(absl::StatusCode::kDataLoss, "DIGEST_MISMATCH",
                           absl::StrCat("object '", absl::CHexEscape(plan.files(i).path()),
                                        "' is not what the digest that its source gives says"),
                           {{"object", plan.files(i).path()}});
    }
    if (manifest.files(i).size_bytes() == plan.files(i).size_bytes()) continue;
    return status::Error(absl::StatusCode::kDataLoss, "STAGED_FILES_LOST",
                         absl::StrCat("staged file '", plan.files(i).path(), "' has ",
                                      manifest.files(i).size_bytes(), " bytes; planned ",
                                      plan.files(i).size_bytes()));
  }
  const std::string digest = content::ManifestDigest(manifest);
  CAPSTAN_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(site.path(), "/", folder, "/digest"), digest, 0600));
  CrashPoint(crash::kLoaderDigestNoted);
  CAPSTAN_RETURN_IF_ERROR(content::PublishFolder(site, folder + "/files", "versions", manifest));
  CrashPoint(crash::kLoaderPublished);
  return Published{digest, total, manifest.files_size(), copier.source_bytes_read()};
}

}  // namespace

absl::StatusOr<Published> RunLoad(const SafeRoot& site, const StartLoad& load,
                                  const LoadOptions& options, const LoadListener& listener,
                                  const std::atomic<bool>& stop) {
  absl::StatusOr<Published> result = Load(site, load, options, listener, stop);
  if (!absl::IsCancelled(result.status())) {
    const absl::Status removed = site.RemoveTree(LoadFolder(load.load));
    if (result.ok() && !removed.ok()) return removed;
  }
  return result;
}

}  // namespace capstan::data_loader
