#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_LOADER_CORE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_LOADER_CORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/content/eviction.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/core/records.pb.h"

namespace capstan::data_loader {

// What the core is told at its making.
struct LoaderConfig {
  // The one Site of this data_loader, `sites/{s}`, and the Clusters that reach it; empty means all.
  std::string site;
  std::vector<std::string> clusters;
  // Loads that run at once.
  int max_running_loads = 2;
  // Committed checkpoints kept for each Output; the newest is never dropped.
  int kept_checkpoints = 8;
  // What Dataset versions, with what is being loaded, may take at the Site; 0 means no bound.
  int64_t site_limit_bytes = 0;
};

// Bring a Dataset to the Site; what was brought by an earlier attempt is taken up again.
struct StartLoad {
  std::string load;
  std::string source_uri;
  std::vector<std::string> objects;
  // Read by earlier attempts.
  int64_t source_bytes_read = 0;
};
// A committed folder that no record names any more, relative to the Site.
struct RemoveFolder {
  std::string folder;
};
// A version that leaves the Site; before any AnswerPlan that needs its room.
struct EvictVersion {
  std::string manifest_digest;
};
// Whether a load that has told its size may go on.
struct AnswerPlan {
  std::string load;
  absl::Status admitted;
};
// What the Site has noted of a load that is final is not needed any more.
struct ForgetLoad {
  std::string load;
};
using Effect = std::variant<StartLoad, RemoveFolder, EvictVersion, AnswerPlan, ForgetLoad>;

// What to store, then what to do.
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<Effect> after;
};

// A decision with its answer, which may be given once the step is stored.
template <typename Response>
struct Decision {
  Step step;
  Response response;
};
template <typename Response>
using DecisionOr = absl::StatusOr<Decision<Response>>;

// A finished copy of a Task's files, waiting to be agreed on.
struct StagedOutput {
  capstan::dataloader::v1::CommitOutputRequest request;
  std::string manifest_digest;
  int64_t total_bytes = 0;
  // Absolute folder of the copy, and the same relative to the Site.
  std::string directory;
  std::string folder;
};

// A version or Bundle that is pinned.
struct Pinned {
  std::string manifest_digest;
  int64_t total_bytes = 0;
  // UNAVAILABLE (VERSION_ON_ITS_WAY, VERSION_WAITS_FOR_ROOM) or FAILED_PRECONDITION while it is not
  // at the Site.
  absl::Status there;
};

// Content that a Node may read.
struct ReadableContent {
  // Relative to the Site.
  std::string folder;
  std::string manifest_digest;
};

// The data_loader's state and decisions. Pure: rebuilt from records alone, in any order, and told
// the time. Everything it decides is in the Step it returns; an error leaves it unchanged.
class LoaderCore {
 public:
  explicit LoaderCore(LoaderConfig config) : config_(std::move(config)) {}

  // Takes one stored record; the key decides which. Call for all of them, then Resume once.
  absl::Status Load(const store::KeyValue& kv);
  // Starts again what was under way.
  Step Resume();

  DecisionOr<capstan::dataloader::v1::Dataset> CreateDataset(
      const capstan::dataloader::v1::CreateDatasetRequest& request, const std::string& uid,
      Now now);
  // `new_id` names the load if one is made. FAILED_PRECONDITION (VERSION_GONE) if the version that
  // is asked for has left the Site and its source is known to have another one now; a load that is
  // under way may turn out to bring another one too.
  DecisionOr<capstan::dataloader::v1::DataLoad> EnsureLoad(
      const capstan::dataloader::v1::EnsureDataLoadRequest& request, const std::string& new_id,
      Now now);

  // What the filler of the Site reports. Reports about a load that is already final are ignored.
  // A plan is answered by AnswerPlan: with SITE_FULL or CONTENT_TOO_LARGE if there is no room, with
  // LOAD_ENDED if the load is final and was begun once more before its end was heard of. A load that
  // failed with SITE_FULL and is to bring back what somebody has pinned is not final: it waits until
  // something may have left, and is started again.
  Step LoadPlanned(const std::string& load, int64_t total_bytes);
  Step LoadProgressed(const std::string& load, int64_t loaded_bytes, int64_t source_bytes_read,
                      double bytes_per_second, absl::optional<absl::Duration> eta);
  Step LoadPublishing(const std::string& load);
  Step LoadPublished(const std::string& load, const std::string& manifest_digest,
                     int64_t total_bytes, int64_t file_count, int64_t source_bytes_read, Now now);
  Step LoadFailed(const std::string& load, const absl::Status& error, Now now);

  // Pins belong to a holder on a Node, `<cluster>/<node>`; empty for whoever is no Node. A version
  // that has left the Site is loaded again, as `new_id`. FAILED_PRECONDITION (HOLDER_RELEASED) once
  // the pins of all Nodes were released: a call that comes late would leave one for ever.
  DecisionOr<Pinned> PinVersion(const capstan::dataloader::v1::PinVersionRequest& request,
                                const std::string& node, const std::string& new_id, Now now);
  DecisionOr<Pinned> PinBundle(const capstan::dataloader::v1::PinBundleRequest& request,
                               const std::string& node);
  // Those of one Node, or, for good, of all if `node` is empty.
  Step ReleasePins(const std::string& holder, const std::string& node, Now now);

