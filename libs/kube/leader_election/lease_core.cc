#include "libs/kube/leader_election/lease_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/server_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using coordination_v1::Lease;

// client-go's JitterFactor: waits are up to so much longer.
constexpr double kJitter = 1.2;

// As Kubernetes' MicroTime, to which the server cuts it.
meta_v1::MicroTime ToMicroTime(absl::Time time) {
  const int64_t micros = absl::ToUnixMicros(time);
  meta_v1::MicroTime proto;
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(micros - seconds * 1'000'000) * 1000);
  return proto;
}

bool IsSame(const meta_v1::MicroTime& a, const meta_v1::MicroTime& b) {
  return a.seconds() == b.seconds() && a.nanos() == b.nanos();
}

std::string RecordOf(const Lease& lease) {
  return absl::StrCat(lease.metadata().uid(), "/", lease.spec().SerializeAsString());
}

}  // namespace

absl::Status CheckLeaderElection(const LeaderElectionOptions& options) {
  status::FieldErrors errors;
  if (options.ns.empty()) errors.Add("ns", "is empty; it is the namespace of the Lease");
  if (options.name.empty()) errors.Add("name", "is empty; it is the name of the Lease");
  if (options.identity.empty()) {
    errors.Add("identity", "is empty; it names this process and no other (MakeIdentity)");
  }
  const absl::Duration lease = options.lease_duration, deadline = options.renew_deadline,
                       retry = options.retry_period;
  if (retry <= absl::ZeroDuration()) {
    errors.Add("retry_period", absl::StrCat(absl::FormatDuration(retry), " is not above 0"));
  }
  if (deadline <= retry * kJitter) {
    errors.Add("renew_deadline",
               absl::StrCat(absl::FormatDuration(deadline), " is not more than retry_period (",
                            absl::FormatDuration(retry), ") times ", kJitter,
                            ": a leader could not try a second time"));
  }
  if (lease <= deadline) {
    errors.Add("lease_duration",
               absl::StrCat(absl::FormatDuration(lease), " is not more than renew_deadline (",
                            absl::FormatDuration(deadline), "): two could lead"));
  }
  if (lease == absl::InfiniteDuration() || lease != absl::Trunc(lease, absl::Seconds(1)) ||
      lease > absl::Hours(24 * 365)) {
    errors.Add("lease_duration", absl::StrCat(absl::FormatDuration(lease),
                                              " is not in whole seconds, at most a year"));
  }
  return errors.ToStatus();
}

std::string MakeIdentity(absl::string_view host, Random* random) {
  return absl::StrCat(host, host.empty() ? "" : "_", random->Uuid4());
}

LeaseStep LeaseCore::Start(Now now) {
  LeaseStep step;
  phase_ = Phase::kCompeting;
  Try(now, &step);
  return step;
}

LeaseStep LeaseCore::OnTimer(Now now) {
  LeaseStep step;
  EndIfDue(now.boot, &step);
  if (phase_ == Phase::kStopping && now.boot >= give_up_) {
    Finish(&step);
  } else if (!flight_.has_value() && now.boot >= next_try_) {
    if (phase_ == Phase::kStopping) {
      Release(now, &step);
    } else {
      Try(now, &step);
    }
  }
  return step;
}

LeaseStep LeaseCore::OnAnswer(uint64_t attempt, const Answer& answer, Now now) {
  LeaseStep step;
  // Before what the answer says: who asked in between was told that it had ended.
  EndIfDue(now.boot, &step);
  if (!flight_.has_value() || flight_->attempt != attempt) return step;
  const Flight flight = *std::exchange(flight_, absl::nullopt);
  if (phase_ == Phase::kStopping) {
    OnStoppingAnswer(flight, answer, now, &step);
  } else if (!answer.ok()) {
    OnFailed(flight, answer.status(), now, &step);
  } else if (flight.kind != LeaseCall::Kind::kGet) {
    OnWritten(flight, *answer, now, &step);
  } else {
    Observe(*answer, now.boot, &step);
    if (MayTake(now.boot)) {
      SendClaim(/*informed=*/true, now, &step);
    } else {
      RetryLater(absl::nullopt, now.boot);
    }
  }
  return step;
}

LeaseStep LeaseCore::Stop(Now now) {
  LeaseStep step;
  EndIfDue(now.boot, &step);
  if (phase_ == Phase::kFinished || phase_ == Phase::kStopping) {
    step.finished = phase_ == Phase::kFinished;
    return step;
  }
  if (leading()) EndBelief("it was stopped", &step);
  if (!options_.release_on_stop || !may_hold_) {
    Finish(&step);
    return step;
  }
  phase_ = Phase::kStopping;
  give_up_ = now.boot + options_.renew_deadline;
  // A write that is under way comes first: what it makes of the Lease is what is to be given up.
  if (!flight_.has_value()) Release(now, &step);
  return step;
}

