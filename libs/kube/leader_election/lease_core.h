// Who leads, by a Lease of coordination.k8s.io/v1: state, an event and the time in, effects out.
#ifndef CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEASE_CORE_H_
#define CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEASE_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct LeaderElectionOptions {
  // Of the Lease.
  std::string ns;
  std::string name;
  // Of this process and of no other, now or later (MakeIdentity): two that share one both lead.
  std::string identity;
  // For how long others leave alone a Lease that does not change. In whole seconds, since that is
  // how it is written. It must be more than the renew deadline by at least what clocks differ in
  // rate.
  absl::Duration lease_duration = absl::Seconds(15);
  // A leader that could not renew for so long leads no more.
  absl::Duration renew_deadline = absl::Seconds(10);
  // Between two tries of a leader; those of others come after 1 to 2.2 times that.
  absl::Duration retry_period = absl::Seconds(2);
  // Stop gives the Lease up, so that another need not wait. What it guards must have ended by then.
  bool release_on_stop = false;
};

// Everything that is wrong with them, as INVALID_FIELD (status::FieldErrors).
absl::Status CheckLeaderElection(const LeaderElectionOptions& options);

// `host_<uuid>`. The host may be empty.
std::string MakeIdentity(absl::string_view host, Random* random);

// One leadership, for those who must refuse what a former leader sends late: within one Lease
// (uid), terms of different holders never have the same number, and later ones have greater ones.
struct LeaseTerm {
  std::string lease_uid;
  // spec.leaseTransitions. A holder that lost the Lease to nobody has the same again.
  int64_t transitions = 0;

  friend bool operator==(const LeaseTerm&, const LeaseTerm&) = default;
};

struct LeaseCall {
  enum class Kind { kGet, kCreate, kUpdate };

  uint64_t attempt = 0;
  Kind kind = Kind::kGet;
  // What is written.
  coordination_v1::Lease lease;
  absl::Duration timeout;
};

// To be carried out in this order.
struct LeaseStep {
  // Why it leads no more.
  absl::optional<std::string> stopped;
  // Another one is the holder, maybe oneself; empty: it was released.
  absl::optional<std::string> new_leader;
  absl::optional<LeaseTerm> started;
  // A call that failed; OK: none. It goes on by itself.
  absl::Status failure;
  // At once: belief counts from now. No other is under way.
  absl::optional<LeaseCall> call;
  // The last step. A call that is under way counts no more.
  bool finished = false;
};

// What client-go's leaderelection does and writes, so that both may compete for one Lease, but for
// what clocks may and may not say:
//
//   - Of another's Lease, only the time that was seen to pass here since its spec last changed
//     counts, for as long as the Lease itself says; never its time stamps.
//   - Leadership is believed until renew_deadline after the *sending* of the last write that the
//     server is known to have taken. An answer that comes later than that makes no leader.
//   - It ends at once when an answer shows another holder, none, or no Lease.
//   - A write whose answer never came counts for nothing: the next try reads what became of it.
//   - Each write names the version that it replaces. A Lease that was deleted while another held it
//     is made anew only after the time for which that one may believe; one who has never seen it
//     makes it at once.
//   - What a Lease has besides stays in it. Two renewals never write the same, which no one could
//     see.
//
// So at no time two believe, if each is asked with its own clock, and no clock runs faster than
// another by more than lease_duration / renew_deadline.
//
// The caller calls OnTimer at NextWake(), and answers each call once, also with what it made up.
// Pure; `random` (for jitter) must outlive it and belong to the same thread.
class LeaseCore {
 public:
  using Answer = absl::StatusOr<std::shared_ptr<const coordination_v1::Lease>>;

  // Of options that CheckLeaderElection finds right.
  LeaseCore(LeaderElectionOptions options, Random* random)
      : options_(std::move(options)), random_(random) {}

  // Once.
  LeaseStep Start(Now now);
  LeaseStep OnTimer(Now now);
  // Errors are those of Client.
  LeaseStep OnAnswer(uint64_t attempt, const Answer& answer, Now now);
  // Leads no more, and gives the Lease up if that is wanted, for at most renew_deadline: until
  // LeaseStep::finished.
  LeaseStep Stop(Now now);

  // InfiniteFuture: it waits for an answer, or for nothing.
  BootTime NextWake() const;
  // When belief ends, if nothing happens before; InfinitePast: it does not lead.
  BootTime leader_until() const { return leader_until_; }
  const LeaseTerm& term() const { return term_; }

 private:
  enum class Phase { kNew, kCompeting, kStopping, kFinished };
  struct Flight {
    uint64_t attempt = 0;
    LeaseCall::Kind kind = LeaseCall::Kind::kGet;
    bool releases = false;
    // It follows a read of this try.
    bool informed = false;
    BootTime sent;
  };

  bool leading() const { return leader_until_ != BootTime::InfinitePast(); }
  bool IsOwn() const {
    return lease_ != nullptr && lease_->spec().holder_identity() == options_.identity;
  }
  bool MayTake(BootTime now) const;
  // For how long the holder of the Lease that was seen last may believe in it.
  absl::Duration HolderTime() const;

  void EndIfDue(BootTime now, LeaseStep* step);
  void EndBelief(std::string why, LeaseStep* step);
  void Observe(std::shared_ptr<const coordination_v1::Lease> lease, BootTime now, LeaseStep* step);
  void OnAbsent(Now now, LeaseStep* step);
  void OnWritten(const Flight& flight, std::shared_ptr<const coordination_v1::Lease> lease, Now now,
                 LeaseStep* step);
  void OnFailed(const Flight& flight, const absl::Status& failure, Now now, LeaseStep* step);

  void Try(Now now, LeaseStep* step);
  void RetryLater(const absl::optional<Flight>& flight, BootTime now);
  void Send(LeaseCall::Kind kind, coordination_v1::Lease lease, bool releases, bool informed,
            BootTime now, LeaseStep* step);
  void SendClaim(bool informed, Now now, LeaseStep* step);
  void SendCreate(Now now, LeaseStep* step);

  // After Stop.
  void Release(Now now, LeaseStep* step);
  void OnStoppingAnswer(const Flight& flight, const Answer& answer, Now now, LeaseStep* step);
  void Finish(LeaseStep* step);

  const LeaderElectionOptions options_;
  Random* const random_;
  Phase phase_ = Phase::kNew;
  uint64_t attempt_ = 0;
  absl::optional<Flight> flight_;
  BootTime next_try_ = BootTime::InfiniteFuture();
  BootTime give_up_ = BootTime::InfiniteFuture();

  // As the server gave it last; null: there is none, or nothing was read yet.
  std::shared_ptr<const coordination_v1::Lease> lease_;
  // It is what was written here last, so that the next write needs no read.
  bool is_fresh_ = false;
  // What was written here may be there, though no answer says so.
  bool may_hold_ = false;
  // uid and spec of `lease_`, or of the last there was; and when they were first seen.
  std::string record_;
  BootTime record_seen_;
  // For how long, and by whom, the Lease was held that then was not there.
  absl::optional<BootTime> absent_since_;
  absl::Duration absent_for_;
  std::string reported_leader_;

  BootTime leader_until_ = BootTime::InfinitePast();
  LeaseTerm term_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_LEADER_ELECTION_LEASE_CORE_H_
