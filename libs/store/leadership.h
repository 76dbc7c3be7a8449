#ifndef CAPSTAN_LIBS_STORE_LEADERSHIP_H_
#define CAPSTAN_LIBS_STORE_LEADERSHIP_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::store {

// Who may speak for a service; see DESIGN.md §4. The higher one wins.
struct FencingToken {
  int64_t store_incarnation = 0;
  int64_t leader_epoch = 0;

  friend auto operator<=>(const FencingToken&, const FencingToken&) = default;
};

// Leadership of a service: a key of its store that hangs on a lease. On the engine's strand only,
// destruction included.
//
//   leadership_ = std::make_unique<Leadership>(
//       store_, strand_, Leadership::Options{.key = "/capstan/scheduler/v1/leader", .value =
//       address});
//   leadership_->Start({.on_gained = [this] { Load(); },          // then leadership_->Guard()
//                       .on_lost = [this](absl::Status why) { DropState(); }});
//   // Before every answer that only a leader may give:
//   if (!leadership_->Valid()) return NotLeader(leadership_->holder());
//   // In messages downwards:
//   const FencingToken token = leadership_->token();
//   // When a commit failed:
//   leadership_->StepDown(why);          // calls on_lost, then tries again by itself
//   // In Drain:
//   leadership_->Resign([](absl::Status) { ... });
//
// Guarantees:
// - At most one Leadership of a key is Valid() at any moment, as long as the store keeps leases and
//   clock rates agree within 1,000 ppm (the margin covers the difference and the way of an answer).
// - A transaction that carries Guard() takes effect only within this term.
// - on_gained and on_lost alternate, beginning with on_gained. Valid() is false before on_lost
// runs,
//   and the lease is given back only after it returned.
class Leadership {
 public:
  struct Options {
    std::string key;
    // What others read there: where the leader can be reached.
    std::string value;
    absl::Duration ttl = absl::Seconds(4);
    // Taken off the time that the lease is believed to last.
    absl::Duration margin = absl::Milliseconds(400);
    absl::Duration retry_after = absl::Milliseconds(500);
    // True for a store that one process owns (SQLite, by its file lock): a key found there belongs
    // to a dead predecessor and is removed at once instead of being waited for.
    bool sole_owner = false;
  };
  struct Callbacks {
    absl::AnyInvocable<void()> on_gained;
    absl::AnyInvocable<void(absl::Status why)> on_lost;
  };

  // `store` and `strand` must outlive it; `strand` must be the one on which the store calls back.
  Leadership(Store* store, Strand* strand, Options options);
  // Keeps the lease until it runs out: call Resign first for a quick hand-over.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Begins to try, and never stops trying until resigned. Once.
  void Start(Callbacks callbacks);
  // Gives up the term, if there is one, and tries again after `retry_after`.
  void StepDown(absl::Status why);
  // Gives up for good; `done` runs once the key is gone, or cannot be removed (then with why).
  void Resign(DoneCallback done);

  // Whether this process leads now and may say so.
  bool Valid() const;
  // Whether it leads and less than a quarter of the TTL is left: the store, or the strand, is so far
  // behind that the term may end. Who takes new work should take none until it is renewed.
  bool RenewalIsLate() const;
  // The end of validity as known now: when the last answered keep-alive was *sent*, plus the TTL,
  // less the margin. InfinitePast if this process does not lead.
  BootTime ValidUntil() const { return valid_until_; }
  // Create revision of the key in this term, or the last one; 0 before the first.
  int64_t epoch() const { return epoch_; }
  FencingToken token() const { return {store_->incarnation(), epoch_}; }
  // When this process learned that its term had begun, which is after its key was committed: a new
  // leader counts other parties' leases from here.
  BootTime started_at() const { return started_at_; }
  // What every transaction of the leader compares.
  Compare Guard() const;
  // The value of the key as last seen: where the leader is.
  const absl::optional<std::string>& holder() const { return holder_; }

 private:
  enum class State { kIdle, kTrying, kLeading, kResigned };

  // Wraps a callback so that it does nothing once this attempt is over or the object is gone.
  template <typename F>
  auto InAttempt(F f);

  void Try();
  void Look();
  void FoundHolder(const KeyValue& kv, int64_t revision);
  void Claim(BootTime lease_sent);
  void Won(BootTime lease_sent, int64_t epoch);
  void TryAgain(absl::Duration delay);
  void KeepAlive();
  void ArmKeepAlive();
  void ArmExpiry();
  // Ends the term, if there is one; tells on_lost.
  void End(absl::Status why);
  void RevokeLease(DoneCallback done);

  Store* const store_;
  Strand* const strand_;
  const Options options_;
  Callbacks callbacks_;
  State state_ = State::kIdle;
  // Raised whenever what is under way no longer counts.
  int64_t attempt_ = 0;
  LeaseId lease_ = 0;
  int64_t epoch_ = 0;
  BootTime started_at_;
  BootTime valid_until_ = BootTime::InfinitePast();
  absl::optional<std::string> holder_;
  std::unique_ptr<Watch> watch_;
  Strand::TimerId retry_timer_ = 0;
  Strand::TimerId keep_alive_timer_ = 0;
  Strand::TimerId expiry_timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_LEADERSHIP_H_