BootTime LeaseCore::NextWake() const {
  if (phase_ == Phase::kNew || phase_ == Phase::kFinished) return BootTime::InfiniteFuture();
  BootTime wake = flight_.has_value() ? BootTime::InfiniteFuture() : next_try_;
  if (leading()) wake = std::min(wake, leader_until_);
  return std::min(wake, give_up_);
}

absl::Duration LeaseCore::HolderTime() const {
  const int32_t seconds = lease_->spec().lease_duration_seconds();
  return seconds > 0 ? absl::Seconds(seconds) : options_.lease_duration;
}

bool LeaseCore::MayTake(BootTime now) const {
  return lease_->spec().holder_identity().empty() || IsOwn() || now - record_seen_ >= HolderTime();
}

void LeaseCore::EndIfDue(BootTime now, LeaseStep* step) {
  if (!leading() || now < leader_until_) return;
  EndBelief(absl::StrCat("it could not renew for ", absl::FormatDuration(options_.renew_deadline)),
            step);
}

void LeaseCore::EndBelief(std::string why, LeaseStep* step) {
  leader_until_ = BootTime::InfinitePast();
  step->stopped = std::move(why);
}

void LeaseCore::Observe(std::shared_ptr<const Lease> lease, BootTime now, LeaseStep* step) {
  lease_ = std::move(lease);
  is_fresh_ = false;
  absent_since_.reset();
  std::string record = RecordOf(*lease_);
  if (record != record_) {
    record_ = std::move(record);
    record_seen_ = now;
  }
  const std::string& holder = lease_->spec().holder_identity();
  if (!IsOwn()) may_hold_ = false;
  if (leading() && !IsOwn()) {
    EndBelief(
        holder.empty() ? "the Lease was released" : absl::StrCat("the Lease is held by ", holder),
        step);
  }
  if (holder != reported_leader_) {
    reported_leader_ = holder;
    step->new_leader = holder;
  }
}

void LeaseCore::OnAbsent(Now now, LeaseStep* step) {
  if (leading()) EndBelief("the Lease is not there", step);
  may_hold_ = false;
  if (!absent_since_.has_value()) {
    absent_since_ = now.boot;
    const bool other = lease_ != nullptr && !IsOwn() && !lease_->spec().holder_identity().empty();
    absent_for_ = other ? HolderTime() : absl::ZeroDuration();
  }
  lease_ = nullptr;
  is_fresh_ = false;
  if (now.boot - *absent_since_ >= absent_for_) {
    SendCreate(now, step);
  } else {
    RetryLater(absl::nullopt, now.boot);
  }
}

void LeaseCore::OnWritten(const Flight& flight, std::shared_ptr<const Lease> lease, Now now,
                          LeaseStep* step) {
  Observe(std::move(lease), now.boot, step);
  if (!IsOwn()) {
    // Something between here and the store has another mind.
    return RetryLater(absl::nullopt, now.boot);
  }
  is_fresh_ = true;
  const BootTime until = flight.sent + options_.renew_deadline;
  if (until <= now.boot) return Try(now, step);
  if (!leading()) {
    term_ = {lease_->metadata().uid(), lease_->spec().lease_transitions()};
    step->started = term_;
  }
  leader_until_ = until;
  next_try_ = std::max(now.boot, flight.sent + options_.retry_period);
}

void LeaseCore::OnFailed(const Flight& flight, const absl::Status& failure, Now now,
                         LeaseStep* step) {
  is_fresh_ = false;
  // Of a namespace, for a create.
  const bool absent = absl::IsNotFound(failure) && flight.kind != LeaseCall::Kind::kCreate;
  if (absent) return OnAbsent(now, step);
  if (IsConflict(failure) || absl::IsAlreadyExists(failure)) {
    // Another was faster, or a write of our own was whose answer never came.
    if (!flight.informed) return Send(LeaseCall::Kind::kGet, {}, false, true, now.boot, step);
    return RetryLater(flight, now.boot);
  }
  step->failure = failure;
  RetryLater(flight, now.boot);
}

void LeaseCore::Try(Now now, LeaseStep* step) {
  if (is_fresh_) {
    SendClaim(/*informed=*/false, now, step);
  } else {
    Send(LeaseCall::Kind::kGet, {}, false, true, now.boot, step);
  }
}

