#ifndef CAPSTAN_SERVICES_SCHEDULER_API_API_DEPS_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_API_DEPS_H_

#include <utility>

#include "absl/status/status.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/random/random.h"
#include "libs/resource/page.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "libs/strand/strand.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/demand_view.h"
#include "services/scheduler/engine.h"
#include "services/scheduler/placement_signer.h"
#include "services/scheduler/share_view.h"
#include "services/scheduler/simulations.h"

namespace capstan::scheduler {

// What the handlers need; all must outlive the gRPC server.
struct ApiDeps {
  auth::Access* access = nullptr;
  audit::AuditSink* audit = nullptr;
  Strand* strand = nullptr;
  Simulations* simulations = nullptr;
  // Of uids; used on the strand.
  Random* random = nullptr;
  Engine* engine = nullptr;
  CommittedView* view = nullptr;
  DemandView* demand = nullptr;
  ShareView* shares = nullptr;
  const resource::PageTokens* tokens = nullptr;
  // Gives orders their grants, on the strand; null in tests over channels without certificates.
  PlacementSigner* placements = nullptr;
};

// Runs `read(view)` on the strand once the view shows every answer given so far, and ends the call
// with the Status it returns.
template <typename Read>
void ReadView(const ApiDeps& deps, rpc::Finish finish, Read read) {
  deps.strand->Post([deps, finish = std::move(finish), read = std::move(read)]() mutable {
    deps.view->WhenAtLeast(deps.engine->committed_revision(),
                           [deps, finish = std::move(finish), read = std::move(read)]() mutable {
                             finish(read(*deps.view));
                           });
  });
}

// Puts an audited act into the audit log before it has effect; an error means that it must not.
// Blocks for the disk: not on the strand.
inline absl::Status AuditBefore(const ApiDeps& deps, const rpc::Call& call,
                                absl::string_view resource, absl::string_view message) {
  if (!call.caller.audited) return absl::OkStatus();
  audit::AuditEntry entry;
  entry.principal = call.caller.Name();
  entry.act = call.caller.method;
  entry.resource = std::string(resource);
  entry.message = std::string(message);
  return deps.audit->Record(entry);
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_API_DEPS_H_
