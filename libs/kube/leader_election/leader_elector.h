// Leader election for any thread.
#ifndef CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_ELECTOR_H_
#define CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_ELECTOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/kube/leader_election/election_loop.h"
#include "libs/kube/leader_election/leader_belief.h"
#include "libs/kube/leader_election/lease_core.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// Competes for a Lease until it is stopped; who has lost goes on competing. Beside the callbacks,
// which come when the strand gets to them, IsLeader says at any moment whether it leads: work that
// must not be done twice asks it before each step, and hands `term()` to whom it writes, if that
// one can refuse older terms.
//
// The client's strand must outlive it, and either go on until Stop has returned or have stopped
// before; the client must be there for as long as its strand goes on. Thread-safe.
class LeaderElector {
 public:
  // INVALID_FIELD: see CheckLeaderElection.
  static absl::StatusOr<std::unique_ptr<LeaderElector>> Make(LeaderElectionOptions options,
                                                             LeaderCallbacks callbacks,
                                                             ElectionDependencies dependencies);
  // Stops.
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // Once.
  void Start();
  // Tells on_stopped, if it leads, gives the Lease up if the options say so, and waits for both: at
  // most renew_deadline, and for the callbacks. So what is guarded ends first, or in on_stopped.
  // Nothing runs once it has returned. Not from a callback, nor from the strand. Idempotent; one
  // thread at a time.
  void Stop();

  // True only while no other can lead: compared with the time at the call.
  bool IsLeader() const { return belief_->IsLeader(); }
  absl::optional<LeaseTerm> term() const { return belief_->term(); }
  // Whom the Lease names, as far as is known here; empty: nobody.
  std::string leader() const { return belief_->leader(); }

 private:
  LeaderElector(LeaderElectionOptions options, LeaderCallbacks callbacks,
                ElectionDependencies dependencies);

  Strand* const strand_;
  // Null once it is stopped.
  std::shared_ptr<ElectionLoop> loop_;
  const std::shared_ptr<const LeaderBelief> belief_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_ELECTOR_H_
