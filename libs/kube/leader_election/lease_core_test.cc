#include "libs/kube/leader_election/lease_core.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "libs/kube/client/server_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using coordination_v1::Lease;
using Kind = LeaseCall::Kind;

constexpr absl::Duration kSecond = absl::Seconds(1);
const absl::Time kWall = absl::FromUnixSeconds(1'800'000'000);

LeaderElectionOptions Options() {
  LeaderElectionOptions options;
  options.ns = "space";
  options.name = "lock";
  options.identity = "me";
  return options;
}

class LeaseCoreTest : public ::testing::Test {
 protected:
  Now At(absl::Duration since) const { return {kWall + since + wall_off_, BootTime() + since}; }
  // What the server answers: one that is stored.
  LeaseStep Answer(Lease lease, absl::Duration since) {
    if (lease.metadata().uid().empty()) lease.mutable_metadata()->set_uid("uid-1");
    lease.mutable_metadata()->set_resource_version(std::to_string(++version_));
    return Take(
        core_->OnAnswer(call_.attempt, std::make_shared<const Lease>(std::move(lease)), At(since)));
  }
  LeaseStep Fail(absl::StatusCode code, absl::string_view reason, absl::Duration since) {
    return Take(core_->OnAnswer(call_.attempt, status::Error(code, reason, "x"), At(since)));
  }
  LeaseStep NotFound(absl::Duration since) {
    return Fail(absl::StatusCode::kNotFound, kNotFound, since);
  }
  LeaseStep Conflict(absl::Duration since) {
    return Fail(absl::StatusCode::kAborted, kConflict, since);
  }
  LeaseStep Lost(absl::Duration since) {
    return Fail(absl::StatusCode::kUnavailable, "KUBE_BROKEN", since);
  }
  LeaseStep Timer(absl::Duration since) { return Take(core_->OnTimer(At(since))); }
  LeaseStep Take(LeaseStep step) {
    if (step.call.has_value()) call_ = *step.call;
    return step;
  }
  // Leads from `since` on by a Lease that it made, until ten seconds later.
  void Lead(absl::Duration since) {
    Take(core_->Start(At(since)));
    NotFound(since);
    const LeaseStep step = Answer(call_.lease, since);
    ASSERT_TRUE(step.started.has_value());
  }
  absl::Duration Until() const { return core_->leader_until() - BootTime(); }
  absl::Duration Wake() const { return core_->NextWake() - BootTime(); }
  bool Leads() const { return core_->leader_until() != BootTime::InfinitePast(); }

  static Lease Held(absl::string_view holder, int renewed = 0) {
    Lease lease;
    lease.mutable_spec()->set_holder_identity(std::string(holder));
    lease.mutable_spec()->set_lease_duration_seconds(15);
    lease.mutable_spec()->set_lease_transitions(4);
    lease.mutable_spec()->mutable_acquire_time()->set_seconds(1000);
    lease.mutable_spec()->mutable_renew_time()->set_seconds(1000 + renewed);
    return lease;
  }

  Random random_{1};
  std::unique_ptr<LeaseCore> core_ = std::make_unique<LeaseCore>(Options(), &random_);
  LeaseCall call_;
  absl::Duration wall_off_;
  int version_ = 0;
};

TEST(LeaderElectionOptionsTest, SaysEverythingThatIsWrong) {
  EXPECT_TRUE(CheckLeaderElection(Options()).ok());
  LeaderElectionOptions wrong;
  wrong.lease_duration = absl::Milliseconds(1500);
  wrong.renew_deadline = absl::Seconds(2);
  wrong.retry_period = absl::Seconds(2);
  const absl::Status found = CheckLeaderElection(wrong);
  EXPECT_EQ(status::Reason(found), "INVALID_FIELD");
  std::string fields;
  for (const auto& violation : status::GetFieldViolations(found)) fields += violation.field + " ";
  EXPECT_EQ(fields, "ns name identity renew_deadline lease_duration lease_duration ");
  // As client-go: jitter has its place before the deadline.
  LeaderElectionOptions tight = Options();
  tight.renew_deadline = absl::Milliseconds(2400);
  EXPECT_FALSE(CheckLeaderElection(tight).ok());
  tight.renew_deadline = absl::Milliseconds(2401);
  EXPECT_TRUE(CheckLeaderElection(tight).ok());
  tight.lease_duration = absl::InfiniteDuration();
  EXPECT_FALSE(CheckLeaderElection(tight).ok());
  tight.retry_period = absl::ZeroDuration();
  EXPECT_FALSE(CheckLeaderElection(tight).ok());
}

TEST(LeaderElectionOptionsTest, IdentitiesDiffer) {
  Random random(1);
  EXPECT_NE(MakeIdentity("host", &random), MakeIdentity("host", &random));
  EXPECT_EQ(MakeIdentity("host", &random).substr(0, 5), "host_");
}

TEST_F(LeaseCoreTest, CreatesTheLeaseAsClientGoDoes) {
  LeaseStep step = Take(core_->Start(At(absl::ZeroDuration())));
  EXPECT_EQ(call_.kind, Kind::kGet);
  EXPECT_EQ(call_.timeout, absl::Seconds(5));
  step = NotFound(kSecond);
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kCreate);
  const auto& spec = call_.lease.spec();
  EXPECT_EQ(call_.lease.metadata().namespace_(), "space");
  EXPECT_EQ(call_.lease.metadata().name(), "lock");
  EXPECT_EQ(spec.holder_identity(), "me");
  EXPECT_EQ(spec.lease_duration_seconds(), 15);
  EXPECT_TRUE(spec.has_lease_transitions());
  EXPECT_EQ(spec.lease_transitions(), 0);
  EXPECT_EQ(spec.acquire_time().seconds(), absl::ToUnixSeconds(kWall + kSecond));
  EXPECT_EQ(spec.renew_time().seconds(), absl::ToUnixSeconds(kWall + kSecond));
  EXPECT_FALSE(Leads());
  step = Answer(call_.lease, 3 * kSecond);
  EXPECT_EQ(step.started, (LeaseTerm{"uid-1", 0}));
  EXPECT_EQ(step.new_leader, "me");
  // From the sending on, not the answer.
  EXPECT_EQ(Until(), 11 * kSecond);
  EXPECT_EQ(Wake(), 3 * kSecond);
}

