#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_DIRECTORY_SITE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_DIRECTORY_SITE_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/strand/strand.h"
#include "services/data_loader/adapters/load_worker.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// A Site in a directory:
//   versions/<digest>/, versions/<digest>.manifest   whole Dataset versions, read-only
//   bundles/<digest>/, bundles/<digest>.manifest     whole Bundles, read-only
//   outputs/<job uid>/staging-<generation>/          where Nodes stage what Tasks write
//   outputs/<job uid>/<copy>/, <copy>.manifest       committed checkpoints and final outputs
//   staging/{loads,bundles,outputs}/<id>/            what is not whole yet
//   staging/evicted/<id>/                            what is being removed
// Disk work runs on threads of its own. The destructor stops it; loads are taken up by the next
// start.
class DirectorySite final : public Site {
 public:
  // Makes the directory's parts. `strand` must outlive the site.
  static absl::StatusOr<std::unique_ptr<DirectorySite>> Open(const std::string& directory,
                                                             LoadOptions options, int threads,
                                                             Random random, Strand* strand);
  ~DirectorySite() override;

  void SetLoadReports(LoadReports reports) override;
  absl::Status TakeOver() override;
  void Stop() override;
  void StartLoad(const data_loader::StartLoad& load) override;
  void AdmitLoad(const std::string& load, const absl::Status& admitted) override;
  void ForgetLoad(const std::string& load) override;
  void CollectLoads(const std::set<std::string>& kept) override;
  std::string VersionDirectory(const std::string& manifest_digest) const override;
  std::string BundleDirectory(const std::string& manifest_digest) const override;
  bool HasVersion(const std::string& manifest_digest) const override;
  bool HasBundle(const std::string& manifest_digest) const override;
  absl::Status EvictVersion(const std::string& manifest_digest) override;
  absl::StatusOr<OpenedContent> OpenContent(const std::string& folder,
                                            const std::string& manifest_digest) const override;
  absl::StatusOr<std::unique_ptr<BundleWriter>> ReceiveBundle(
      const capstan::dataloader::v1::Manifest& manifest) override;
  absl::StatusOr<std::string> OpenStaging(const std::string& job_uid, int64_t generation) override;
  void CopyOutput(const capstan::dataloader::v1::CommitOutputRequest& request,
                  absl::AnyInvocable<void(absl::StatusOr<StagedOutput>)> done) override;
  absl::StatusOr<std::unique_ptr<OutputWriter>> ReceiveOutput(
      const capstan::dataloader::v1::CommitOutputRequest& request,
      const capstan::dataloader::v1::Manifest& manifest) override;
  void CollectOutputs(std::set<std::string> kept) override;
  void RemoveFolder(const std::string& folder) override;

 private:
  using Work = absl::AnyInvocable<void()>;
  // A load that runs, or waits for a thread.
  struct RunningLoad {
    // Set while it waits to be admitted.
    absl::optional<int64_t> planned_bytes;
    absl::optional<absl::Status> admitted;
  };

  // A copy of what a Task has written, from before there is anything of it.
  struct Copy {
    std::string folder;
    // Held until the strand has heard of it.
    std::shared_ptr<const char> claim;
  };

  DirectorySite(SafeRoot root, LoadOptions options, int threads, Random random, Strand* strand);

  void Enqueue(Work work);
  void Loop();
  // On a worker thread.
  void RunOneLoad(const data_loader::StartLoad& load);
  void TellPlan(const std::string& load, int64_t total_bytes);
  // Waits for AdmitLoad.
  absl::Status AwaitAdmission(const std::string& load, int64_t total_bytes);
  absl::StatusOr<StagedOutput> CopyOne(const capstan::dataloader::v1::CommitOutputRequest& request,
                                       const std::string& folder);
  std::string NewId();
  Copy NewCopy(const capstan::dataloader::v1::CommitOutputRequest& request);

  const SafeRoot root_;
  const LoadOptions options_;
  Strand* const strand_;
  // Owned jointly with what is posted, which may outlive the site.
  const std::shared_ptr<LoadReports> reports_;
  std::atomic<bool> stop_ = false;
  absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, RunningLoad> running_ ABSL_GUARDED_BY(mutex_);
  // Claims of copies, by folder; those that have expired count no more.
  std::map<std::string, std::weak_ptr<const char>> claims_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_DIRECTORY_SITE_H_
