#include "libs/process/open_store.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/etcd_options.h"
#include "libs/store/etcd_store.h"
#include "libs/store/sqlite_store.h"

namespace capstan::process {
namespace {

constexpr size_t kMaxPasswordBytes = 4096;

absl::StatusOr<store::EtcdOptions> OptionsOf(const config::v1::Store::Etcd& config,
                                             absl::string_view service, uint64_t seed) {
  store::EtcdOptions options;
  options.endpoints.assign(config.endpoints().begin(), config.endpoints().end());
  options.ca_file = config.ca_file();
  options.certificate_file = config.certificate_file();
  options.key_file = config.key_file();
  options.server_name = config.server_name();
  options.user = config.user();
  options.prefix = absl::StrCat("/capstan/", service, "/");
  options.random_seed = seed;
  if (!config.password_file().empty()) {
    const UniqueFd fd(open(config.password_file().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, "opening", config.password_file());
    CAPSTAN_ASSIGN_OR_RETURN(options.password,
                             ReadAll(fd.get(), kMaxPasswordBytes, config.password_file()));
    options.password = std::string(absl::StripSuffix(options.password, "\n"));
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<store::Store>> OpenStore(const config::v1::Store& config,
                                                        absl::string_view service,
                                                        const std::string& data_folder,
                                                        Strand* strand, OpenOptions options) {
  if (!config.has_etcd()) {
    const std::string& path = config.sqlite().path();
    return store::SqliteStore::Open(
        path.empty() ? absl::StrCat(data_folder, "/store.sqlite") : path, strand);
  }
  CAPSTAN_ASSIGN_OR_RETURN(store::EtcdOptions etcd,
                           OptionsOf(config.etcd(), service, options.seed));
  etcd.restoring = options.restoring;
  etcd.on_replaced = std::move(options.on_replaced);
  absl::StatusOr<std::unique_ptr<store::EtcdStore>> opened;
  absl::Notification done;
  strand->Post([&] {
    store::EtcdStore::Open(std::move(etcd), strand,
                           [&](absl::StatusOr<std::unique_ptr<store::EtcdStore>> store) {
                             opened = std::move(store);
                             done.Notify();
                           });
  });
  done.WaitForNotification();
  if (!opened.ok()) return status::Annotate(opened.status(), "opening the etcd store");
  return *std::move(opened);
}

}  // namespace capstan::process
