// What goes into the core (Event) and what comes out (Step). Values only.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_EVENTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/field_mask.pb.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "libs/trace/span.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

// Made by the engine; never reused in one life of the process.
using CallId = uint64_t;
using SessionId = uint64_t;

// ---- Events

// The first event of a core's life: the leadership key is committed. Every lease is counted from
// here.
struct LeadershipGained {
  capstan::type::v1::FencingToken token;
};

// Calls. Each is answered by exactly one Reply effect. The handlers have checked the caller's
// rights and the form of the request; the core checks everything that depends on state.
struct CreateJob {
  CallId call = 0;
  std::string project;     // `projects/{p}`
  std::string job_id;      // empty: made from `uid`
  std::string uid;         // UUID4, fresh
  std::string submitter;   // principal
  std::string request_id;  // may be empty
  std::string body_hash;
  bool validate_only = false;
  std::string traceparent;               // of the call; empty if it belongs to no trace
  capstan::scheduler::v1::JobSpec spec;  // validated, defaults filled in
  bool hold = false;
};
struct UpdateJob {
  CallId call = 0;
  std::string name;
  std::string etag;  // may be empty
  bool validate_only = false;
  records::v1::JobChange change;  // validated
};
struct CancelJob {
  CallId call = 0;
  std::string name;
  std::string etag;  // may be empty
};
struct CreateQueue {
  CallId call = 0;
  std::string queue_id;
  std::string uid;
  std::string request_id;
  std::string body_hash;
  capstan::scheduler::v1::Queue queue;
};
struct UpdateQueue {
  CallId call = 0;
  std::string queue_id;
  std::string etag;  // may be empty
  google::protobuf::FieldMask update_mask;
  capstan::scheduler::v1::Queue queue;
};
struct CordonNode {
  CallId call = 0;
  std::string cluster;
  std::string node;
  std::string owner;
  std::string reason;
};
struct UncordonNode {
  CallId call = 0;
  std::string cluster;
  std::string node;
  std::string owner;
};
struct CreateCapacityOrder {
  CallId call = 0;
  std::string order_id;
  std::string creator;  // principal
  std::string request_id;
  std::string body_hash;
  capstan::scheduler::v1::CapacityOrder order;
};
struct DeleteCapacityOrder {
  CallId call = 0;
  std::string order_id;
};
struct CreateMaintenanceWindow {
  CallId call = 0;
  std::string cluster;
  std::string window_id;
  std::string uid;
  std::string creator;
  std::string request_id;
  std::string body_hash;
  capstan::scheduler::v1::MaintenanceWindow window;
};
struct DeleteMaintenanceWindow {
  CallId call = 0;
  std::string cluster;
  std::string window_id;
  std::string etag;  // may be empty
};
// An operator says that what is silent now is really gone: thaws re-placement by time-out.
struct ConfirmSilence {
  CallId call = 0;
};

// Sessions of executors. A session's Cluster has been checked against its certificate.
struct HelloReceived {
  SessionId session = 0;
  capstan::type::v1::Hello hello;
};
struct RenewalReceived {
  SessionId session = 0;
  int64_t sequence = 0;
  // Until when the leadership lease is known to be valid: no answer is sent from then on.
  BootTime leader_until;
};
struct ObservationsReceived {
  SessionId session = 0;
  capstan::type::v1::Observations observations;
};
struct SessionClosed {
  SessionId session = 0;
};

// Answers of the data source to EnsureData, by Job and position in its spec's datasets.
struct DataProgressed {
  std::string job_uid;
  int dataset = 0;
  std::string data_load;
  int64_t loaded_bytes = 0;
  int64_t total_bytes = 0;
  double bytes_per_second = 0;
  absl::Duration eta = absl::InfiniteDuration();  // infinite: unknown
};
struct DataReady {
  std::string job_uid;
  int dataset = 0;
  // If that is another one than was asked for, the Job fails.
  std::string version;
};
struct DataFailed {
  std::string job_uid;
  int dataset = 0;
  std::string reason;   // becomes the Job's
  std::string message;  // names the object
};
struct PinsReleased {
  std::string job_uid;
  int64_t generation = 0;
};

// Answers of the archive to ArchiveJobs. They name what it was asked, so that a late one is known.
struct JobsArchived {
  std::vector<std::string> uids;
};
struct ArchiveFailed {
  std::vector<std::string> uids;
};

// NextDeadline has passed.
struct Tick {};

