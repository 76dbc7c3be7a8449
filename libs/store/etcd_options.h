#ifndef CAPSTAN_LIBS_STORE_ETCD_OPTIONS_H_
#define CAPSTAN_LIBS_STORE_ETCD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan::store {

// Where an EtcdStore finds its etcd, and how patient it is.
struct EtcdOptions {
  // `host:port` of every member; one is used at a time, another when it fails.
  std::vector<std::string> endpoints{};

  // TLS is always used. PEM files, read again within seconds when they are replaced: the authority
  // of the members, and the certificate and key that are shown to them.
  std::string ca_file{};
  std::string certificate_file{};
  std::string key_file{};
  // The name that the members' certificates must have, if it is not the endpoint's host.
  std::string server_name{};

  // With a user, its token goes with every call, and is got anew when the server no longer takes
  // it.
  std::string user{};
  std::string password{};

  // Under which all keys of the service lie, e.g. `/capstan/scheduler/`, and which its user may
  // read and write. The store keeps keys of its own in `<prefix>store/`.
  std::string prefix{};
  // Not 0: the store's incarnation, so that none is stored. For tests that count revisions.
  int64_t incarnation = 0;
  // For the one that restores the store (store_backup.h): open it although a restore was begun and
  // not finished. Others get RESTORE_UNFINISHED.
  bool restoring = false;

  // Told once, on the strand, when a transaction was refused with STORE_REPLACED because a restore
  // has begun since the store was opened. Nothing can be stored any more until it is opened anew.
  // May be null.
  std::function<void(const absl::Status& why)> on_replaced = nullptr;

  // After which a member that has not answered counts as failed.
  absl::Duration attempt_timeout = absl::Seconds(5);
  // After which a call fails, attempts with other members included.
  absl::Duration call_timeout = absl::Seconds(15);
  // Between requests to be told how far a quiet watch has come.
  absl::Duration progress_interval = absl::Seconds(60);
  // Transactions, or ranges, that wait or are under way, beyond which calls get RESOURCE_EXHAUSTED
  // with STORE_OVERLOADED and take no effect.
  size_t max_waiting = 20000;
  // Of the jitter between attempts.
  uint64_t random_seed = 1;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_OPTIONS_H_
