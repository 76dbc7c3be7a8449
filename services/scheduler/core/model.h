// The scheduler's durable state as values, and its records. Model = decode(records) and back: the
// core keeps one it changes ahead of the store, readers keep one that follows committed revisions.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

namespace rec = ::capstan::scheduler::records::v1;

// Ranks per record: a chunk stays below 64 KiB also with the longest node ids, hosts and messages.
inline constexpr int kPlacementsPerChunk = 512;
inline constexpr int kTasksPerChunk = 128;

// A Node, by the ids in its name.
struct NodeId {
  std::string cluster;
  std::string node;

  // `clusters/{c}/nodes/{n}`.
  std::string Name() const;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

// The generation a Job's gang is in, or was in last.
struct Gang {
  rec::GangHeadRecord head;
  // By rank: node ids within head.cluster().
  std::vector<std::string> nodes;
  // By rank.
  std::vector<rec::TaskRecord> tasks;

  NodeId node(int rank) const { return {head.cluster(), nodes[rank]}; }
  bool live() const { return head.phase() != rec::GangHeadRecord::PHASE_ENDED; }
  bool ended(int rank) const;
  bool all_ended() const;
};

struct JobEntry {
  rec::JobSpecRecord spec;
  rec::JobStateRecord state;
  absl::optional<Gang> gang;

  const std::string& uid() const { return spec.uid(); }
  bool final() const;
  bool live() const { return gang.has_value() && gang->live(); }
};

struct Model {
  std::map<std::string, JobEntry> jobs;         // by uid
  std::map<std::string, std::string> job_uids;  // by name
  std::map<NodeId, rec::NodeRecord> nodes;
  std::map<std::string, rec::ClusterRecord> clusters;                             // by id
  std::map<std::string, rec::QueueRecord> queues;                                 // by id
  std::map<std::string, rec::QueueUsageRecord> queue_usage;                       // by Queue's id
  std::map<std::string, rec::RequestRecord> requests;                             // by key
  std::map<std::pair<std::string, int64_t>, rec::PinReleaseRecord> pin_releases;  // uid, generation

  const JobEntry* FindJob(absl::string_view uid) const;
  const JobEntry* FindJobByName(absl::string_view name) const;
};

// Number of Tasks of a gang.
int TaskCount(const capstan::scheduler::v1::JobSpec& spec);
// Position in (TaskGroup order, index); -1 if the spec has no such Task.
int RankOf(const capstan::scheduler::v1::JobSpec& spec, absl::string_view group, int index);
// The TaskGroup (by position) and index of a rank that the spec has.
std::pair<int, int> GroupOf(const capstan::scheduler::v1::JobSpec& spec, int rank);

// `projects/{p}` of `projects/{p}/…`; "" if the name is no such.
std::string ProjectOf(absl::string_view name);

// Records of a Model's parts. Serialisation is deterministic.
store::Put PutJobSpec(const JobEntry& job);
store::Put PutJobState(const JobEntry& job);
store::Put PutGangHead(const JobEntry& job);
std::vector<store::Put> PutPlacements(const JobEntry& job);
int TaskChunkOf(int rank);
store::Put PutTaskChunk(const JobEntry& job, int chunk);
store::Put PutNode(const NodeId& id, const rec::NodeRecord& node);
store::Put PutCluster(absl::string_view id, const rec::ClusterRecord& cluster);
store::Put PutQueue(absl::string_view id, const rec::QueueRecord& queue);
store::Put PutQueueUsage(absl::string_view id, const rec::QueueUsageRecord& usage);
store::Put PutRequest(absl::string_view key, const rec::RequestRecord& request);
store::Put PutPinRelease(const rec::PinReleaseRecord& release);
// Every record of the model, by key: what a store holds that has committed all of it.
std::map<std::string, std::string> AllRecords(const Model& model);

// Builds a Model from records and keeps it true to later changes of them. For one thread.
class ModelBuilder {
 public:
  // One record as put, or absl::nullopt as deleted. Keys that are not the core's are ignored.
  // DATA_LOSS if the value does not parse.
  absl::Status Apply(absl::string_view key, absl::optional<absl::string_view> value);
  // Brings `model()` up to what was applied; to be called at transaction borders. DATA_LOSS if a
  // gang's chunks are not those its head names.
  absl::Status Resolve();

  const Model& model() const { return model_; }
  Model TakeModel() { return std::move(model_); }
  // Uids and Nodes touched since the last call.
  std::set<std::string> TakeTouchedJobs() { return std::move(touched_report_); }
  std::set<NodeId> TakeTouchedNodes() { return std::move(touched_nodes_); }
  // Keys of chunks that no head names: left by a crash between two writes of one step, harmless.
  std::vector<store::Delete> StaleChunks() const;

 private:
  struct RawJob {
    absl::optional<rec::JobSpecRecord> spec;
    absl::optional<rec::JobStateRecord> state;
    absl::optional<rec::GangHeadRecord> head;
    std::map<std::pair<int64_t, int64_t>, rec::PlacementChunkRecord> placements;
    std::map<std::pair<int64_t, int64_t>, rec::TaskChunkRecord> tasks;
    bool empty() const { return !spec && !state && !head && placements.empty() && tasks.empty(); }
  };

  absl::Status ApplyJob(const std::vector<std::string>& parts,
                        absl::optional<absl::string_view> value);
  absl::Status ResolveJob(const std::string& uid);

  Model model_;
  std::map<std::string, RawJob> raw_;
  std::set<std::string> touched_;
  std::set<std::string> touched_report_;
  std::set<NodeId> touched_nodes_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_