TEST_F(LeaseCoreTest, RenewsWithoutReading) {
  Lead(absl::ZeroDuration());
  const std::string acquired = call_.lease.spec().acquire_time().SerializeAsString();
  EXPECT_EQ(Wake(), 2 * kSecond);
  LeaseStep step = Timer(2 * kSecond);
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  EXPECT_EQ(call_.lease.metadata().resource_version(), "1");
  EXPECT_EQ(call_.lease.spec().acquire_time().SerializeAsString(), acquired);
  EXPECT_EQ(call_.lease.spec().renew_time().seconds(), absl::ToUnixSeconds(kWall + 2 * kSecond));
  EXPECT_EQ(call_.lease.spec().lease_transitions(), 0);
  step = Answer(call_.lease, 3 * kSecond);
  EXPECT_FALSE(step.started.has_value());
  EXPECT_FALSE(step.stopped.has_value());
  EXPECT_FALSE(step.new_leader.has_value());
  EXPECT_EQ(Until(), 12 * kSecond);
}

TEST_F(LeaseCoreTest, KeepsWhatItDoesNotKnow) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Lease lease = Held("");
  auto* const spec = lease.mutable_spec();
  spec->GetReflection()->MutableUnknownFields(spec)->AddVarint(100, 7);
  spec->set_strategy("OldestEmulationVersion");
  (*lease.mutable_metadata()->mutable_labels())["a"] = "b";
  Answer(lease, absl::ZeroDuration());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  const auto& written = call_.lease.spec();
  ASSERT_EQ(written.GetReflection()->GetUnknownFields(written).field_count(), 1);
  EXPECT_EQ(written.strategy(), "OldestEmulationVersion");
  EXPECT_EQ(call_.lease.metadata().labels().at("a"), "b");
}

TEST_F(LeaseCoreTest, TwoRenewalsAreNeverTheSame) {
  Lead(absl::ZeroDuration());
  const auto first = call_.lease.spec().renew_time();
  // The wall clock was set back meanwhile.
  wall_off_ = -2 * kSecond;
  Timer(2 * kSecond);
  EXPECT_EQ(call_.lease.spec().renew_time().nanos(), first.nanos() + 1000);
}

