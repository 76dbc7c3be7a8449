#ifndef CAPSTAN_LIBS_STORE_ETCD_RANGE_H_
#define CAPSTAN_LIBS_STORE_ETCD_RANGE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "libs/store/etcd_client.h"
#include "libs/store/etcd_pager.h"
#include "libs/store/store.h"

namespace capstan::store {

// What readings found out for the next ones, by the ends of their ranges; of few ranges, which are
// read to their ends in many calls. On the strand.
class EtcdPaces {
 public:
  EtcdPager::Pace Of(const std::string& end) const;
  void Keep(const std::string& end, const EtcdPager::Pace& pace);

 private:
  static constexpr size_t kMost = 64;
  std::map<std::string, EtcdPager::Pace> paces_;
};

// Reads a range, which has passed CheckRange, piece by piece (etcd_pager.h) at one revision; begins
// again if that revision is compacted meanwhile and any will do. `paces` may be null.
void ReadEtcdRange(std::shared_ptr<EtcdClient> client, std::shared_ptr<EtcdPaces> paces,
                   RangeRequest request, Callback<RangeResult> done);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_RANGE_H_
