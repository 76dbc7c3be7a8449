#include "tools/capstan/admin/platform_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/digest/sha256.h"
#include "libs/event_shipper/restored_event.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/backup.h"
#include "libs/store/backup_file.h"
#include "libs/store/service_records.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"
#include "tools/capstan/admin/backup_folder.h"
#include "tools/capstan/admin/backup_manifest.pb.h"
#include "tools/capstan/admin/platform_databases.h"
#include "tools/capstan/admin/platform_stores.h"
#include "tools/capstan/admin/records_check.h"
#include "tools/capstan/admin/stored_services.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/proto_text.h"
#include "tools/capstan/dev/data_folder.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/platform_config.h"

namespace capstan::admin {
namespace {

using store::BackupProgress;
using v1::BackupManifest;

constexpr int64_t kRecordsBetweenProgress = 50'000;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status SyncFolder(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync of", path);
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0) return ErrnoStatus(errno, "making", path);
  return absl::OkStatus();
}

BackupProgress Progress(cli::Invocation& invocation, std::string what) {
  return [err = invocation.err, what = std::move(what)](int64_t records, int64_t bytes) {
    if (records % kRecordsBetweenProgress != 0) return;
    *err << "capstan: " << what << ": " << records << " records, " << cli::HumanBytes(bytes)
         << std::endl;
  };
}

absl::Status NoPlatform(const std::string& where) {
  return status::Error(absl::StatusCode::kNotFound, "NO_PLATFORM",
                       absl::StrCat("there is no platform in ", where));
}

absl::Status BackupStores(const PlatformStores& stores, const std::string& folder,
                          cli::Invocation& invocation, BackupManifest* manifest) {
  for (const StoredService& service : StoredServices()) {
    const std::string& name = service.records.service;
    if (!service.backed_up) continue;
    const auto source = stores.Source(name);
    // A platform that has not started since the service came to it has no such store.
    if (absl::IsNotFound(source.status()) && name != dev::kCredentials) continue;
    if (absl::IsNotFound(source.status())) return NoPlatform(stores.Describe(name));
    if (!source.ok()) return source.status();
    BackupManifest::Store* entry = manifest->add_stores();
    entry->set_service(name);
    entry->set_file(absl::StrCat("stores/", name, ".backup"));
    store::BackupOptions options;
    options.service = name;
    options.schema = service.records.schema;
    options.path = absl::StrCat(folder, "/", entry->file());
    options.now = invocation.clock->Read().wall;
    options.progress = Progress(invocation, name);
    CAPSTAN_ASSIGN_OR_RETURN(const auto header, store::WriteBackup(source->get(), options));
    // No platform is without one: the settings name another etcd, say.
    if (name == dev::kCredentials && header.record_count() == 0) {
      return NoPlatform(stores.Describe(name));
    }
    entry->set_store_incarnation(header.store_incarnation());
    entry->set_revision(header.revision());
    entry->set_record_count(header.record_count());
    entry->set_body_sha256(header.body_sha256());
    *entry->mutable_create_time() = header.create_time();
    *invocation.err << "capstan: " << name << ": " << header.record_count() << " records, "
                    << cli::HumanBytes(header.body_bytes()) << std::endl;
  }
  return absl::OkStatus();
}

absl::Status BackupFiles(const std::string& data_dir, const std::string& folder, bool with_key,
                         BackupManifest* manifest) {
  for (const char* path : {kBackupKey, kBackupConfig}) {
    const std::string source = absl::StrCat(data_dir, "/", path);
    if (!Exists(source) || (path == kBackupKey && !with_key)) continue;
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadSmallFile(source));
    BackupManifest::File* entry = manifest->add_files();
    entry->set_path(path);
    entry->set_file(path == kBackupKey ? "files/key_keeper.key" : "files/config.yaml");
    entry->set_sha256(Sha256::Of(bytes));
    CAPSTAN_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/", entry->file()), bytes, 0600));
  }
  return absl::OkStatus();
}

absl::Status Print(const BackupManifest& manifest, const std::string& folder,
                   absl::string_view what, cli::Invocation& invocation) {
  int64_t records = 0;
  for (const BackupManifest::Store& entry : manifest.stores()) records += entry.record_count();
  *invocation.err << "capstan: " << what << " " << manifest.stores_size() << " stores with "
                  << records << " records\n";
  const cli::OutputFormat format = invocation.output.format;
  if (format != cli::OutputFormat::kTable && format != cli::OutputFormat::kName) {
    return cli::PrintMessage(invocation, manifest);
  }
  *invocation.out << folder << "\n";
  return absl::OkStatus();
}