  // Whether a Node may read content for a holder: a version or Bundle that it has pinned for it, or
  // a checkpoint of the Output whose open generation the holder is. NOT_FOUND otherwise.
  absl::StatusOr<ReadableContent> CheckRead(const capstan::dataloader::v1::ContentRef& content,
                                            const std::string& node) const;

  Decision<capstan::dataloader::v1::Bundle> BundleStored(const std::string& parent,
                                                         const std::string& digest,
                                                         int64_t total_bytes, int64_t file_count,
                                                         Now now);

  // Raises the Output's generation; refuses to lower it, and another Job's uid.
  DecisionOr<capstan::dataloader::v1::OpenOutputResponse> OpenOutput(
      const capstan::dataloader::v1::OpenOutputRequest& request);
  // Whether a commit may begin, or the answer if it was made before. Decides nothing for good.
  absl::StatusOr<absl::optional<capstan::dataloader::v1::CommitOutputResponse>> CheckCommit(
      const capstan::dataloader::v1::CommitOutputRequest& request) const;
  // The compare-and-set on the generation. The loser's copy is removed by the caller.
  DecisionOr<capstan::dataloader::v1::CommitOutputResponse> CommitOutput(const StagedOutput& staged,
                                                                         Now now);

  // A version as it stands at the Site, with who holds it, by Node (empty: no Node). NOT_FOUND if
  // there never was one.
  struct VersionState {
    capstan::dataloader::v1::DatasetVersion version;
    bool absent = false;
    // Of the load that brings it back, if one does.
    int64_t loaded_bytes = 0;
    std::map<std::string, std::vector<std::string>> holders;
  };
  absl::StatusOr<VersionState> FindVersion(const std::string& name) const;

  // Folders below `outputs/` of the Site that a record names, relative to the Site.
  std::set<std::string> OutputFolders() const;
  // Loads that are not final.
  std::set<std::string> OpenLoads() const;
  // Digests of versions that have left the Site. Not of Datasets that are being loaded: what is
  // there of them may just have been published, by a load that has not come to say so.
  std::set<std::string> AbsentVersions() const;

 private:
  void PutLoad(const LoadRecord& record, Step& step);
  // Starts queued loads up to the bound.
  void StartQueued(Step& step);
  bool Reaches(const std::string& cluster) const;
  static absl::Status VersionGone(const std::string& version, const std::string& newest);
  const capstan::dataloader::v1::DataLoad& NewLoad(DatasetRecord& dataset,
                                                   const std::string& new_id, Now now, Step& step);
  // Notes a use, if the last one noted is old enough.
  void Touch(VersionRecord& record, Now now, Step& step);
  bool Pin(const std::string& holder, const std::string& node, const std::string& resource,
           Step& step);
  absl::Status CheckHolder(const std::string& holder) const;
  // Notes that a holder is released for good, and forgets those noted long ago.
  void NoteReleased(const std::string& holder, Now now, Step& step);
  // Whether somebody has pinned a version that this load is to bring back.
  bool IsWaitedFor(const std::string& load) const;
  // Room may have come: gives those that wait for it another turn.
  void TryWaiting(Step& step);
  // What takes room at the Site, by digest.
  std::vector<content::HeldContent> Held() const;

  const LoaderConfig config_;
  std::map<std::string, DatasetRecord> datasets_;
  std::map<std::string, VersionRecord> versions_;
  std::map<std::string, LoadRecord> loads_;
  std::map<std::string, BundleRecord> bundles_;
  std::map<std::string, OutputRecord> outputs_;
  std::map<std::string, RequestRecord> requests_;
  // By holder: (node, resource).
  std::map<std::string, std::set<std::pair<std::string, std::string>>> pins_;
  // Holders whose pins were all released for good, and the same by when that is forgotten.
  std::set<std::string> released_;
  std::set<std::pair<absl::Time, std::string>> released_by_time_;
  std::deque<std::string> queued_;
  // Loads that found the Site full, in the order in which they did, until something leaves it.
  std::deque<std::string> waiting_;
  std::set<std::string> running_;
  // Room promised to running loads.
  std::map<std::string, int64_t> reserved_;
};

// Keys of the records; also for readers of the committed state.
// Of the records, the newest that this program knows.
inline constexpr int kSchemaVersion = 1;
inline constexpr char kKeyPrefix[] = "/capstan/data_loader/v1/";
// Of the key, among those of requests, of a holder whose pins were released for good. No request id
// begins so: they are UUIDs.
inline constexpr char kReleasedPrefix[] = "released:";
std::string DatasetKey(const std::string& name);
std::string VersionKey(const std::string& name);
std::string LoadKey(const std::string& name);
std::string BundleKey(const std::string& name);
std::string OutputKey(const std::string& name);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_LOADER_CORE_H_
