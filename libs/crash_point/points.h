// The name of every crash point: `<part>.<where>`. `store` and `etcd` stand for each part that has
// a store, `audit` for each that has an audit chain in a file, `identity` for each that keeps an
// SVID, `content` for the data_loader, `events` for the scheduler, which alone has an outbox.
#ifndef CAPSTAN_LIBS_CRASH_POINT_POINTS_H_
#define CAPSTAN_LIBS_CRASH_POINT_POINTS_H_

#include "absl/strings/string_view.h"

namespace capstan::crash {

// SQLite: all of a group is written, nothing of it is committed; it is durable, nobody knows.
inline constexpr absl::string_view kStoreBeforeCommit = "store.before_commit";
inline constexpr absl::string_view kStoreCommitted = "store.committed";

// A folder is whole and synced beside its place, its manifest is there; it has its name, which is
// not synced. For versions and Outputs, by the data_loader.
inline constexpr absl::string_view kContentBeforeRename = "content.before_rename";
inline constexpr absl::string_view kContentRenamed = "content.renamed";

// Telemetry has acknowledged events, which the outbox still has.
inline constexpr absl::string_view kEventsAcknowledged = "events.acknowledged";

// Records are in the audit chain's file, not synced; they are, and the act has not happened.
inline constexpr absl::string_view kAuditWritten = "audit.written";
inline constexpr absl::string_view kAuditSynced = "audit.synced";

// A new SVID, or before it the roots that verify it, is synced beside its place; it is in its
// place, the folder is not synced, and the process still uses the one before.
inline constexpr absl::string_view kIdentityBeforeRename = "identity.before_rename";
inline constexpr absl::string_view kIdentityRenamed = "identity.renamed";

// A step is stored, none of its effects has begun; all of them have. `answering`: what a caller
// asked for is stored, and the next thing is to say so.
inline constexpr absl::string_view kSchedulerBeforeEffects = "scheduler.before_effects";
inline constexpr absl::string_view kSchedulerAfterEffects = "scheduler.after_effects";
inline constexpr absl::string_view kSchedulerAnswering = "scheduler.answering";
inline constexpr absl::string_view kSchedulerBeforeEnsureData = "scheduler.before_ensure_data";
inline constexpr absl::string_view kSchedulerBeforeReleasePins = "scheduler.before_release_pins";
inline constexpr absl::string_view kSchedulerPinsReleased = "scheduler.pins_released";

// Around each message to the scheduler and to an agent.
inline constexpr absl::string_view kExecutorBeforeSendUp = "executor.before_send_up";
inline constexpr absl::string_view kExecutorSentUp = "executor.sent_up";
inline constexpr absl::string_view kExecutorBeforeSendAgent = "executor.before_send_agent";
inline constexpr absl::string_view kExecutorSentAgent = "executor.sent_agent";

// The effects that a Task's record asks for, each before it begins; and the answer to one, before
// it is stored.
inline constexpr absl::string_view kAgentBeforeSendUp = "node_agent.before_send_up";
inline constexpr absl::string_view kAgentBeforeOpenOutput = "node_agent.before_open_output";
inline constexpr absl::string_view kAgentBeforePin = "node_agent.before_pin";
inline constexpr absl::string_view kAgentBeforeMakePlace = "node_agent.before_make_place";
inline constexpr absl::string_view kAgentBeforeFurnish = "node_agent.before_furnish";
inline constexpr absl::string_view kAgentBeforeIssueIdentity = "node_agent.before_issue_identity";
inline constexpr absl::string_view kAgentBeforeStartTask = "node_agent.before_start_task";
inline constexpr absl::string_view kAgentBeforeControlTask = "node_agent.before_control_task";
inline constexpr absl::string_view kAgentBeforeCommit = "node_agent.before_commit";
inline constexpr absl::string_view kAgentBeforeRemovePlace = "node_agent.before_remove_place";
inline constexpr absl::string_view kAgentBeforeReleasePins = "node_agent.before_release_pins";
inline constexpr absl::string_view kAgentAnswered = "node_agent.answered";

// Within those effects: what they have made on the machine so far.
inline constexpr absl::string_view kAgentFolderMade = "node_agent.folder_made";
inline constexpr absl::string_view kAgentCgroupMade = "node_agent.cgroup_made";
inline constexpr absl::string_view kAgentSpecWritten = "node_agent.spec_written";
inline constexpr absl::string_view kAgentShimForked = "node_agent.shim_forked";
inline constexpr absl::string_view kAgentCgroupRemoved = "node_agent.cgroup_removed";
inline constexpr absl::string_view kAgentFolderMoved = "node_agent.folder_moved";
inline constexpr absl::string_view kAgentFolderRemoved = "node_agent.folder_removed";
inline constexpr absl::string_view kAgentIdentityWritten = "node_agent.identity_written";
inline constexpr absl::string_view kAgentIdentityLinked = "node_agent.identity_linked";

// Telemetry has acknowledged a Task's lines, the cursor behind them is not stored; it is.
inline constexpr absl::string_view kAgentLinesAcknowledged = "node_agent.lines_acknowledged";
inline constexpr absl::string_view kAgentCursorStored = "node_agent.cursor_stored";

// The life of a shim: it owns the folder; its first status is there; the Task's init is forked; the
// start is recorded; the program was let go; lines are in the log; the program has ended; that is
// recorded.
inline constexpr absl::string_view kShimLocked = "shim.locked";
inline constexpr absl::string_view kShimRecorded = "shim.recorded";
inline constexpr absl::string_view kShimForked = "shim.forked";
inline constexpr absl::string_view kShimStartRecorded = "shim.start_recorded";
inline constexpr absl::string_view kShimStarted = "shim.started";
inline constexpr absl::string_view kShimLinesWritten = "shim.lines_written";
inline constexpr absl::string_view kShimEnded = "shim.ended";
inline constexpr absl::string_view kShimEndRecorded = "shim.end_recorded";

// A step is stored; its effects are under way; then whoever asked is told.
inline constexpr absl::string_view kLoaderStored = "data_loader.stored";
inline constexpr absl::string_view kLoaderAnswering = "data_loader.answering";

// A load: its plan is written; the bytes of a group of parts are synced, the journal lacks them; it
// has them (these two come once for each group, however many parts it has); the digest is noted,
// nothing published; the version is there, the load's folder too.
inline constexpr absl::string_view kLoaderPlanned = "data_loader.planned";
inline constexpr absl::string_view kLoaderPartSynced = "data_loader.part_synced";
inline constexpr absl::string_view kLoaderPartNoted = "data_loader.part_noted";
inline constexpr absl::string_view kLoaderDigestNoted = "data_loader.digest_noted";
inline constexpr absl::string_view kLoaderPublished = "data_loader.published";

// What makes room for a load is stored as absent: its version is whole in its place; it is beside,
// its manifest is not; nothing is left of it.
inline constexpr absl::string_view kLoaderBeforeEvict = "data_loader.before_evict";
inline constexpr absl::string_view kLoaderVersionMoved = "data_loader.version_moved";
inline constexpr absl::string_view kLoaderVersionRemoved = "data_loader.version_removed";

// Records are written to the segments, none synced; all are, nobody was told.
inline constexpr absl::string_view kTelemetryWritten = "telemetry.written";
inline constexpr absl::string_view kTelemetrySynced = "telemetry.synced";

// Subscriptions, their cursors above all, are written, not committed; they are, nobody was told.
inline constexpr absl::string_view kTelemetryBeforeSubscriptions = "telemetry.before_subscriptions";
inline constexpr absl::string_view kTelemetrySubscriptionsStored = "telemetry.subscriptions_stored";

// Ended Jobs are written to the archive, not committed; they are, and the scheduler has them still.
inline constexpr absl::string_view kTelemetryBeforeArchive = "telemetry.before_archive";
inline constexpr absl::string_view kTelemetryArchived = "telemetry.archived";

// What a call led to is committed; an SVID is signed, not given; the answer is given.
inline constexpr absl::string_view kCredentialsCommitted = "credentials.committed";
inline constexpr absl::string_view kCredentialsSigned = "credentials.signed";
inline constexpr absl::string_view kCredentialsAnswered = "credentials.answered";

// The head of an audit chain is signed, not stored; it is, and whose chain it is was not told.
inline constexpr absl::string_view kCredentialsHeadSigned = "credentials.head_signed";
inline constexpr absl::string_view kCredentialsHeadStored = "credentials.head_stored";

// A step on the Nodes' health is stored.
inline constexpr absl::string_view kClusterManagerStored = "cluster_manager.stored";

// The key that guards all others, made once in a platform's life: written beside its place; in it.
inline constexpr absl::string_view kCredentialsKeyWritten = "credentials.key_written";
inline constexpr absl::string_view kCredentialsKeyLinked = "credentials.key_linked";

// etcd: a transaction is about to be sent; it is answered, nobody knows.
inline constexpr absl::string_view kEtcdBeforeSend = "etcd.before_send";
inline constexpr absl::string_view kEtcdAnswered = "etcd.answered";

// Every one that a Job of its own comes by.
inline constexpr absl::string_view kAllPoints[] = {
    kStoreBeforeCommit,
    kStoreCommitted,
    kContentBeforeRename,
    kContentRenamed,
    kEventsAcknowledged,
    kAuditWritten,
    kAuditSynced,
    kIdentityBeforeRename,
    kIdentityRenamed,
    kSchedulerBeforeEffects,
    kSchedulerAfterEffects,
    kSchedulerAnswering,
    kSchedulerBeforeEnsureData,
    kSchedulerBeforeReleasePins,
    kSchedulerPinsReleased,
    kExecutorBeforeSendUp,
    kExecutorSentUp,
    kExecutorBeforeSendAgent,
    kExecutorSentAgent,
    kAgentBeforeSendUp,
    kAgentBeforeOpenOutput,
    kAgentBeforePin,
    kAgentBeforeMakePlace,
    kAgentBeforeFurnish,
    kAgentBeforeIssueIdentity,
    kAgentBeforeStartTask,
    kAgentBeforeControlTask,
    kAgentBeforeCommit,
    kAgentBeforeRemovePlace,
    kAgentBeforeReleasePins,
    kAgentAnswered,
    kAgentFolderMade,
    kAgentCgroupMade,
    kAgentSpecWritten,
    kAgentShimForked,
    kAgentCgroupRemoved,
    kAgentFolderMoved,
    kAgentFolderRemoved,
    kAgentIdentityWritten,
    kAgentIdentityLinked,
    kAgentLinesAcknowledged,
    kAgentCursorStored,
    kShimLocked,
    kShimRecorded,
    kShimForked,
    kShimStartRecorded,
    kShimStarted,
    kShimLinesWritten,
    kShimEnded,
    kShimEndRecorded,
    kLoaderStored,
    kLoaderAnswering,
    kLoaderPlanned,
    kLoaderPartSynced,
    kLoaderPartNoted,
    kLoaderDigestNoted,
    kLoaderPublished,
    kLoaderBeforeEvict,
    kLoaderVersionMoved,
    kLoaderVersionRemoved,
    kTelemetryWritten,
    kTelemetrySynced,
    kTelemetryBeforeSubscriptions,
    kTelemetrySubscriptionsStored,
    kTelemetryBeforeArchive,
    kTelemetryArchived,
    kCredentialsCommitted,
    kCredentialsSigned,
    kCredentialsAnswered,
    kCredentialsHeadSigned,
    kCredentialsHeadStored,
    kClusterManagerStored,
};

// Those that only the first start of a platform comes by.
inline constexpr absl::string_view kFirstStartPoints[] = {
    kCredentialsKeyWritten,
    kCredentialsKeyLinked,
};

// Those of a platform whose store is etcd, in place of the ones of SQLite.
inline constexpr absl::string_view kEtcdPoints[] = {
    kEtcdBeforeSend,
    kEtcdAnswered,
};

}  // namespace capstan::crash

#endif  // CAPSTAN_LIBS_CRASH_POINT_POINTS_H_
