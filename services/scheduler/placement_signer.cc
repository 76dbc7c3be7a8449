#include "services/scheduler/placement_signer.h"

#include <utility>
#include <vector>

#include "libs/auth/placement_grant.h"
#include "libs/session/placement.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::Placement;

PlacementSigner::PlacementSigner(std::shared_ptr<const rpc::Identity> identity, const Clock* clock)
    : identity_(std::move(identity)), clock_(clock) {}

absl::Status PlacementSigner::Sign(absl::string_view cluster,
                                   capstan::type::v1::DesiredTasks* desired) {
  const std::shared_ptr<const rpc::IdentitySnapshot> snapshot = identity_->Get();
  if (snapshot != snapshot_) {
    CAPSTAN_ASSIGN_OR_RETURN(key_, rpc::PrivateKey::FromPem(snapshot->svid.key_pem));
    snapshot_ = snapshot;
  }
  const google::protobuf::Timestamp now = ToProto(clock_->Read().wall);
  std::vector<Placement> placements;
  std::vector<DesiredTask*> tasks;
  for (DesiredTask& task : *desired->mutable_tasks()) {
    // The order to end a Task of a Job that is not there.
    if (task.launch().job().empty()) continue;
    Placement placement = session::PlacementOf(cluster, task);
    placement.set_trust_domain(identity_->trust_domain());
    *placement.mutable_sign_time() = now;
    placements.push_back(std::move(placement));
    tasks.push_back(&task);
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<capstan::type::v1::PlacementGrant> grants,
                           auth::SignPlacements(placements, *key_, snapshot_->svid.chain.front()));
  for (size_t i = 0; i < tasks.size(); ++i) *tasks[i]->mutable_grant() = std::move(grants[i]);
  return absl::OkStatus();
}

}  // namespace capstan::scheduler