// What a restore will fill, each held by its lock.
struct Target {
  BackupManifest::Store entry;
  StoredService service;
  std::unique_ptr<store::RestoreTarget> target;
};

absl::StatusOr<StoredService> ServiceOf(const BackupManifest::Store& entry) {
  for (StoredService& service : StoredServices()) {
    if (service.backed_up && service.records.service == entry.service()) return std::move(service);
  }
  return status::Error(absl::StatusCode::kFailedPrecondition, store::kReasonForeignBackup,
                       absl::StrCat("the backup holds a store of '", entry.service(),
                                    "', which this program does not know"));
}

// `filled`: what else a restore would replace.
absl::StatusOr<std::vector<Target>> OpenTargets(const PlatformStores& stores,
                                                const BackupManifest& manifest, bool force,
                                                std::vector<std::string> filled) {
  std::vector<Target> targets;
  std::string where;
  for (const BackupManifest::Store& entry : manifest.stores()) {
    Target target;
    target.entry = entry;
    CAPSTAN_ASSIGN_OR_RETURN(target.service, ServiceOf(entry));
    CAPSTAN_ASSIGN_OR_RETURN(target.target, stores.Target(entry.service()));
    CAPSTAN_ASSIGN_OR_RETURN(const auto state, target.target->Inspect());
    if (!state.empty && !state.unfinished) filled.push_back(entry.service());
    where = stores.Describe(entry.service());
    targets.push_back(std::move(target));
  }
  if (!filled.empty() && !force) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, store::kReasonStoreNotEmpty,
        absl::StrCat("the platform in ", where, " has a past (", absl::StrJoin(filled, ", "),
                     "), which a restore would replace: say --force"));
  }
  return targets;
}

// Stored keys open only with the key that they were enveloped with.
absl::Status RestoreFiles(const std::string& data_dir, const std::string& from,
                          const BackupManifest& manifest) {
  for (const BackupManifest::File& entry : manifest.files()) {
    const std::string path = absl::StrCat(data_dir, "/", entry.path());
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadKeptFile(from, entry));
    if (Exists(path)) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string there, ReadSmallFile(path));
      // Settings that are there are newer than the backup's.
      if (there == bytes || entry.path() == kBackupConfig) continue;
      if (rename(path.c_str(), absl::StrCat(path, ".replaced").c_str()) != 0) {
        return ErrnoStatus(errno, "renaming", path);
      }
    }
    CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(path, bytes, 0600));
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const std::string& data_dir, const std::string& from,
                      const BackupManifest& manifest, bool force) {
  const std::string path = absl::StrCat(data_dir, "/", kBackupKey);
  for (const BackupManifest::File& entry : manifest.files()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadKeptFile(from, entry));
    if (entry.path() != kBackupKey) continue;
    if (!Exists(path)) return absl::OkStatus();
    CAPSTAN_ASSIGN_OR_RETURN(const std::string there, ReadSmallFile(path));
    if (there == bytes || force) return absl::OkStatus();
    return status::Error(absl::StatusCode::kFailedPrecondition, "OTHER_KEY",
                         absl::StrCat(path,
                                      " is another key than the backup's: say --force to "
                                      "replace it (it is kept as ",
                                      path, ".replaced)"));
  }
  if (Exists(path)) return absl::OkStatus();
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "NO_KEY",
      absl::StrCat("the backup was made without the key: put it to ", path, " (0600) first"));
}

// Where the restored stores are to lie: by the settings that are named, else by those that are
// there, else by the backup's.
absl::StatusOr<cli::v1::PlatformConfig> SettingsFor(const RestoreOptions& options,
                                                    const std::string& data_dir,
                                                    const BackupManifest& manifest) {
  if (!options.config.empty()) return dev::ReadNewPlatformConfig(options.config);
  if (!Exists(absl::StrCat(data_dir, "/", kBackupConfig))) {
    for (const BackupManifest::File& entry : manifest.files()) {
      if (entry.path() != kBackupConfig) continue;
      return dev::ReadNewPlatformConfig(absl::StrCat(options.from, "/", entry.file()));
    }
  }
  return dev::ReadPlatformConfig(data_dir);
}

void CheckStoreFile(const std::string& path, const store::ServiceRecords& service,
                    RecordsCheck* check) {
  const auto read = store::ReadBackupFile(
      path,
      [&](const store::backup::v1::BackupHeader& header) -> absl::Status {
        if (header.service() == service.service) return absl::OkStatus();
        return status::Error(absl::StatusCode::kFailedPrecondition, store::kReasonForeignBackup,
                             absl::StrCat("the file is of '", header.service(), "'"));
      },
      [&](const store::backup::v1::BackupRecord& record) {
        check->See(record.key(), record.value());
        return absl::OkStatus();
      });
  if (!read.ok()) return check->Wrong(read.status());
  check->Finish();
}

