#include "integration/etcd/test_store.h"

#include <utility>

namespace capstan::store {

EtcdOptions OptionsFor(const testenv::EtcdServer& etcd) {
  EtcdOptions options;
  options.endpoints = etcd.endpoints();
  options.ca_file = etcd.ca_file();
  options.certificate_file = etcd.certificate_file();
  options.key_file = etcd.key_file();
  options.server_name = etcd.server_name();
  options.prefix = "/capstan/test/";
  options.attempt_timeout = absl::Seconds(2);
  return options;
}

absl::StatusOr<std::unique_ptr<EtcdStore>> OpenEtcd(EtcdOptions options, PumpedStrand* strand) {
  absl::StatusOr<std::unique_ptr<EtcdStore>> store = absl::DeadlineExceededError("no answer");
  bool done = false;
  EtcdStore::Open(std::move(options), strand,
                  [&](absl::StatusOr<std::unique_ptr<EtcdStore>> opened) {
                    store = std::move(opened);
                    done = true;
                  });
  strand->RunUntil([&] { return done; });
  return store;
}

}  // namespace capstan::store
