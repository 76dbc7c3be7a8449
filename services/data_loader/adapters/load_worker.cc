#include "services/data_loader/adapters/load_worker.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/content/manifest.h"
#include "libs/content/part_journal.h"
#include "libs/content/publish.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/adapters/open_source.h"
#include "services/data_loader/adapters/part_copier.h"
#include "services/data_loader/core/load_plan.pb.h"
#include "services/data_loader/core/part_plan.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr size_t kMaxPlan = 256 << 20;

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

absl::Status StagedFilesLost(const std::string& what) {
  return status::Error(absl::StatusCode::kDataLoss, "STAGED_FILES_LOST", what);
}

// Of what is staged, which must be what was planned. `digests` are of the staged files.
absl::StatusOr<Manifest> MakeManifest(const SafeRoot& staged, const LoadPlan& plan,
                                      const std::vector<std::string>& digests) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> paths, staged.ListFiles(""));
  CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
  if (static_cast<int>(paths.size()) != plan.files_size()) {
    return StagedFilesLost(absl::StrCat("staged ", paths.size(), " files of ", plan.files_size()));
  }
  Manifest manifest;
  for (int i = 0; i < plan.files_size(); ++i) {
    const LoadPlan::File& planned = plan.files(i);
    const size_t at = static_cast<size_t>(i);
    if (paths[at] != planned.path()) {
      return StagedFilesLost(absl::StrCat("staged file '", planned.path(), "' is not there"));
    }
    if (!planned.sha256().empty() && planned.sha256() != digests[at]) {
      return status::Error(absl::StatusCode::kDataLoss, "DIGEST_MISMATCH",
                           absl::StrCat("object '", absl::CHexEscape(planned.path()),
                                        "' is not what the digest that its source gives says"),
                           {{"object", planned.path()}});
    }
    CAPSTAN_ASSIGN_OR_RETURN(const struct ::stat st, staged.Stat(planned.path()));
    if (st.st_size != planned.size_bytes()) {
      return StagedFilesLost(absl::StrCat("staged file '", planned.path(), "' has ", st.st_size,
                                          " bytes; planned ", planned.size_bytes()));
    }
    Manifest::File& file = *manifest.add_files();
    file.set_path(planned.path());
    file.set_size_bytes(planned.size_bytes());
    file.set_sha256(digests[at]);
    file.set_executable((st.st_mode & S_IXUSR) != 0);
  }
  return manifest;
}

absl::StatusOr<Published> Load(const SafeRoot& site, const StartLoad& load,
                               const LoadOptions& options, const LoadListener& listener,
                               const std::atomic<bool>& stop) {
  const std::string folder = LoadFolder(load.load);
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataSource> source,
      OpenDataSource(load.source_uri, options.allowed_source_roots, options.http, stop));
  CAPSTAN_ASSIGN_OR_RETURN(const absl::optional<Published> before, FindPublished(site, load));
  if (before.has_value()) return *before;
  if (site.Stat(folder).ok() && !site.Stat(folder + "/files").ok()) {
    // It was published, and has had to leave: of what the journal names nothing is there.
    CAPSTAN_RETURN_IF_ERROR(site.RemoveTree(folder));
  }
  CAPSTAN_RETURN_IF_ERROR(site.MakeDirectories(folder + "/files", 0700));
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
  const CopyPlaces places{
      .source = source.get(), .staged = &staged, .plan = &plan, .journal = &journal};
  PartCopier copier(places, options.copy, listener.progressed, &stop);
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> digests,
                           copier.Run(PartsOf(plan, sizes), load.source_bytes_read));
  for (const LoadPlan::File& file : plan.files()) {
    if (stop) return absl::CancelledError("stopped");
    CAPSTAN_RETURN_IF_ERROR(source->CheckUnchanged(file));
  }

  listener.publishing();
  CAPSTAN_ASSIGN_OR_RETURN(const Manifest manifest, MakeManifest(staged, plan, digests));
  const std::string digest = content::ManifestDigest(manifest);
  CAPSTAN_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(site.path(), "/", folder, "/digest"), digest, 0600));
  CrashPoint(crash::kLoaderDigestNoted);
  CAPSTAN_RETURN_IF_ERROR(content::PublishFolder(site, folder + "/files", "versions", manifest));
  CrashPoint(crash::kLoaderPublished);
  return Published{digest, total, manifest.files_size(), copier.source_bytes_read()};
}

}  // namespace

std::string LoadFolder(const std::string& load) {
  return absl::StrCat("staging/loads/", load.substr(load.rfind('/') + 1));
}

absl::StatusOr<Published> RunLoad(const SafeRoot& site, const StartLoad& load,
                                  const LoadOptions& options, const LoadListener& listener,
                                  const std::atomic<bool>& stop) {
  absl::StatusOr<Published> result = Load(site, load, options, listener, stop);
  // What was published is found by what is noted of it, should nobody hear of it now.
  if (!result.ok() && !absl::IsCancelled(result.status())) {
    site.RemoveTree(LoadFolder(load.load)).IgnoreError();
  }
  return result;
}

}  // namespace capstan::data_loader
