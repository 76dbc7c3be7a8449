#ifndef CAPSTAN_INTEGRATION_ETCD_TEST_STORE_H_
#define CAPSTAN_INTEGRATION_ETCD_TEST_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/store/etcd_options.h"
#include "libs/store/etcd_store.h"
#include "libs/store/testing/pumped_strand.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {

// For all members of a test's etcd, with time-outs as short as its own.
EtcdOptions OptionsFor(const testenv::EtcdServer& etcd);

absl::StatusOr<std::unique_ptr<EtcdStore>> OpenEtcd(EtcdOptions options, PumpedStrand* strand);

}  // namespace capstan::store

#endif  // CAPSTAN_INTEGRATION_ETCD_TEST_STORE_H_
