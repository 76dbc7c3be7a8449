#include "libs/rpc/admission.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/auth/spiffe_id.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::rpc {
namespace {

using Kind = Admission::Kind;

auth::Caller Of(auth::SpiffeId id) {
  auth::Caller caller;
  caller.id = std::move(id);
  return caller;
}
auth::Caller Person(int uid) { return Of(auth::SpiffeId::Person("t", absl::StrCat(uid))); }
auth::Caller Agent(int node = 1) {
  return Of(auth::SpiffeId::Node("t", "local", absl::StrCat("n", node)));
}

class AdmissionTest : public ::testing::Test {
 protected:
  // As many calls as there is a place for, at most `most`.
  int Fill(const auth::Caller& caller, int most = 1000, Kind kind = Kind::kCall) {
    for (int i = 0; i < most; ++i) {
      auto ticket = admission_->Enter(caller, kind);
      if (!ticket.ok()) return i;
      tickets_.push_back(*std::move(ticket));
    }
    return most;
  }

  metrics::Registry registry_{"process"};
  metrics::Registry fleet_registry_{"process"};
  std::vector<Admission::Ticket> tickets_;
  const std::shared_ptr<Admission> admission_ =
      Admission::Make({.calls = {.all = 100, .shared = 80, .each = 30, .of_part = 100},
                       .streams = {.all = 5, .shared = 4, .each = 2, .of_part = 1},
                       .retry_delay = absl::Seconds(1)},
                      &registry_);
};

TEST_F(AdmissionTest, WhoAsksForTooMuchIsToldWhenToComeAgain) {
  EXPECT_EQ(Fill(Person(1)), 30);
  const absl::Status refused = admission_->Enter(Person(1), Kind::kCall).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::Reason(refused), "TOO_MANY_CALLS");
  EXPECT_EQ(status::GetRetryDelay(refused), absl::Seconds(1));
  EXPECT_NE(registry_.RenderText().find(R"(capstan_process_calls_refused_total{kind="call"} 2)"),
            std::string::npos)
      << registry_.RenderText();
  // Nobody else is.
  EXPECT_TRUE(admission_->Enter(Person(2), Kind::kCall).ok());
  EXPECT_TRUE(admission_->Enter(Person(1), Kind::kStream).ok());
}

TEST_F(AdmissionTest, APlaceIsFreeOnceTheCallIsOver) {
  EXPECT_EQ(Fill(Person(1)), 30);
  tickets_.pop_back();
  auto ticket = admission_->Enter(Person(1), Kind::kCall);
  ASSERT_TRUE(ticket.ok());
  // Moved, it is held once.
  Admission::Ticket moved = *std::move(ticket);
  EXPECT_FALSE(admission_->Enter(Person(1), Kind::kCall).ok());
  moved = Admission::Ticket();
  EXPECT_EQ(Fill(Person(1)), 1);
  tickets_.clear();
  EXPECT_EQ(Fill(Person(1)), 30);
}

TEST_F(AdmissionTest, HoweverManyAskForTooMuchANewcomerFindsAPlace) {
  constexpr int kGreedy = 20;
  for (int person = 0; person < kGreedy; ++person) Fill(Person(person));
  // Calls end in any order, and everyone asks again at once.
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::swap(tickets_[random.Below(tickets_.size())], tickets_.back());
    tickets_.pop_back();
    for (int person = 0; person < kGreedy; ++person) {
      Fill(Person(static_cast<int>(random.Below(kGreedy))), 1);
    }
    if (i > 500) {
      EXPECT_TRUE(admission_->Enter(Person(kGreedy), Kind::kCall).ok()) << i;
    }
  }
}

TEST_F(AdmissionTest, TheOwnPartsGetInWhateverOthersDo) {
  for (int person = 0; person < 1000; ++person) Fill(Person(person));
  int parts = 0;
  for (int node = 0; node < 20; ++node) parts += Fill(Agent(node));
  EXPECT_EQ(parts, 20);
  EXPECT_FALSE(admission_->Enter(Agent(20), Kind::kCall).ok());
}

