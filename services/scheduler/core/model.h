// The scheduler's durable state as values, and its records. Model = decode(records) and back: the
// core keeps one it changes ahead of the store, readers keep one that follows committed revisions.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "google/protobuf/arena.h"
#include "libs/store/store.h"
#include "services/scheduler/core/job_entry.h"
#include "services/scheduler/core/job_table.h"
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

// Ranks per record: a chunk stays below 64 KiB also with the longest node ids, hosts and messages.
inline constexpr int kPlacementsPerChunk = 512;
inline constexpr int kTasksPerChunk = 128;

struct Model {
  JobTable jobs;
  std::map<NodeId, rec::NodeRecord> nodes;
  std::map<std::string, rec::ClusterRecord> clusters;               // by id
  std::map<std::string, rec::QueueRecord> queues;                   // by id
  std::map<std::string, rec::QueueUsageRecord> queue_usage;         // by Queue's id
  std::map<std::string, rec::CapacityOrderRecord> capacity_orders;  // by id
  // By Cluster and id.
  std::map<std::pair<std::string, std::string>, rec::MaintenanceWindowRecord> maintenance_windows;
  std::map<std::string, rec::RequestRecord> requests;                             // by key
  std::map<std::pair<std::string, int64_t>, rec::PinReleaseRecord> pin_releases;  // uid, generation

  // Jobs in a pool that others hold Jobs in too, or in one of their own.
  explicit Model(std::shared_ptr<RecordPool> pool = nullptr) : jobs(std::move(pool)) {}

  // See JobTable::Copy.
  Model Copy() const;
  // What rounds look at but for the Jobs, with a pool of its own for those.
  Model CopyFleet(std::shared_ptr<RecordPool> pool) const;

  const JobEntry* FindJob(absl::string_view uid) const { return jobs.Find(uid); }
  const JobEntry* FindJobByName(absl::string_view name) const { return jobs.FindByName(name); }
};

// Its number of Tasks is a multiple of this: of a group in slices, the widest of them.
int SizeStep(const capstan::scheduler::v1::TaskGroup& group);
// The level that all of the group is in one domain of, be it by itself or with its sections; none if
// only what the Job says holds.
capstan::scheduler::v1::Topology::Level RequiredOf(const capstan::scheduler::v1::JobSpec& spec,
                                                   const capstan::scheduler::v1::TaskGroup& group);
// Whether its gang may have fewer Tasks than the spec asks for.
bool IsElastic(const capstan::scheduler::v1::JobSpec& spec);
// Tasks that a gang has at least, and at most.
int MinTaskCount(const capstan::scheduler::v1::JobSpec& spec);
int MaxTaskCount(const capstan::scheduler::v1::JobSpec& spec);
// Tasks of a group (by position) in the generation that the Job's gang is in, or was in last.
int SizeOf(const JobEntry& job, int group);
// Whether any of its Tasks asks for a MIG instance.
bool AsksForMig(const capstan::scheduler::v1::JobSpec& spec);
// The instance that a Task of that generation has; absent if it asks for none.
absl::optional<capstan::type::v1::MigInstance> MigInstanceOf(const JobEntry& job, int rank);
// Position in (TaskGroup order, index) in that generation; -1 if it has no such Task.
int RankOf(const JobEntry& job, absl::string_view group, int index);
// The TaskGroup (by position) and index of a rank of that generation.
std::pair<int, int> GroupOf(const JobEntry& job, int rank);

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
store::Put PutCapacityOrder(absl::string_view id, const rec::CapacityOrderRecord& order);
store::Put PutMaintenanceWindow(const std::pair<std::string, std::string>& id,
                                const rec::MaintenanceWindowRecord& window);
store::Put PutRequest(absl::string_view key, const rec::RequestRecord& request);
store::Put PutPinRelease(const rec::PinReleaseRecord& release);
// Every record of the model, by key: what a store holds that has committed all of it.
std::map<std::string, std::string> AllRecords(const Model& model);

struct RemovedJob {
  std::string uid;
  std::string name;
  int64_t submit_sequence = 0;
};

// Builds a Model from records and keeps it true to later changes of them. For one thread.
class ModelBuilder {
 public:
  // Of a Model in that pool.
  explicit ModelBuilder(std::shared_ptr<RecordPool> pool = nullptr)
      : model_(std::move(pool)), pool_(model_.jobs.pool()) {}

  // One record as put, or absl::nullopt as deleted. Keys that are not the core's are ignored.
  // DATA_LOSS if the value does not parse.
  absl::Status Apply(absl::string_view key, absl::optional<absl::string_view> value);
  // Brings `model()` up to what was applied; to be called at transaction borders. DATA_LOSS if a
  // gang's chunks are not those its head names.
  absl::Status Resolve();
  // The same, in the middle of a state that is read as RecordReader does, of those Jobs of which
  // nothing is to come any more: so that no end of a page is long.
  absl::Status ResolveComplete();

  const Model& model() const { return model_; }
  // What is to be done to the Jobs of it beside what is stored.
  JobTable& jobs() { return model_.jobs; }
  Model TakeModel() { return std::move(model_); }
  // Uids and Nodes touched since the last call.
  std::set<std::string> TakeTouchedJobs() { return std::move(touched_report_); }
  std::set<NodeId> TakeTouchedNodes() { return std::move(touched_nodes_); }
  // Jobs that have left since the last call.
  std::vector<RemovedJob> TakeRemovedJobs() { return std::exchange(removed_, {}); }
  // Keys of chunks that no head names: left by a crash between two writes of one step, harmless.
  std::vector<store::Delete> StaleChunks() const;

 private:
  struct RawJob {
    absl::optional<PackedSpec> spec;
    absl::optional<PackedState> state;
    absl::optional<rec::GangHeadRecord> head;
    std::map<std::pair<int64_t, int64_t>, rec::PlacementChunkRecord> placements;
    std::map<std::pair<int64_t, int64_t>, rec::TaskChunkRecord> tasks;
    bool empty() const { return !spec && !state && !head && placements.empty() && tasks.empty(); }
  };

  RawJob& RawOf(const std::string& uid);
  absl::Status ApplyJob(const std::vector<std::string>& parts,
                        absl::optional<absl::string_view> value);
  absl::Status ResolveJob(const std::string& uid);

  Model model_;
  // Of what is in raw_ when the Model has been taken.
  const std::shared_ptr<RecordPool> pool_;
  // Where what Jobs are read into is, one after the other.
  std::unique_ptr<google::protobuf::Arena> arena_ = std::make_unique<google::protobuf::Arena>();
  // Of Jobs that have more than spec and state, or less.
  std::map<std::string, RawJob> raw_;
  std::set<std::string> touched_;
  // Uids whose state came after their spec, and no head before that.
  std::vector<std::string> complete_;
  std::set<std::string> touched_report_;
  std::set<NodeId> touched_nodes_;
  std::vector<RemovedJob> removed_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MODEL_H_
