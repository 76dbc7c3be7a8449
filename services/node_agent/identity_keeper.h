#ifndef CAPSTAN_SERVICES_NODE_AGENT_IDENTITY_KEEPER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_IDENTITY_KEEPER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/ports/task_identity.h"

namespace capstan::node_agent {

// Renews the SVIDs of the Tasks that run. Each is due once a third of its life is over, and up to a
// tenth of its life later, by lot, so that the Tasks of a gang do not ask at once. While
// credentials does not answer it is asked again with back-off, and the Task keeps the SVID it has,
// which by then has more than half of its life left.
//
// What it knows is read from the Task's folder, so a restarted agent goes on where the last one
// stopped. Lives on its strand. Bounded by the Tasks of the Node.
class IdentityKeeper {
 public:
  // The pointers must outlive it; without `identity` it does nothing. `registry` may be null.
  // `renewed` is called whenever a Task's SVID has been replaced.
  IdentityKeeper(Strand* strand, TaskIdentity* identity, Random* random, const log::Logger* logger,
                 metrics::Registry* registry,
                 std::function<void(const session::TaskId&)> renewed = nullptr);
  ~IdentityKeeper();

  // A Task that is known already is left as it is.
  void Keep(const KeepIdentity& order);
  void Drop(const session::TaskId& id);
  // Drops all.
  void Clear();

 private:
  struct Kept {
    KeepIdentity order;
    // Tells this Keep from a later one of the same Task, for answers that come late.
    uint64_t number = 0;
    Strand::TimerId timer = 0;
    absl::Time due;
    absl::Time not_after;
    int failures = 0;
  };

  // Null if the Task has been dropped since.
  Kept* Find(const session::TaskId& id, uint64_t number);
  // Arms the timer for the next look: within ten minutes, since the wall clock may step.
  void Arm(Kept& kept, absl::Duration delay);
  void Look(Kept& kept);
  // Learns the life of the SVID that is there, and plans by it; `renewed` if it has just come.
  void Inspect(Kept& kept, bool renewed);
  void Renew(Kept& kept);
  void OnRenewed(Kept& kept, const absl::Status& status);

  Strand* const strand_;
  TaskIdentity* const identity_;
  Random* const random_;
  const log::Logger* const logger_;
  metrics::Registry* const registry_;
  const std::function<void(const session::TaskId&)> renewed_;
  uint64_t last_number_ = 0;
  std::map<session::TaskId, Kept> kept_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_IDENTITY_KEEPER_H_