TEST_F(AdmissionTest, APartWithAllTheCallsThatItCanMakeLeavesPlacesForEverybody) {
  EXPECT_EQ(Fill(Agent()), 50);
  const absl::Status refused = admission_->Enter(Agent(), Kind::kCall).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::Reason(refused), "TOO_MANY_CALLS");
  EXPECT_EQ(status::GetRetryDelay(refused), absl::Seconds(1));
  // Another Node, another kind of part, a person, the admin (who is one) and who shows nothing.
  EXPECT_TRUE(admission_->Enter(Agent(2), Kind::kCall).ok());
  EXPECT_TRUE(admission_->Enter(Of(auth::SpiffeId::Service("t", "scheduler")), Kind::kCall).ok());
  EXPECT_TRUE(admission_->Enter(Person(1), Kind::kCall).ok());
  EXPECT_TRUE(admission_->Enter(Person(0), Kind::kCall).ok());
  EXPECT_TRUE(admission_->Enter(auth::Caller(), Kind::kCall).ok());
  // A place that is free again is free to it.
  tickets_.pop_back();
  EXPECT_EQ(Fill(Agent()), 1);
}

TEST_F(AdmissionTest, OthersLeaveTheirPartOfWhatAGreedyPartHasLeft) {
  EXPECT_EQ(Fill(Agent()), 50);
  // Four fifths of the other half, however many they are.
  int others = 0;
  for (int person = 0; person < 1000; ++person) others += Fill(Person(person));
  EXPECT_EQ(others, 40);
  EXPECT_FALSE(admission_->Enter(Agent(), Kind::kCall).ok());
  EXPECT_EQ(Fill(Agent(2)), 5);
}

TEST_F(AdmissionTest, HoweverManyPartsAskForTooMuchAnybodyNewFindsAPlace) {
  constexpr int kGreedy = 8;
  Random random(1);
  const auto ask = [&] {
    const int who = static_cast<int>(random.Below(2 * kGreedy));
    Fill(who < kGreedy ? Agent(who) : Person(who), 1);
  };
  for (int i = 0; i < 1000; ++i) ask();
  // Calls end in any order, and everyone asks again at once.
  for (int i = 0; i < 2000; ++i) {
    std::swap(tickets_[random.Below(tickets_.size())], tickets_.back());
    tickets_.pop_back();
    for (int k = 0; k < 2 * kGreedy; ++k) ask();
    if (i > 500) {
      EXPECT_TRUE(admission_->Enter(Agent(kGreedy), Kind::kCall).ok()) << i;
      EXPECT_TRUE(admission_->Enter(Person(0), Kind::kCall).ok()) << i;
    }
  }
}

TEST_F(AdmissionTest, APartHasABoundOfItsOwn) {
  EXPECT_EQ(Fill(Agent(), 1000, Kind::kStream), 1);
  EXPECT_EQ(Fill(Agent(2), 1000, Kind::kStream), 1);
}

TEST_F(AdmissionTest, AFleetIsNotRefused) {
  const auto fleet = Admission::Make({}, &fleet_registry_);
  // All that one connection carries (ServerConfig::max_concurrent_streams), from two parts with
  // much to do after an outage, and a call of each of 1,000 Nodes.
  for (const char* part : {"scheduler", "cluster_manager"}) {
    for (int i = 0; i < 1000; ++i) {
      auto ticket = fleet->Enter(Of(auth::SpiffeId::Service("t", part)), Kind::kCall);
      ASSERT_TRUE(ticket.ok()) << part << i;
      tickets_.push_back(*std::move(ticket));
    }
  }
  for (int node = 0; node < 1000; ++node) {
    auto ticket = fleet->Enter(Agent(node), Kind::kCall);
    ASSERT_TRUE(ticket.ok()) << node;
    tickets_.push_back(*std::move(ticket));
  }
  // All Nodes of a Cluster come back before their old sessions have ended.
  for (int node = 0; node < 2 * 7500; ++node) {
    auto ticket = fleet->Enter(Agent(node % 7500), Kind::kStream);
    ASSERT_TRUE(ticket.ok()) << node;
    tickets_.push_back(*std::move(ticket));
  }
}

TEST_F(AdmissionTest, WhoShowsNoCertificateIsOneCaller) {
  EXPECT_EQ(Fill(auth::Caller()), 30);
  // Half of what is left.
  EXPECT_EQ(Fill(Person(1)), 25);
}

TEST_F(AdmissionTest, AProcessWithoutBoundsAdmitsAll) {
  SetAdmission(nullptr);
  EXPECT_TRUE(Admit(Person(1), Kind::kCall).ok());
  SetAdmission(admission_);
  EXPECT_EQ(Fill(Person(1)), 30);
  EXPECT_FALSE(Admit(Person(1), Kind::kCall).ok());
  SetAdmission(nullptr);
  // What is held outlives the bound.
  EXPECT_TRUE(Admit(Person(1), Kind::kCall).ok());
  // Who was not authorised is told why.
  EXPECT_EQ(Admit(absl::PermissionDeniedError("x"), Kind::kCall).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace capstan::rpc