void LeaseCore::RetryLater(const absl::optional<Flight>& flight, BootTime now) {
  if (leading()) {
    const BootTime sent = flight.has_value() ? flight->sent : now;
    next_try_ = std::max(now, sent + options_.retry_period);
  } else {
    next_try_ =
        now + random_->Between(options_.retry_period, options_.retry_period * (1 + kJitter));
  }
}

void LeaseCore::Send(LeaseCall::Kind kind, Lease lease, bool releases, bool informed, BootTime now,
                     LeaseStep* step) {
  // So that one call that hangs does not cost the leadership.
  absl::Duration timeout = options_.renew_deadline / 2;
  if (phase_ == Phase::kStopping) timeout = std::min(timeout, give_up_ - now);
  flight_ = Flight{++attempt_, kind, releases, informed, now};
  if (kind != LeaseCall::Kind::kGet && !releases) may_hold_ = true;
  step->call = LeaseCall{attempt_, kind, std::move(lease), timeout};
}

void LeaseCore::SendClaim(bool informed, Now now, LeaseStep* step) {
  Lease lease = *lease_;
  coordination_v1::LeaseSpec* const spec = lease.mutable_spec();
  meta_v1::MicroTime time = ToMicroTime(now.wall);
  if (!IsOwn()) {
    *spec->mutable_acquire_time() = time;
    spec->set_lease_transitions(spec->lease_transitions() + 1);
  } else if (IsSame(time, spec->renew_time())) {
    // The server stores nothing if nothing changes, and others would not see that we live.
    time = ToMicroTime(now.wall + absl::Microseconds(1));
  }
  *spec->mutable_renew_time() = std::move(time);
  spec->set_holder_identity(options_.identity);
  spec->set_lease_duration_seconds(
      static_cast<int32_t>(absl::ToInt64Seconds(options_.lease_duration)));
  Send(LeaseCall::Kind::kUpdate, std::move(lease), false, informed, now.boot, step);
}

void LeaseCore::SendCreate(Now now, LeaseStep* step) {
  Lease lease;
  lease.mutable_metadata()->set_namespace_(options_.ns);
  lease.mutable_metadata()->set_name(options_.name);
  coordination_v1::LeaseSpec* const spec = lease.mutable_spec();
  spec->set_holder_identity(options_.identity);
  spec->set_lease_duration_seconds(
      static_cast<int32_t>(absl::ToInt64Seconds(options_.lease_duration)));
  *spec->mutable_acquire_time() = ToMicroTime(now.wall);
  *spec->mutable_renew_time() = ToMicroTime(now.wall);
  spec->set_lease_transitions(0);
  Send(LeaseCall::Kind::kCreate, std::move(lease), false, true, now.boot, step);
}

void LeaseCore::Release(Now now, LeaseStep* step) {
  if (!is_fresh_) return Send(LeaseCall::Kind::kGet, {}, true, true, now.boot, step);
  Lease lease = *lease_;
  coordination_v1::LeaseSpec* const spec = lease.mutable_spec();
  spec->set_holder_identity("");
  spec->set_lease_duration_seconds(1);
  *spec->mutable_acquire_time() = ToMicroTime(now.wall);
  *spec->mutable_renew_time() = ToMicroTime(now.wall);
  spec->set_lease_transitions(spec->lease_transitions());
  Send(LeaseCall::Kind::kUpdate, std::move(lease), true, true, now.boot, step);
}

void LeaseCore::OnStoppingAnswer(const Flight& flight, const Answer& answer, Now now,
                                 LeaseStep* step) {
  is_fresh_ = false;
  if (answer.ok()) {
    Observe(*answer, now.boot, step);
    // Also if it was given up just now.
    if (!IsOwn() || now.boot >= give_up_) return Finish(step);
    is_fresh_ = true;
    return Release(now, step);
  }
  const absl::Status& failure = answer.status();
  if (absl::IsNotFound(failure)) return Finish(step);
  const bool was_faster = IsConflict(failure) || absl::IsAlreadyExists(failure);
  if (!was_faster) step->failure = failure;
  next_try_ = was_faster && !flight.releases ? now.boot : now.boot + options_.retry_period;
  if (next_try_ >= give_up_) return Finish(step);
  if (next_try_ <= now.boot) Release(now, step);
}

void LeaseCore::Finish(LeaseStep* step) {
  phase_ = Phase::kFinished;
  flight_.reset();
  step->finished = true;
}

}  // namespace capstan::kube
