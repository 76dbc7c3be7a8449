#ifndef CAPSTAN_INTEGRATION_SIMULATION_MIG_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_MIG_WITNESS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/optional.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "libs/session/task_id.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::simulation {

// Sees which MIG instances there are on each machine, and which of them a Task's program finds.
// Checks at each start and each change:
//  1. a Task finds exactly the instance that its stored placement says, or none if it asks for none;
//  2. the instances of the live Tasks of a GPU can stand there together;
//  3. none is removed while the Task that found it lives.
class MigWitness {
 public:
  using MigInstance = capstan::type::v1::MigInstance;

  MigWitness(World* world, const Disk* scheduler_disk)
      : world_(world), scheduler_disk_(scheduler_disk) {}

  // `found`: what its program finds as its only device; absent if it has none.
  void Started(const session::TaskId& id, const std::string& machine,
               const absl::optional<MigInstance>& found);
  void Ended(const session::TaskId& id) { live_.erase(id); }
  // It is no more on the machine.
  void Removed(const std::string& machine, const MigInstance& instance);

  // Tasks that have begun with an instance.
  int64_t starts() const { return starts_; }

 private:
  struct Live {
    std::string machine;
    MigInstance instance;
  };

  // As the stored records say; absent if it asks for none.
  absl::optional<MigInstance> Placed(const session::TaskId& id) const;

  World* const world_;
  const Disk* const scheduler_disk_;
  // Of those that have one.
  std::map<session::TaskId, Live> live_;
  int64_t starts_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_MIG_WITNESS_H_