TEST_F(LeaseCoreTest, BelievesNoLongerThanTheDeadline) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  EXPECT_EQ(Wake(), 10 * kSecond);
  EXPECT_FALSE(Timer(10 * kSecond - absl::Nanoseconds(1)).stopped.has_value());
  EXPECT_TRUE(Timer(10 * kSecond).stopped.has_value());
  EXPECT_FALSE(Leads());
  // The renewal that was sent at 2 s is answered at last, and counts until 12 s.
  const LeaseStep step = Answer(call_.lease, 11 * kSecond);
  EXPECT_EQ(step.started, (LeaseTerm{"uid-1", 0}));
  EXPECT_EQ(Until(), 12 * kSecond);
}

TEST_F(LeaseCoreTest, AnAnswerTellsFirstThatBeliefHasEnded) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  // The strand was stuck: no timer has run.
  const LeaseStep step = Answer(call_.lease, 11 * kSecond);
  EXPECT_TRUE(step.stopped.has_value());
  EXPECT_TRUE(step.started.has_value());
}

TEST_F(LeaseCoreTest, AnAnswerAfterItsOwnDeadlineMakesNoLeader) {
  Take(core_->Start(At(absl::ZeroDuration())));
  NotFound(absl::ZeroDuration());
  const LeaseStep step = Answer(call_.lease, 10 * kSecond);
  EXPECT_FALSE(step.started.has_value());
  EXPECT_FALSE(Leads());
  // But the Lease is had, and renewed at once.
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  EXPECT_TRUE(Answer(call_.lease, 11 * kSecond).started.has_value());
  EXPECT_EQ(Until(), 20 * kSecond);
}

TEST_F(LeaseCoreTest, AnothersLeaseIsTakenOnceItHasRestedHere) {
  Take(core_->Start(At(absl::ZeroDuration())));
  // Its time stamps are of 1970, which says nothing.
  LeaseStep step = Answer(Held("other"), kSecond);
  EXPECT_EQ(step.new_leader, "other");
  EXPECT_FALSE(step.call.has_value());
  EXPECT_GE(Wake(), 3 * kSecond);
  EXPECT_LE(Wake(), absl::Milliseconds(5400));
  Timer(6 * kSecond);
  // Renewed, as first seen now.
  EXPECT_FALSE(Answer(Held("other", 1), 7 * kSecond).call.has_value());
  Timer(12 * kSecond);
  // Something else of it has changed, which is no sign of life.
  Lease labelled = Held("other", 1);
  (*labelled.mutable_metadata()->mutable_labels())["a"] = "b";
  EXPECT_FALSE(Answer(labelled, 13 * kSecond).call.has_value());
  Timer(21 * kSecond);
  EXPECT_FALSE(Answer(labelled, 22 * kSecond - absl::Nanoseconds(1)).call.has_value());
  Timer(27 * kSecond);
  step = Answer(labelled, 27 * kSecond);
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  EXPECT_EQ(call_.lease.metadata().resource_version(), std::to_string(version_));
  EXPECT_EQ(call_.lease.spec().holder_identity(), "me");
  EXPECT_EQ(call_.lease.spec().lease_transitions(), 5);
  EXPECT_EQ(call_.lease.spec().acquire_time().seconds(), absl::ToUnixSeconds(kWall + 27 * kSecond));
  step = Answer(call_.lease, 28 * kSecond);
  EXPECT_EQ(step.started, (LeaseTerm{"uid-1", 5}));
}

TEST_F(LeaseCoreTest, TheHolderSaysForHowLong) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Lease lease = Held("other");
  lease.mutable_spec()->set_lease_duration_seconds(60);
  Answer(lease, absl::ZeroDuration());
  Timer(59 * kSecond);
  EXPECT_FALSE(Answer(lease, 59 * kSecond).call.has_value());
  Timer(65 * kSecond);
  EXPECT_TRUE(Answer(lease, 65 * kSecond).call.has_value());
}

TEST_F(LeaseCoreTest, WhoWasFasterIsWaitedFor) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Answer(Held(""), absl::ZeroDuration());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  LeaseStep step = Conflict(absl::ZeroDuration());
  EXPECT_FALSE(step.call.has_value());
  EXPECT_TRUE(step.failure.ok());
  Timer(5 * kSecond);
  EXPECT_EQ(call_.kind, Kind::kGet);
  EXPECT_FALSE(Answer(Held("other"), 5 * kSecond).call.has_value());
}

