#include "services/data_loader/adapters/directory_site.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/content/copy_and_hash.h"
#include "libs/content/manifest.h"
#include "libs/content/publish.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/adapters/content_receiver.h"
#include "services/data_loader/core/part_plan.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr absl::Duration kReportInterval = absl::Milliseconds(500);

std::string Hex(const std::string& digest) {
  return std::string(absl::StripPrefix(digest, "sha256:"));
}

std::string StagingFolder(const std::string& job_uid, int64_t generation) {
  return absl::StrCat("outputs/", job_uid, "/staging-", generation);
}

// Of one kind (DT_DIR, DT_REG) directly below `folder`; none if it is absent.
std::vector<std::string> Names(const SafeRoot& root, const std::string& folder,
                               unsigned char kind) {
  std::vector<std::string> names;
  absl::StatusOr<UniqueFd> fd = root.OpenFile(folder, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return names;
  DIR* dir = ::fdopendir(fd->get());
  if (dir == nullptr) return names;
  fd->Release();
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && entry->d_type == kind) names.push_back(name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Folders(const SafeRoot& root, const std::string& folder) {
  return Names(root, folder, DT_DIR);
}

// A process that was killed leaves a manifest without content, whose rename was yet to come or has
// taken it away, and what WriteFileAtomically had not named yet. Nobody may be writing there.
absl::Status RemoveStrays(const SafeRoot& root, const std::string& folder) {
  const std::vector<std::string> content = Folders(root, folder);
  for (const std::string& name : Names(root, folder, DT_REG)) {
    absl::string_view of = name;
    const bool stray = absl::ConsumeSuffix(&of, ".manifest")
                           ? !std::binary_search(content.begin(), content.end(), of)
                           : absl::StartsWith(name, ".") && absl::EndsWith(name, ".tmp");
    if (stray) CAPSTAN_RETURN_IF_ERROR(root.Remove(absl::StrCat(folder, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectorySite>> DirectorySite::Open(const std::string& directory,
                                                                   LoadOptions options, int threads,
                                                                   Random random, Strand* strand) {
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir", directory);
  }
  CAPSTAN_ASSIGN_OR_RETURN(SafeRoot root, SafeRoot::Open(directory));
  for (const char* folder : {"versions", "bundles", "outputs"}) {
    CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories(folder, 0755));
  }
  for (const char* folder :
       {"staging", "staging/loads", "staging/bundles", "staging/outputs", "staging/evicted"}) {
    CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories(folder, 0700));
  }
  return std::unique_ptr<DirectorySite>(
      new DirectorySite(std::move(root), std::move(options), threads, random, strand));
}

DirectorySite::DirectorySite(SafeRoot root, LoadOptions options, int threads, Random random,
                             Strand* strand)
    : root_(std::move(root)),
      options_(std::move(options)),
      strand_(strand),
      reports_(std::make_shared<LoadReports>()),
      random_(random) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

DirectorySite::~DirectorySite() { Stop(); }

void DirectorySite::Stop() {
  stop_ = true;
  {
    absl::MutexLock lock(&mutex_);
    queue_.clear();
  }
  // Wakes the threads that wait for work: each takes one empty task and sees `stop_`.
  for (size_t i = 0; i < threads_.size(); ++i) Enqueue([] {});
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void DirectorySite::SetLoadReports(LoadReports reports) { *reports_ = std::move(reports); }

absl::Status DirectorySite::TakeOver() {
  for (const char* folder : {"staging/bundles", "staging/outputs", "staging/evicted"}) {
    CAPSTAN_RETURN_IF_ERROR(root_.RemoveTree(folder));
    CAPSTAN_RETURN_IF_ERROR(root_.MakeDirectories(folder, 0700));
  }
  for (const char* folder : {"versions", "bundles"}) {
    CAPSTAN_RETURN_IF_ERROR(RemoveStrays(root_, folder));
  }
  for (const std::string& job : Folders(root_, "outputs")) {
    CAPSTAN_RETURN_IF_ERROR(RemoveStrays(root_, absl::StrCat("outputs/", job)));
  }
  return absl::OkStatus();
}

void DirectorySite::Enqueue(Work work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void DirectorySite::Loop() {
  while (!stop_) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(
          absl::Condition(+[](std::deque<Work>* queue) { return !queue->empty(); }, &queue_));
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(work)();
  }
}

std::string DirectorySite::NewId() {
  absl::MutexLock lock(&mutex_);
  return random_.Uuid4();
}

void DirectorySite::StartLoad(const data_loader::StartLoad& load) {
  {
    absl::MutexLock lock(&mutex_);
    const auto [running, added] = running_.emplace(load.load, RunningLoad());
    if (!added) {
      // Whoever was to answer has forgotten.
      if (running->second.planned_bytes.has_value()) {
        TellPlan(load.load, *running->second.planned_bytes);
      }
      return;
    }
  }
  Enqueue([this, load] { RunOneLoad(load); });
}

void DirectorySite::TellPlan(const std::string& load, int64_t total_bytes) {
  strand_->Post([reports = reports_, load, total_bytes] { reports->planned(load, total_bytes); });
}

absl::Status DirectorySite::AwaitAdmission(const std::string& load, int64_t total_bytes) {
  absl::MutexLock lock(&mutex_);
  RunningLoad& running = running_.at(load);
  running.planned_bytes = total_bytes;
  TellPlan(load, total_bytes);
  const auto decided = [this, &running] { return stop_ || running.admitted.has_value(); };
  mutex_.Await(absl::Condition(&decided));
  if (!running.admitted.has_value()) return absl::CancelledError("stopped");
  running.planned_bytes.reset();
  return *std::exchange(running.admitted, absl::nullopt);
}

void DirectorySite::AdmitLoad(const std::string& load, const absl::Status& admitted) {
  absl::MutexLock lock(&mutex_);
  const auto running = running_.find(load);
  if (running == running_.end() || !running->second.planned_bytes.has_value()) return;
  running->second.admitted = admitted;
}

void DirectorySite::ForgetLoad(const std::string& load) {
  {
    absl::MutexLock lock(&mutex_);
    // Somebody has started it again meanwhile: it is collected at the next start.
    if (running_.count(load) != 0) return;
  }
  Enqueue([this, folder = LoadFolder(load)] { root_.RemoveTree(folder).IgnoreError(); });
}

void DirectorySite::CollectLoads(const std::set<std::string>& kept) {
  std::set<std::string> folders;
  for (const std::string& load : kept) folders.insert(LoadFolder(load));
  for (const std::string& name : Folders(root_, "staging/loads")) {
    const std::string folder = LoadFolder(name);
    if (folders.count(folder) != 0) continue;
    Enqueue([this, folder] { root_.RemoveTree(folder).IgnoreError(); });
  }
}

void DirectorySite::RunOneLoad(const data_loader::StartLoad& load) {
  RateEstimator rate;
  int64_t total = 0;
  BootTime last_report = BootTime::InfinitePast();
  const auto post = [this](auto call) {
    strand_->Post([reports = reports_, call = std::move(call)]() mutable { call(*reports); });
  };
  const auto planned = [&](int64_t total_bytes) {
    total = total_bytes;
    return AwaitAdmission(load.load, total_bytes);
  };
  const auto progressed = [&](int64_t loaded, int64_t read) {
    const BootTime now = strand_->clock().Read().boot;
    rate.Add(now, loaded);
    if (now - last_report < kReportInterval) return;
    last_report = now;
    post([name = load.load, loaded, read, per_second = rate.BytesPerSecond(),
          eta = rate.Eta(total)](LoadReports& r) {
      r.progressed(name, loaded, read, per_second, eta);
    });
  };
  const auto publishing = [&] { post([name = load.load](LoadReports& r) { r.publishing(name); }); };
  absl::StatusOr<Published> result =
      RunLoad(root_, load, options_, LoadListener{planned, progressed, publishing}, stop_);
  {
    absl::MutexLock lock(&mutex_);
    running_.erase(load.load);
  }
  // A load that was stopped with the process is taken up by the next one.
  if (absl::IsCancelled(result.status())) return;
  post([name = load.load, result = std::move(result)](LoadReports& r) mutable {
    r.done(name, std::move(result));
  });
}

std::string DirectorySite::VersionDirectory(const std::string& manifest_digest) const {
  return absl::StrCat(root_.path(), "/versions/", Hex(manifest_digest));
}

std::string DirectorySite::BundleDirectory(const std::string& manifest_digest) const {
  return absl::StrCat(root_.path(), "/bundles/", Hex(manifest_digest));
}

bool DirectorySite::HasVersion(const std::string& manifest_digest) const {
  return root_.Stat(absl::StrCat("versions/", Hex(manifest_digest))).ok();
}

absl::Status DirectorySite::EvictVersion(const std::string& manifest_digest) {
  const std::string version = absl::StrCat("versions/", Hex(manifest_digest));
  const std::string leaving = absl::StrCat("staging/evicted/", NewId());
  CrashPoint(crash::kLoaderBeforeEvict);
  const absl::Status renamed = root_.Rename(version, leaving, /*replace=*/false);
  if (absl::IsNotFound(renamed)) return absl::OkStatus();
  CAPSTAN_RETURN_IF_ERROR(renamed);
  CrashPoint(crash::kLoaderVersionMoved);
  root_.Remove(version + ".manifest").IgnoreError();
  // What a crash leaves is removed by TakeOver.
  Enqueue([this, leaving] {
    root_.RemoveTree(leaving).IgnoreError();
    CrashPoint(crash::kLoaderVersionRemoved);
  });
  return absl::OkStatus();
}

absl::StatusOr<OpenedContent> DirectorySite::OpenContent(const std::string& folder,
                                                         const std::string& manifest_digest) const {
  absl::StatusOr<pb::Manifest> manifest = content::ReadManifest(root_, folder);
  // Outputs were committed without a manifest beside them before Nodes had caches.
  if (absl::IsNotFound(manifest.status())) manifest = content::HashFolder(root_, folder, stop_);
  CAPSTAN_RETURN_IF_ERROR(manifest.status());
  if (content::ManifestDigest(*manifest) != manifest_digest) {
    return status::Error(
        absl::StatusCode::kDataLoss, "MANIFEST_CORRUPT",
        absl::StrCat("the manifest of '", folder, "' is not that of ", manifest_digest));
  }
  return OpenedContent{*std::move(manifest), absl::StrCat(root_.path(), "/", folder)};
}

bool DirectorySite::HasBundle(const std::string& manifest_digest) const {
  return root_.Stat(absl::StrCat("bundles/", Hex(manifest_digest))).ok();
}

absl::StatusOr<std::unique_ptr<BundleWriter>> DirectorySite::ReceiveBundle(
    const pb::Manifest& manifest) {
  return data_loader::ReceiveBundle(&root_, NewId(), manifest);
}

absl::StatusOr<std::string> DirectorySite::OpenStaging(const std::string& job_uid,
                                                       int64_t generation) {
  const std::string folder = StagingFolder(job_uid, generation);
  CAPSTAN_RETURN_IF_ERROR(root_.MakeDirectories(folder, 0755));
  for (const std::string& name : Folders(root_, absl::StrCat("outputs/", job_uid))) {
    if (!absl::StartsWith(name, "staging-")) continue;
    const std::string other = absl::StrCat("outputs/", job_uid, "/", name);
    if (other != folder) RemoveFolder(other);
  }
  return absl::StrCat(root_.path(), "/", folder);
}

void DirectorySite::CopyOutput(const pb::CommitOutputRequest& request,
                               absl::AnyInvocable<void(absl::StatusOr<StagedOutput>)> done) {
  Enqueue([this, request, done = std::move(done)]() mutable {
    Copy copy = NewCopy(request);
    absl::StatusOr<StagedOutput> staged = CopyOne(request, copy.folder);
    strand_->Post(
        [done = std::move(done), staged = std::move(staged),
         claim = std::move(copy.claim)]() mutable { std::move(done)(std::move(staged)); });
  });
}

DirectorySite::Copy DirectorySite::NewCopy(const pb::CommitOutputRequest& request) {
  Copy copy;
  copy.folder =
      absl::StrCat("outputs/", request.job_uid(), "/g", request.generation(), "-r", request.rank(),
                   request.final() ? "-final-" : absl::StrCat("-s", request.checkpoint_step(), "-"),
                   NewId().substr(0, 8));
  copy.claim = std::make_shared<const char>();
  absl::MutexLock lock(&mutex_);
  std::erase_if(claims_, [](const auto& claim) { return claim.second.expired(); });
  claims_[copy.folder] = copy.claim;
  return copy;
}

absl::StatusOr<std::unique_ptr<OutputWriter>> DirectorySite::ReceiveOutput(
    const pb::CommitOutputRequest& request, const pb::Manifest& manifest) {
  Copy copy = NewCopy(request);
  return data_loader::ReceiveOutput(&root_, NewId(), copy.folder, std::move(copy.claim), request,
                                    manifest);
}

absl::StatusOr<StagedOutput> DirectorySite::CopyOne(const pb::CommitOutputRequest& request,
                                                    const std::string& folder) {
  const std::string staging = StagingFolder(request.job_uid(), request.generation());
  absl::string_view below = request.staging_directory();
  if (!absl::ConsumePrefix(&below, absl::StrCat(root_.path(), "/", staging, "/"))) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_FIELD",
                         absl::StrCat("staging_directory: '", request.staging_directory(),
                                      "' does not lie below the staging folder of generation ",
                                      request.generation()));
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      const pb::Manifest manifest,
      content::CopyAndHash(root_, absl::StrCat(staging, "/", below), folder, stop_));
  CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(root_.path(), "/", folder, ".manifest"),
                                              manifest.SerializeAsString(), 0444));
  StagedOutput staged;
  staged.request = request;
  staged.manifest_digest = content::ManifestDigest(manifest);
  staged.total_bytes = content::TotalBytes(manifest);
  staged.folder = folder;
  staged.directory = absl::StrCat(root_.path(), "/", folder);
  return staged;
}

void DirectorySite::CollectOutputs(std::set<std::string> kept) {
  {
    // The strand, which this runs on, lets go of a claim once it has decided on the copy: what is
    // not claimed is in `kept`, or will never be committed.
    absl::MutexLock lock(&mutex_);
    for (const auto& [folder, claim] : claims_) {
      if (!claim.expired()) kept.insert(folder);
    }
  }
  for (const std::string& job : Folders(root_, "outputs")) {
    for (const std::string& name : Folders(root_, absl::StrCat("outputs/", job))) {
      const std::string folder = absl::StrCat("outputs/", job, "/", name);
      if (!absl::StartsWith(name, "staging-") && kept.count(folder) == 0) RemoveFolder(folder);
    }
  }
}

void DirectorySite::RemoveFolder(const std::string& folder) {
  // What can't be removed now is found again by CollectOutputs at the next start.
  Enqueue([this, folder] {
    root_.Remove(folder + ".manifest").IgnoreError();
    root_.RemoveTree(folder).IgnoreError();
  });
}

}  // namespace capstan::data_loader
