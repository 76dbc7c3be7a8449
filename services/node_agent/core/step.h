// Values that go into and come out of the agent's core.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_STEP_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_STEP_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/session/task_id.h"
#include "libs/store/store.h"
#include "libs/trace/span.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/whole_gpu.h"

namespace capstan::node_agent {

// Names one stream; the engine gives each a number of its own and never reuses one.
using SessionId = uint64_t;
// Names one call for an effect that is answered. The answer must bear it: an answer to anything but
// the call under way is ignored.
using Ticket = uint64_t;

// --- What answers bring ---

// Answer to OpenOutput.
struct OpenedOutput {
  // Newest committed checkpoint's folder; empty if there is none.
  std::string resume_directory;
  // Folder in which the agent makes staging folders for this generation.
  std::string staging_root;
};
// Answer to MakePlace.
struct Place {
  std::string folder;
  capstan::nodeagent::v1::ShimSpec::Cgroup cgroup;
};
// Answer to PinBundle and PinVersion: where the files lie; to IssueIdentity: the folder made.
struct Directory {
  std::string path;
};
// Answer to MakeMigInstance: as CUDA names it.
struct MigDevice {
  std::string name;
};
// Answer to ListGpus: those that a Task may have as a whole, in the driver's order.
struct ListedGpus {
  std::vector<WholeGpu> gpus;
};
// Answer to FindMigFiles.
struct GpuFileNumbers {
  capstan::nodeagent::v1::ShimSpec::Gpus files;
};
// Answer to CheckPorts: those that are in use by someone.
struct TakenPorts {
  std::vector<int32_t> ports;
};
using Answer = std::variant<std::monostate, OpenedOutput, Place, Directory, ListedGpus, MigDevice,
                            GpuFileNumbers, TakenPorts>;

// Remains of a Task, or a running one, as found when the agent started.
struct Remains {
  capstan::type::v1::TaskKey key;
  // A spec is there: its shim may have been forked.
  bool has_spec = false;
  capstan::nodeagent::v1::ShimStatus status;
  bool shim_alive = false;
  bool cgroup_empty = true;
};

// --- Events ---

// First event of every life: everything of Tasks that exists on this machine.
struct Discovered {
  std::vector<Remains> found;
};
// The stream to the executor is open.
struct UpConnected {
  SessionId session = 0;
};
struct UpMessage {
  SessionId session = 0;
  capstan::type::v1::SessionDown message;
};
struct UpDisconnected {
  SessionId session = 0;
};
// An effect with a ticket was carried out, or failed.
struct Answered {
  session::TaskId id;
  Ticket ticket = 0;
  absl::Status status;
  Answer answer;
};
// A shim's status changed; no pid and no end means that it died without a word.
struct ShimReported {
  session::TaskId id;
  capstan::nodeagent::v1::ShimStatus status;
};
// The Node was looked at; also when nothing has changed.
struct NodeObserved {
  capstan::type::v1::NodeObservation observation;
};
// A Task asks over its socket that a folder be committed as a checkpoint.
struct CheckpointAsked {
  session::TaskId id;
  uint64_t request = 0;
  // As the Task gave it.
  std::string directory;
  int64_t step = 0;
};
// Everything the Task wrote has been shipped; its folder may go.
struct LogsShipped {
  session::TaskId id;
};
// The Node is being shut down with its Tasks: stop all, take no new one. Holds for this life.
struct StopAll {};
// NextDeadline has come.
struct Tick {};

using Event = std::variant<Discovered, UpConnected, UpMessage, UpDisconnected, Answered,
                           ShimReported, NodeObserved, CheckpointAsked, LogsShipped, StopAll, Tick>;

// --- Effects; those with a ticket are answered by an Answered event ---

struct SendUp {
  SessionId session = 0;
  capstan::type::v1::SessionUp message;
};
struct CloseUp {
  SessionId session = 0;
  absl::Status status;
};
// Something an operator must know: counted by reason and logged.
struct Alarm {
  // `BREAKER_TRIPPED`, `LOWER_TOKEN`, `BAD_TASK`, `DEADLINE_ENFORCED`, `KILL_FAILED`.
  std::string reason;
  std::string message;
};
struct OpenOutput {
  session::TaskId id;
  Ticket ticket = 0;
  // `projects/{p}/jobs/{j}/output`.
  std::string output;
};
struct PinBundle {
  session::TaskId id;
  Ticket ticket = 0;
  // `projects/{p}/bundles/{hex}`.
  std::string bundle;
  std::string holder;
};
struct PinVersion {
  session::TaskId id;
  Ticket ticket = 0;
  // `projects/{p}/datasets/{d}/versions/{v}`.
  std::string version;
  std::string holder;
};
struct MakePlace {
  session::TaskId id;
  Ticket ticket = 0;
  capstan::type::v1::Resources limits;
  int64_t unix_uid = 0;
};
// Fills the Task's folder: `work/` with a private copy of the Bundle, `metrics/`, and the empty
// output folder; all the Task's own. Starts from nothing if done before.
struct Furnish {
  session::TaskId id;
  Ticket ticket = 0;
  std::string folder;
  int64_t unix_uid = 0;
  // Empty if there is none.
  std::string bundle_directory;
  std::string output_directory;
};
// Gets the Task's SVID into `<folder>/identity`, in place of one that is there.
struct IssueIdentity {
  session::TaskId id;
  Ticket ticket = 0;
  std::string folder;
  int64_t unix_uid = 0;
  std::string job;
  std::string service_account;
};
// Renews the SVID of a Task that runs, in time, until DropIdentity. Given again for each life of
// the agent.
struct KeepIdentity {
  // Where IssueIdentity has put it.
  std::string directory;
  // How to ask for the next one; its ticket is unused.
  IssueIdentity order;
  // By which the Task's processes are known.
  capstan::nodeagent::v1::ShimSpec::Cgroup cgroup = {};
};
struct DropIdentity {
  session::TaskId id;
};
// Shows the grant with what is asked of services for the Task, from now on until RemovePlace.
struct HoldGrant {
  session::TaskId id;
  // `projects/{p}/jobs/{j}`.
  std::string job;
  // Serialised PlacementGrant.
  std::string grant;
};
// Looks at which whole GPUs there are, for a Task that is to get some.
struct ListGpus {
  session::TaskId id;
  Ticket ticket = 0;
};
// Makes the Task's MIG instance where the scheduler wants it, or finds that it is made. What stands
// in its way and is none of `others`, which other Tasks of the Node have, is removed first.
struct MakeMigInstance {
  session::TaskId id;
  Ticket ticket = 0;
  capstan::type::v1::MigInstance instance;
  std::vector<capstan::type::v1::MigInstance> others;
};
// Removes it, if it is there; nothing uses it any more.
struct RemoveMigInstance {
  session::TaskId id;
  Ticket ticket = 0;
  capstan::type::v1::MigInstance instance;
};
// Finds which device files the Task's MIG instance takes, which is made.
struct FindMigFiles {
  session::TaskId id;
  Ticket ticket = 0;
  // As the driver counts.
  int32_t gpu = 0;
  // As CUDA names it.
  std::string name;
};
struct CheckPorts {
  session::TaskId id;
  Ticket ticket = 0;
  std::vector<int32_t> ports;
};
struct StartTask {
  session::TaskId id;
  Ticket ticket = 0;
  capstan::nodeagent::v1::ShimSpec spec;
};
struct ControlTask {
  session::TaskId id;
  capstan::nodeagent::v1::ShimControl control;
};
struct KillTask {
  session::TaskId id;
  Ticket ticket = 0;
};
// Commits the Task's output folder; `checkpoint_step` is unused.
struct CommitFinal {
  session::TaskId id;
  Ticket ticket = 0;
  std::string output;
  int32_t rank = 0;
  std::string directory;
};
// Commits a checkpoint and answers the Task itself.
struct CommitCheckpoint {
  session::TaskId id;
  uint64_t request = 0;
  std::string output;
  int32_t rank = 0;
  int64_t step = 0;
  std::string directory;
};
// Refuses a checkpoint.
struct RefuseCheckpoint {
  uint64_t request = 0;
  absl::Status status;
};
// Removes the Task's cgroup, folder and what is left of its output folder.
struct RemovePlace {
  session::TaskId id;
  Ticket ticket = 0;
  std::string output_directory;
};
struct ReleasePins {
  session::TaskId id;
  Ticket ticket = 0;
  std::string holder;
};
// Serves the Task's socket, if that is not done yet; its peers must be of the Task.
struct ServeSocket {
  session::TaskId id;
  std::string folder;
  int64_t unix_uid = 0;
  capstan::nodeagent::v1::ShimSpec::Cgroup cgroup;
};
struct CloseSocket {
  session::TaskId id;
};
// Ships the Task's log and metrics; with `ended` until all is shipped, which LogsShipped says.
// Until then what its cgroup uses is sampled.
struct ShipLogs {
  session::TaskId id;
  // `projects/{p}/jobs/{j}`.
  std::string job;
  std::string folder;
  int32_t rank = 0;
  bool ended = false;
  capstan::nodeagent::v1::ShimSpec::Cgroup cgroup = {};
};

// Tells of a stage of a Task's life that is over.
struct TellSpan {
  trace::Span span;
};

using Effect =
    std::variant<SendUp, CloseUp, Alarm, OpenOutput, PinBundle, PinVersion, MakePlace, Furnish,
                 IssueIdentity, ListGpus, MakeMigInstance, RemoveMigInstance, FindMigFiles,
                 CheckPorts, StartTask, ControlTask, KillTask, CommitFinal, CommitCheckpoint,
                 RefuseCheckpoint, RemovePlace, ReleasePins, ServeSocket, CloseSocket, ShipLogs,
                 KeepIdentity, DropIdentity, HoldGrant, TellSpan>;

// The folder in that of a Task's identity that holds its files: a link, which is replaced as a
// whole.
inline constexpr char kCurrentIdentity[] = "current";

// What one event leads to. `puts` and `deletes` name no key twice and are to be committed in order,
// each on its own being consistent with those before it; then, and after all earlier steps, `after`
// is carried out in order.
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<Effect> after;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_STEP_H_