// False if there is no such store.
bool CheckLiveStore(const PlatformStores& stores, const store::ServiceRecords& service,
                    RecordsCheck* check) {
  const auto source = stores.Source(service.service);
  if (absl::IsNotFound(source.status())) return false;
  const absl::Status file = source.ok() ? stores.CheckFile(service.service) : source.status();
  if (!file.ok()) {
    check->Wrong(file);
    return true;
  }
  const auto seen = store::ForEachRecord(source->get(), service.service, service.schema,
                                         [&](int64_t, const store::KeyValue& kv) {
                                           check->See(kv.key, kv.value);
                                           return absl::OkStatus();
                                         });
  if (seen.ok()) {
    check->Finish();
  } else {
    check->Wrong(seen.status());
  }
  return true;
}

}  // namespace

absl::Status BackupPlatform(const BackupOptions& options, cli::Invocation& invocation) {
  const std::string& data_dir = invocation.data_dir;
  if (!Exists(data_dir)) return NoPlatform(data_dir);
  if (Exists(dev::UnfinishedRestoreFile(data_dir))) return dev::UnfinishedRestore(data_dir);
  CAPSTAN_ASSIGN_OR_RETURN(cli::v1::PlatformConfig config, dev::ReadPlatformConfig(data_dir));
  const PlatformStores stores(data_dir, std::move(config), invocation.clock);
  if (Exists(options.out)) {
    return status::Error(absl::StatusCode::kAlreadyExists, "BACKUP_EXISTS",
                         absl::StrCat(options.out, " exists: name another folder"));
  }
  const std::string partial = options.out + ".partial";
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(partial));
  absl::Cleanup remove_partial = [&] {
    std::error_code ignored;
    std::filesystem::remove_all(partial, ignored);
  };
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(partial + "/stores"));
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(partial + "/files"));
  BackupManifest manifest;
  manifest.set_format(kBackupFormat);
  *manifest.mutable_create_time() = ToProto(invocation.clock->Read().wall);
  CAPSTAN_RETURN_IF_ERROR(BackupStores(stores, partial, invocation, &manifest));
  CAPSTAN_RETURN_IF_ERROR(BackupDatabases(data_dir, partial, invocation, &manifest));
  CAPSTAN_RETURN_IF_ERROR(BackupFiles(data_dir, partial, !options.without_key, &manifest));
  CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(partial, "/", kBackupManifest),
                                              cli::ToJson(manifest), 0600));
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(partial));
  if (rename(partial.c_str(), options.out.c_str()) != 0) {
    return ErrnoStatus(errno, "naming", options.out);
  }
  std::move(remove_partial).Cancel();
  const size_t slash = options.out.find_last_of('/', options.out.size() - 2);
  CAPSTAN_RETURN_IF_ERROR(
      SyncFolder(slash == std::string::npos ? "." : options.out.substr(0, slash + 1)));
  return Print(manifest, options.out, "backed up", invocation);
}

