#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_STORES_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_STORES_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/store/backup.h"
#include "libs/time/clock.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"

namespace capstan::admin {

// The stores of a platform, where its settings say that they lie: SQLite files in the data folder,
// or an etcd. Blocking. For one thread.
class PlatformStores {
 public:
  // `clock` must outlive it and what it gives.
  PlatformStores(std::string data_dir, cli::v1::PlatformConfig config, const Clock* clock)
      : data_dir_(std::move(data_dir)), config_(std::move(config)), clock_(clock) {}

  // One store as of one revision, which a service may be using. NOT_FOUND if there is none: the
  // service has not run yet. RESTORE_UNFINISHED, NOT_A_STORE, SCHEMA_TOO_NEW. In an etcd every
  // service's store is there, if only empty.
  absl::StatusOr<std::unique_ptr<store::BackupSource>> Source(absl::string_view service) const;
  // What a restore fills. STORE_LOCKED while a service uses the file; of an etcd, see
  // store::StoreRestoreTarget.
  absl::StatusOr<std::unique_ptr<store::RestoreTarget>> Target(absl::string_view service) const;
  // What SQLite itself can say of a file; of an etcd always OK.
  absl::Status CheckFile(absl::string_view service) const;
  // For people: the folder, or the members of the etcd.
  std::string Describe(absl::string_view service) const;

 private:
  bool InEtcd(absl::string_view service) const;

  const std::string data_dir_;
  const cli::v1::PlatformConfig config_;
  const Clock* const clock_;
};

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_STORES_H_
