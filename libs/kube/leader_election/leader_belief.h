#ifndef CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_BELIEF_H_
#define CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_BELIEF_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/leader_election/lease_core.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// What an election has come to, for those who act on it. Time is read at each call, so that belief
// ends when it has to, whatever the strand is busy with. Thread-safe.
class LeaderBelief {
 public:
  // `clock` must outlive it.
  explicit LeaderBelief(const Clock* clock) : clock_(clock) {}

  bool IsLeader() const { return clock_->Read().boot.ToNanoseconds() < until_.load(); }
  // Of the leadership that lasts; absent: it does not lead.
  absl::optional<LeaseTerm> term() const {
    absl::MutexLock lock(&mutex_);
    if (!IsLeader()) return absl::nullopt;
    return term_;
  }
  // Whom the Lease named when it was seen last; empty: nobody, or it was not seen yet.
  std::string leader() const {
    absl::MutexLock lock(&mutex_);
    return leader_;
  }

  // For who runs the election.
  void SetTerm(BootTime until, const LeaseTerm& term) {
    absl::MutexLock lock(&mutex_);
    term_ = term;
    until_.store(until.ToNanoseconds());
  }
  void SetLeader(absl::string_view leader) {
    absl::MutexLock lock(&mutex_);
    leader_ = std::string(leader);
  }

 private:
  const Clock* const clock_;
  std::atomic<int64_t> until_{BootTime::InfinitePast().ToNanoseconds()};
  mutable absl::Mutex mutex_;
  LeaseTerm term_ ABSL_GUARDED_BY(mutex_);
  std::string leader_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEADER_BELIEF_H_
