#ifndef CAPSTAN_LIBS_STORE_ETCD_LEASE_H_
#define CAPSTAN_LIBS_STORE_ETCD_LEASE_H_

#include <memory>

#include "absl/time/time.h"
#include "libs/store/etcd_client.h"
#include "libs/store/store.h"

namespace capstan::store {

// The leases of store.h on etcd, which counts them in whole seconds: a TTL is rounded up, and never
// below one and a half of its election time-outs.
void GrantEtcdLease(std::shared_ptr<EtcdClient> client, absl::Duration ttl, Callback<LeaseId> done);
void KeepAliveEtcdLease(std::shared_ptr<EtcdClient> client, LeaseId lease,
                        Callback<absl::Duration> done);
void RevokeEtcdLease(std::shared_ptr<EtcdClient> client, LeaseId lease, DoneCallback done);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_LEASE_H_