TEST_F(LeaseCoreTest, ALostAnswerCountsForNothing) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  LeaseStep step = Lost(3 * kSecond);
  EXPECT_FALSE(step.failure.ok());
  EXPECT_EQ(Until(), 10 * kSecond);
  EXPECT_EQ(Wake(), 4 * kSecond);
  const Lease renewed = call_.lease;
  Timer(4 * kSecond);
  // What became of it is read first.
  EXPECT_EQ(call_.kind, Kind::kGet);
  step = Answer(renewed, 4 * kSecond);
  EXPECT_EQ(Until(), 10 * kSecond);
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  Answer(call_.lease, 5 * kSecond);
  EXPECT_EQ(Until(), 14 * kSecond);
}

TEST_F(LeaseCoreTest, ALostAnswerOfATakeOverIsMadeGood) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Answer(Held(""), absl::ZeroDuration());
  const Lease taken = call_.lease;
  Lost(kSecond);
  EXPECT_FALSE(Leads());
  Timer(6 * kSecond);
  Answer(taken, 6 * kSecond);
  EXPECT_EQ(call_.lease.spec().lease_transitions(), 5);
  EXPECT_EQ(call_.lease.spec().acquire_time().seconds(), taken.spec().acquire_time().seconds());
  EXPECT_TRUE(Answer(call_.lease, 6 * kSecond).started.has_value());
}

TEST_F(LeaseCoreTest, AConflictIsLookedAtOnce) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  const Lease renewed = call_.lease;
  LeaseStep step = Conflict(2 * kSecond);
  EXPECT_TRUE(step.failure.ok());
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kGet);
  EXPECT_TRUE(Leads());
  Answer(renewed, 2 * kSecond);
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  // A second one in a row has time.
  step = Conflict(2 * kSecond);
  EXPECT_FALSE(step.call.has_value());
  EXPECT_EQ(Wake(), 4 * kSecond);
}

TEST_F(LeaseCoreTest, EndsAtOnceIfAnotherHoldsTheLease) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  Conflict(2 * kSecond);
  const LeaseStep step = Answer(Held("other"), 3 * kSecond);
  EXPECT_EQ(step.stopped, "the Lease is held by other");
  EXPECT_EQ(step.new_leader, "other");
  EXPECT_FALSE(Leads());
  EXPECT_FALSE(step.call.has_value());
}

TEST_F(LeaseCoreTest, EndsAtOnceIfTheLeaseIsGone) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  const LeaseStep step = NotFound(2 * kSecond);
  EXPECT_TRUE(step.stopped.has_value());
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kCreate);
}

TEST_F(LeaseCoreTest, ALeaseThatWasTakenFromAnotherByDeletionHasToRest) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Answer(Held("other"), absl::ZeroDuration());
  Timer(4 * kSecond);
  EXPECT_FALSE(NotFound(4 * kSecond).call.has_value());
  Timer(18 * kSecond);
  EXPECT_FALSE(NotFound(18 * kSecond).call.has_value());
  Timer(23 * kSecond);
  EXPECT_TRUE(NotFound(23 * kSecond).call.has_value());
  EXPECT_EQ(call_.kind, Kind::kCreate);
}

TEST_F(LeaseCoreTest, AMissingNamespaceIsAFailure) {
  Take(core_->Start(At(absl::ZeroDuration())));
  NotFound(absl::ZeroDuration());
  const LeaseStep step = NotFound(absl::ZeroDuration());
  EXPECT_FALSE(step.failure.ok());
  EXPECT_FALSE(step.call.has_value());
  EXPECT_GE(Wake(), 2 * kSecond);
}

TEST_F(LeaseCoreTest, OldAnswersAndOldTimersCountForNothing) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  const LeaseCall old = call_;
  Lost(3 * kSecond);
  EXPECT_FALSE(
      core_->OnAnswer(old.attempt, std::make_shared<const Lease>(old.lease), At(3 * kSecond))
          .call.has_value());
  EXPECT_EQ(Until(), 10 * kSecond);
  EXPECT_FALSE(Timer(absl::Milliseconds(3500)).call.has_value());
}

TEST_F(LeaseCoreTest, StopWithoutReleaseIsTheEnd) {
  Lead(absl::ZeroDuration());
  const LeaseStep step = core_->Stop(At(kSecond));
  EXPECT_TRUE(step.stopped.has_value());
  EXPECT_TRUE(step.finished);
  EXPECT_FALSE(step.call.has_value());
  EXPECT_EQ(core_->NextWake(), BootTime::InfiniteFuture());
}

