// Backup, restore and check of all that a platform's data folder cannot do without.
//
// What is backed up: the stores of the services (SQLite files or an etcd, as `config.yaml` says),
// `credentials/key_keeper.key` (which opens the keys that lie enveloped in the store of
// credentials) and `config.yaml`. What is not: the stores of executor and node agent, which say
// what runs on this machine *now*; an older copy would be untrue. A restore leaves them as they
// lie, so that what runs goes on; where they are lost, they begin empty under new incarnations. Nor
// what Streams and Sites hold. For telemetry's archive and subscriptions see platform_databases.h.
//
// Each store is read as of one revision, one store after the other while all services run: those
// that refer first, those that are referred to after them. So whatever a restored record names is
// at least as new as its name: scheduler (names Queues of its own, Datasets, Bundles, Outputs,
// Projects), cluster_manager, data_loader (Projects), credentials. What was made in
// between and is named by nobody does no harm.
//
// A restore gives every store an incarnation above all that were: executors and agents refuse
// whoever speaks with an older one. Jobs go on under generations far above those of the backup (see
// services/scheduler/core/restored_record.h), Tasks that run and that the backup knows are adopted,
// others are collected.
#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_BACKUP_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_BACKUP_H_

#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::admin {

struct BackupOptions {
  // A folder that does not exist yet.
  std::string out;
  // Leave out the key: the backup alone then opens nothing, and restores nothing elsewhere.
  bool without_key = false;
};
// Whether the platform runs or not. The folder (0700) gets its name once it is whole and on disk.
absl::Status BackupPlatform(const BackupOptions& options, cli::Invocation& invocation);

struct RestoreOptions {
  // What BackupPlatform made.
  std::string from{};
  // Settings of the restored platform, instead of those that are there or in the backup: also where
  // its stores are to lie, so that a platform moves from one kind to the other.
  std::string config{};
  // Replace stores that are not empty, and another key.
  bool force = false;
};
// Refuses while anything of the platform runs (but Tasks), and before it touches anything if any
// file is not whole. A restore that is cut off leaves the platform unable to start until one has
// been finished.
absl::Status RestorePlatform(const RestoreOptions& options, cli::Invocation& invocation);

struct CheckOptions {
  // A backup; empty: the data folder's stores as they are, also while the platform runs.
  std::string from;
};
// Reads everything: sums, files, that every record is what its key says, references. Prints what is
// wrong; ENDED_BADLY if anything is.
absl::Status CheckPlatform(const CheckOptions& options, cli::Invocation& invocation);

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_BACKUP_H_
