// Carries out what a LeaseCore decides, on a strand.
#ifndef CAPSTAN_LIBS_KUBE_LEADER_ELECTION_ELECTION_LOOP_H_
#define CAPSTAN_LIBS_KUBE_LEADER_ELECTION_ELECTION_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/client/client.h"
#include "libs/kube/leader_election/leader_belief.h"
#include "libs/kube/leader_election/lease_core.h"
#include "libs/log/log.h"

namespace capstan::kube {

// On the strand of the client, on which they must not block. Each may be empty.
struct LeaderCallbacks {
  // It leads; begins what the Lease guards, which then looks at IsLeader.
  std::function<void(const LeaseTerm& term)> on_started;
  // It leads no more, and another may already. `why` is for people.
  std::function<void(absl::string_view why)> on_stopped;
  // Who the Lease names now; empty: nobody.
  std::function<void(absl::string_view identity)> on_new_leader;
};

// The client must be there until the loop is gone, or its strand has stopped; the strand must outlive
// the loop.
struct ElectionDependencies {
  Client* client = nullptr;
  // Of the jitter of waits; another one in each process.
  uint64_t seed = 0;
  absl::optional<log::Logger> log;
};

// For the strand of the client alone; LeaderElector is for other threads. A callback may destroy
// it.
class ElectionLoop {
 public:
  // `options` are right by CheckLeaderElection.
  ElectionLoop(LeaderElectionOptions options, LeaderCallbacks callbacks,
               ElectionDependencies dependencies);
  // On the strand, or after it has stopped. No callback runs any more, and nothing is released.
  ~ElectionLoop();
  ElectionLoop(const ElectionLoop&) = delete;
  ElectionLoop& operator=(const ElectionLoop&) = delete;

  // Once.
  void Start();
  // on_stopped, if it leads; then gives the Lease up, if the options say so, for at most
  // renew_deadline; then `done`, after which no callback runs. Inline if there is nothing to wait
  // for. Once; not in a callback.
  void Stop(absl::AnyInvocable<void()> done);

  // May be asked by any thread, and after the loop is gone.
  const std::shared_ptr<const LeaderBelief>& belief() const { return belief_; }

 private:
  class State;
  std::shared_ptr<const LeaderBelief> belief_;
  const std::shared_ptr<State> state_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_LEADER_ELECTION_ELECTION_LOOP_H_