using Event =
    std::variant<LeadershipGained, CreateJob, UpdateJob, CancelJob, CreateQueue, UpdateQueue,
                 CordonNode, UncordonNode, CreateCapacityOrder, DeleteCapacityOrder,
                 CreateMaintenanceWindow, DeleteMaintenanceWindow, ConfirmSilence, HelloReceived,
                 RenewalReceived, ObservationsReceived, SessionClosed, DataProgressed, DataReady,
                 DataFailed, PinsReleased, JobsArchived, ArchiveFailed, Tick>;

// ---- Effects

// Sends on a session that is still open. The engine sets `revision` of DesiredTasks to the store's
// revision after the step, and drops the message if it cannot be sent before `send_before`.
struct SendDown {
  SessionId session = 0;
  capstan::type::v1::SessionDown message;
  BootTime send_before = BootTime::InfiniteFuture();
};
struct CloseSession {
  SessionId session = 0;
  absl::Status status;
};
struct ReplyJob {
  CallId call = 0;
  absl::StatusOr<capstan::scheduler::v1::Job> job;
};
struct ReplyQueue {
  CallId call = 0;
  absl::StatusOr<capstan::scheduler::v1::Queue> queue;
};
struct ReplyNode {
  CallId call = 0;
  absl::StatusOr<capstan::scheduler::v1::Node> node;
};
struct ReplyCapacityOrder {
  CallId call = 0;
  absl::StatusOr<capstan::scheduler::v1::CapacityOrder> order;
};
struct ReplyMaintenanceWindow {
  CallId call = 0;
  absl::StatusOr<capstan::scheduler::v1::MaintenanceWindow> window;
};
struct ReplyEmpty {
  CallId call = 0;
  absl::Status status;
};
// Brings a Dataset to a Site of the Cluster and reports until ready or failed. Idempotent; replaces
// an earlier one of the same (Job, position).
struct EnsureData {
  std::string job_uid;
  int dataset_position = 0;
  std::string dataset;
  std::string version;  // empty: newest
  std::string cluster;
};
// No report about the Job's data is wanted any more.
struct StopData {
  std::string job_uid;
};
// Releases the pins of `<job uid>/<generation>`; answered by PinsReleased however long it takes.
struct ReleasePins {
  std::string job_uid;
  int64_t generation = 0;
};
// Hands ended Jobs to the archive, which answers with JobsArchived once it has them on disk, or
// with ArchiveFailed. Idempotent by uid. At most one is under way in a term.
struct ArchiveJobs {
  std::vector<capstan::scheduler::v1::Job> jobs;
};
// The observer is (no longer) suspected of being blind: page someone.
struct ObserverSuspected {
  bool suspected = false;
};

// Tells of something that took time; with `until_stored` it ends when the effect is carried out,
// since what this step decided is stored then.
struct TellSpan {
  trace::Span span;
  bool until_stored = false;
};

using Effect = std::variant<SendDown, CloseSession, ReplyJob, ReplyQueue, ReplyNode,
                            ReplyCapacityOrder, ReplyMaintenanceWindow, ReplyEmpty, EnsureData,
                            StopData, ReleasePins, ArchiveJobs, ObserverSuspected, TellSpan>;

// Changes that must be committed in one transaction, with the events that tell of them.
struct Write {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<capstan::event::v1::JobEvent> events;
};

// What a step did that metrics count. Not recorded anywhere: a step that is taken again by another
// leader may be counted twice, or not at all.
struct StepTally {
  // Gangs that were told to end for one of higher priority in their own Queue, and for one of
  // another Queue that wants its guarantee back; and those that gave up Tasks for another.
  int64_t preempted_by_priority = 0;
  int64_t preempted_by_guarantee = 0;
  int64_t shrunk = 0;
  // How long each Job that was placed had stood in its Queue.
  std::vector<absl::Duration> waits;
  // Work that generations lost which ended in this step: why, and accelerators times the time since
  // the last checkpoint that there can have been.
  struct Lost {
    absl::string_view why;  // of LostWorkReasons(), lost_work.h
    absl::Duration accelerator_time;
  };
  std::vector<Lost> lost;
};

// What an event led to. `persist` is committed in order, each Write whole; every prefix of it is a
// state the core can be rebuilt from. `after` is carried out in order, once all of `persist` and of
// every earlier step is committed.
struct Step {
  std::vector<Write> persist;
  std::vector<Effect> after;
  StepTally tally;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_EVENTS_H_