absl::Status RestorePlatform(const RestoreOptions& options, cli::Invocation& invocation) {
  const std::string& data_dir = invocation.data_dir;
  CAPSTAN_ASSIGN_OR_RETURN(const BackupManifest manifest, ReadManifest(options.from));
  CAPSTAN_ASSIGN_OR_RETURN(const dev::DataFolder folder, dev::DataFolder::Own(data_dir));
  const bool again = Exists(dev::UnfinishedRestoreFile(data_dir));
  const bool force = options.force || again;
  CAPSTAN_RETURN_IF_ERROR(CheckKey(data_dir, options.from, manifest, force));
  for (const BackupManifest::Store& entry : manifest.stores()) {
    CAPSTAN_RETURN_IF_ERROR(ServiceOf(entry).status());
    CAPSTAN_RETURN_IF_ERROR(VerifyStoreFile(options.from, entry));
  }
  CAPSTAN_RETURN_IF_ERROR(VerifyDatabases(options.from, manifest));
  CAPSTAN_ASSIGN_OR_RETURN(cli::v1::PlatformConfig config,
                           SettingsFor(options, data_dir, manifest));
  CAPSTAN_RETURN_IF_ERROR(dev::MakePartFolders(data_dir, config));
  const PlatformStores stores(data_dir, std::move(config), invocation.clock);
  std::vector<std::string> filled;
  CAPSTAN_ASSIGN_OR_RETURN(DatabaseRestore databases,
                           DatabaseRestore::Open(data_dir, options.from, manifest, &filled));
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<Target> targets,
                           OpenTargets(stores, manifest, force, std::move(filled)));

  CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(dev::UnfinishedRestoreFile(data_dir),
                                              absl::StrCat(options.from, "\n"), 0600));
  if (!options.config.empty()) {
    CAPSTAN_RETURN_IF_ERROR(dev::InstallPlatformConfig(options.config, data_dir));
  }
  CAPSTAN_RETURN_IF_ERROR(RestoreFiles(data_dir, options.from, manifest));
  for (Target& target : targets) {
    const std::string& name = target.entry.service();
    RestoredEvents events(name, target.entry.store_incarnation());
    store::RestoreOptions restore;
    restore.path = absl::StrCat(options.from, "/", target.entry.file());
    restore.service = name;
    restore.schema = target.service.records.schema;
    restore.force = true;
    restore.now = invocation.clock->Read().wall;
    restore.rewrite = [&](const store::backup::v1::BackupHeader&, std::string* key,
                          std::string* value) {
      events.Prepare(key, value);
      if (target.service.records.prepare_restored != nullptr) {
        target.service.records.prepare_restored(*key, value);
      }
    };
    restore.progress = Progress(invocation, name);
    const auto restored = store::RestoreBackup(target.target.get(), restore);
    if (!restored.ok()) return BlameFile(restored.status());
    *invocation.err << "capstan: " << name << ": " << restored->header.record_count()
                    << " records, incarnation " << restored->incarnation << std::endl;
  }
  CAPSTAN_RETURN_IF_ERROR(databases.Run(invocation));
  if (unlink(dev::UnfinishedRestoreFile(data_dir).c_str()) != 0) {
    return ErrnoStatus(errno, "removing", dev::UnfinishedRestoreFile(data_dir));
  }
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(data_dir));
  return Print(manifest, data_dir, "restored", invocation);
}

absl::Status CheckPlatform(const CheckOptions& options, cli::Invocation& invocation) {
  BackupManifest manifest;
  cli::v1::PlatformConfig config;
  if (!options.from.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(manifest, ReadManifest(options.from));
  } else {
    if (!Exists(invocation.data_dir)) return NoPlatform(invocation.data_dir);
    CAPSTAN_ASSIGN_OR_RETURN(config, dev::ReadPlatformConfig(invocation.data_dir));
  }
  const PlatformStores live(invocation.data_dir, std::move(config), invocation.clock);
  size_t problems = 0;
  int stores = 0;
  const auto report = [&](absl::string_view what, const RecordsCheck& check) {
    ++stores;
    problems += check.problems().size();
    *invocation.out << what << ": "
                    << (check.problems().empty()
                            ? absl::StrCat("sound, ", check.records(), " records")
                            : absl::StrJoin(check.problems(), absl::StrCat("\n", what, ": ")))
                    << std::endl;
  };
  for (const StoredService& service : StoredServices()) {
    const std::string& name = service.records.service;
    if (options.from.empty()) {
      RecordsCheck check(service.records);
      if (CheckLiveStore(live, service.records, &check)) report(name, check);
      continue;
    }
    for (const BackupManifest::Store& entry : manifest.stores()) {
      if (entry.service() != name) continue;
      RecordsCheck check(service.records);
      const absl::Status verified = VerifyStoreFile(options.from, entry);
      if (!verified.ok()) {
        check.Wrong(verified);
      } else {
        CheckStoreFile(absl::StrCat(options.from, "/", entry.file()), service.records, &check);
      }
      report(name, check);
    }
  }
  const auto report_database = [&](absl::string_view what, const absl::StatusOr<int64_t>& records) {
    problems += records.ok() ? 0 : 1;
    *invocation.out << what << ": "
                    << (records.ok() ? absl::StrCat("sound, ", *records, " records")
                                     : std::string(records.status().message()))
                    << std::endl;
  };
  if (options.from.empty()) {
    CheckDatabases(invocation.data_dir, report_database);
  } else {
    CheckCopiedDatabases(options.from, manifest, report_database);
  }
  for (const BackupManifest::File& entry : manifest.files()) {
    const auto read = ReadKeptFile(options.from, entry);
    if (read.ok()) continue;
    ++problems;
    *invocation.out << read.status() << "\n";
  }
  if (stores == 0) {
    return status::Error(absl::StatusCode::kNotFound, "NO_PLATFORM",
                         absl::StrCat("there is no store in ",
                                      options.from.empty() ? invocation.data_dir : options.from));
  }
  if (problems == 0) return absl::OkStatus();
  return cli::Failed(absl::StrCat(problems, " problems were found"));
}

}  // namespace capstan::admin
