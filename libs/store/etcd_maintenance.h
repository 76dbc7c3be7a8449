#ifndef CAPSTAN_LIBS_STORE_ETCD_MAINTENANCE_H_
#define CAPSTAN_LIBS_STORE_ETCD_MAINTENANCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/store/etcd_options.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

class EtcdClient;

// What one member says of itself.
struct EtcdMember {
  std::string endpoint{};
  uint64_t id = 0;
  std::string version{};
  bool leads = false;
  // On disk, and of that in use; what lies between is given back by Reclaim.
  int64_t disk_bytes = 0;
  int64_t used_bytes = 0;
  // At which a member raises the alarm; 0: one that is older than 3.6 does not say.
  int64_t quota_bytes = 0;
  // It has used up its quota: the cluster takes deletions only until Reclaim.
  bool no_space = false;
};

// Looks after a whole etcd, which several services may share; its user needs the role root. On
// `strand` only, which must outlive it.
class EtcdMaintenance {
 public:
  EtcdMaintenance(const EtcdOptions& options, Strand* strand);
  ~EtcdMaintenance();

  // Of all members, in the order of the endpoints; fails if one does not answer.
  void Inspect(Callback<std::vector<EtcdMember>> done);

  // Makes room: forgets history before `revision`, has each member rewrite its file, the leader
  // last (one at a time, for meanwhile a member serves nobody; its file must fit on the disk a
  // second time), and lifts the alarm. NO_SPACE, and the alarm stays, if still more than nine
  // tenths of some quota are in use: delete something first.
  void Reclaim(int64_t revision, DoneCallback done);

 private:
  class Reclaiming;
  class Inspection;
  // One for each member.
  std::vector<std::shared_ptr<EtcdClient>> clients_;
  std::vector<std::string> endpoints_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_MAINTENANCE_H_
