#include "tools/capstan/admin/platform_stores.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/process/open_store.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_backup.h"
#include "libs/store/store.h"
#include "libs/store/store_backup.h"
#include "libs/strand/thread_strand.h"
#include "tools/capstan/admin/stored_services.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::admin {
namespace {

using store::RangeRequest;
using store::RangeResult;

// A store of an etcd with the thread that it calls back on.
class OpenedEtcd {
 public:
  static absl::StatusOr<std::unique_ptr<OpenedEtcd>> Open(const config::v1::Store& config,
                                                          absl::string_view service, bool restoring,
                                                          const Clock* clock) {
    auto opened = std::make_unique<OpenedEtcd>(clock);
    CAPSTAN_ASSIGN_OR_RETURN(
        opened->store_, process::OpenStore(config, service, /*data_folder=*/"", &opened->strand_,
                                           {.restoring = restoring}));
    return opened;
  }
  explicit OpenedEtcd(const Clock* clock) : strand_("admin", clock) {}
  ~OpenedEtcd() { strand_.Stop(); }
  OpenedEtcd(const OpenedEtcd&) = delete;
  OpenedEtcd& operator=(const OpenedEtcd&) = delete;

  store::Store* store() const { return store_.get(); }

 private:
  ThreadStrand strand_;
  std::unique_ptr<store::Store> store_;
};

class EtcdSource final : public store::BackupSource {
 public:
  explicit EtcdSource(std::unique_ptr<OpenedEtcd> etcd)
      : etcd_(std::move(etcd)), source_(etcd_->store()) {}

  absl::StatusOr<RangeResult> Range(RangeRequest request) override {
    return source_.Range(std::move(request));
  }
  int64_t incarnation() const override { return source_.incarnation(); }

 private:
  const std::unique_ptr<OpenedEtcd> etcd_;
  store::StoreBackupSource source_;
};

class EtcdTarget final : public store::RestoreTarget {
 public:
  EtcdTarget(std::unique_ptr<OpenedEtcd> etcd, std::string service)
      : etcd_(std::move(etcd)), target_(etcd_->store(), std::move(service)) {}

  absl::StatusOr<State> Inspect() override { return target_.Inspect(); }
  absl::Status Begin() override { return target_.Begin(); }
  absl::Status Write(std::vector<store::Put> puts) override {
    return target_.Write(std::move(puts));
  }
  absl::Status Finish(int64_t incarnation) override { return target_.Finish(incarnation); }

 private:
  const std::unique_ptr<OpenedEtcd> etcd_;
  store::StoreRestoreTarget target_;
};

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

bool PlatformStores::InEtcd(absl::string_view service) const {
  return config_.store().has_etcd() && service != "executor" && service != dev::kNodeAgent;
}

absl::StatusOr<std::unique_ptr<store::BackupSource>> PlatformStores::Source(
    absl::string_view service) const {
  if (InEtcd(service)) {
    CAPSTAN_ASSIGN_OR_RETURN(auto etcd, OpenedEtcd::Open(config_.store(), service,
                                                         /*restoring=*/false, clock_));
    return std::make_unique<EtcdSource>(std::move(etcd));
  }
  const std::string file = StoreFile(data_dir_, service);
  if (!Exists(file) && !Exists(file + ".restoring")) return status::NotFound(file);
  return store::SqliteBackupSource::Open(file);
}

absl::StatusOr<std::unique_ptr<store::RestoreTarget>> PlatformStores::Target(
    absl::string_view service) const {
  if (InEtcd(service)) {
    CAPSTAN_ASSIGN_OR_RETURN(auto etcd, OpenedEtcd::Open(config_.store(), service,
                                                         /*restoring=*/true, clock_));
    return std::make_unique<EtcdTarget>(std::move(etcd), std::string(service));
  }
  return store::SqliteRestoreTarget::Open(StoreFile(data_dir_, service));
}

absl::Status PlatformStores::CheckFile(absl::string_view service) const {
  if (InEtcd(service)) return absl::OkStatus();
  CAPSTAN_ASSIGN_OR_RETURN(const auto source,
                           store::SqliteBackupSource::Open(StoreFile(data_dir_, service)));
  return source->Check().status();
}

std::string PlatformStores::Describe(absl::string_view service) const {
  if (!InEtcd(service)) return data_dir_;
  return absl::StrCat("etcd ", absl::StrJoin(config_.store().etcd().endpoints(), ","));
}

}  // namespace capstan::admin
