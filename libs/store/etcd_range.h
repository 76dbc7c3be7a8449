#ifndef CAPSTAN_LIBS_STORE_ETCD_RANGE_H_
#define CAPSTAN_LIBS_STORE_ETCD_RANGE_H_

#include <memory>

#include "libs/store/etcd_client.h"
#include "libs/store/store.h"

namespace capstan::store {

// Reads a range, which has passed CheckRange, page by page at one revision, so that no answer of
// etcd's grows without bound; begins again if that revision is compacted meanwhile and any will do.
void ReadEtcdRange(std::shared_ptr<EtcdClient> client, RangeRequest request,
                   Callback<RangeResult> done);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_RANGE_H_