class LeaseReleaseTest : public LeaseCoreTest {
 protected:
  LeaseReleaseTest() {
    LeaderElectionOptions options = Options();
    options.release_on_stop = true;
    core_ = std::make_unique<LeaseCore>(options, &random_);
  }
};

TEST_F(LeaseReleaseTest, WritesAnEmptyHolderAsClientGoDoes) {
  Lead(absl::ZeroDuration());
  LeaseStep step = Take(core_->Stop(At(kSecond)));
  EXPECT_TRUE(step.stopped.has_value());
  EXPECT_FALSE(step.finished);
  EXPECT_FALSE(Leads());
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.kind, Kind::kUpdate);
  const auto& spec = call_.lease.spec();
  EXPECT_TRUE(spec.has_holder_identity());
  EXPECT_EQ(spec.holder_identity(), "");
  EXPECT_EQ(spec.lease_duration_seconds(), 1);
  EXPECT_TRUE(spec.has_lease_transitions());
  EXPECT_EQ(spec.renew_time().seconds(), absl::ToUnixSeconds(kWall + kSecond));
  EXPECT_EQ(spec.acquire_time().seconds(), absl::ToUnixSeconds(kWall + kSecond));
  step = Answer(call_.lease, 2 * kSecond);
  EXPECT_TRUE(step.finished);
  EXPECT_EQ(step.new_leader, "");
}

TEST_F(LeaseReleaseTest, AWriteUnderWayComesFirst) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  EXPECT_FALSE(Take(core_->Stop(At(2 * kSecond))).call.has_value());
  LeaseStep step = Answer(call_.lease, 3 * kSecond);
  EXPECT_FALSE(step.started.has_value());
  ASSERT_TRUE(step.call.has_value());
  EXPECT_EQ(call_.lease.spec().holder_identity(), "");
  EXPECT_EQ(call_.lease.metadata().resource_version(), "2");
  EXPECT_TRUE(Answer(call_.lease, 3 * kSecond).finished);
}

TEST_F(LeaseReleaseTest, AnUnknownOutcomeIsReadFirst) {
  Take(core_->Start(At(absl::ZeroDuration())));
  Answer(Held(""), absl::ZeroDuration());
  const Lease taken = call_.lease;
  EXPECT_FALSE(Take(core_->Stop(At(kSecond))).finished);
  Lost(kSecond);
  EXPECT_EQ(Wake(), 3 * kSecond);
  Timer(3 * kSecond);
  EXPECT_EQ(call_.kind, Kind::kGet);
  Answer(taken, 3 * kSecond);
  EXPECT_EQ(call_.lease.spec().holder_identity(), "");
  // Also by a conflict: one more look.
  Conflict(3 * kSecond);
  Timer(5 * kSecond);
  EXPECT_EQ(call_.kind, Kind::kGet);
  EXPECT_TRUE(Answer(Held("other"), 5 * kSecond).finished);
}

TEST_F(LeaseReleaseTest, GivesUpInTheEnd) {
  Lead(absl::ZeroDuration());
  Take(core_->Stop(At(kSecond)));
  for (absl::Duration t = kSecond; t < 9 * kSecond; t += 2 * kSecond) {
    EXPECT_FALSE(Lost(t).finished);
    EXPECT_EQ(Wake(), t + 2 * kSecond);
    Timer(t + 2 * kSecond);
  }
  EXPECT_EQ(call_.timeout, 2 * kSecond);
  EXPECT_EQ(Wake(), 11 * kSecond);
  EXPECT_TRUE(Timer(11 * kSecond).finished);
}

TEST_F(LeaseReleaseTest, WhoHoldsNothingReleasesNothing) {
  Take(core_->Start(At(absl::ZeroDuration())));
  EXPECT_TRUE(Take(core_->Stop(At(absl::ZeroDuration()))).finished);
}

TEST_F(LeaseReleaseTest, WhoLostTheLeaseReleasesNothing) {
  Lead(absl::ZeroDuration());
  Timer(2 * kSecond);
  Conflict(2 * kSecond);
  Answer(Held("other"), 2 * kSecond);
  EXPECT_TRUE(Take(core_->Stop(At(3 * kSecond))).finished);
}

TEST_F(LeaseReleaseTest, ALeaseThatIsGoneNeedsNoRelease) {
  Lead(absl::ZeroDuration());
  Take(core_->Stop(At(kSecond)));
  EXPECT_TRUE(NotFound(kSecond).finished);
}

}  // namespace
}  // namespace capstan::kube
