#include "libs/auth/placement_grant.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/auth/placement_verifier.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::auth {
namespace {

using type::v1::Placement;
using type::v1::PlacementGrant;

constexpr const char* kVersions[] = {"projects/red/datasets/d/versions/1",
                                     "projects/red/datasets/e/versions/7"};
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class PlacementGrantTest : public testing::Test {
 protected:
  Placement MakePlacement(int index) const {
    Placement placement;
    placement.set_trust_domain(authority_.trust_domain());
    placement.set_cluster("local");
    placement.set_node("n1");
    placement.set_job("projects/red/jobs/j");
    placement.set_job_uid("0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b");
    placement.set_generation(3);
    placement.set_group("worker");
    placement.set_index(index);
    placement.set_service_account("projects/red/serviceAccounts/train");
    placement.set_bundle("projects/red/bundles/ab");
    for (const char* version : kVersions) {
      placement.add_versions(session::VersionDigest(version));
    }
    placement.set_output("projects/red/jobs/j/output");
    *placement.mutable_sign_time() = ToProto(kNow);
    return placement;
  }
  std::vector<PlacementGrant> Sign(int count, const rpc::Svid& svid) const {
    std::vector<Placement> placements;
    for (int i = 0; i < count; ++i) placements.push_back(MakePlacement(i));
    return SignPlacements(placements, rpc::PrivateKey::FromPem(svid.key_pem).value(),
                          svid.chain.front())
        .value();
  }
  absl::StatusOr<VerifiedPlacement> Verify(const PlacementGrant& grant) const {
    return VerifyGrant(grant.SerializeAsString(), authority_.trust_domain(), {authority_.root()},
                       kNow);
  }
  void ExpectRefused(const PlacementGrant& grant, absl::string_view why) const {
    const auto verified = Verify(grant);
    EXPECT_EQ(status::Reason(verified.status()), "NO_PLACEMENT") << verified.status();
    EXPECT_TRUE(absl::StrContains(verified.status().message(), why)) << verified.status();
  }

  const rpc::TestAuthority authority_{"test.capstan.dev", kNow};
  const rpc::Svid scheduler_ = authority_.Issue("/svc/scheduler");
};

TEST_F(PlacementGrantTest, EachOfThoseSignedTogetherHoldsByItself) {
  for (const int count : {1, 2, 3, 4, 5, 7, 8, 9, 64, 100}) {
    const std::vector<PlacementGrant> grants = Sign(count, scheduler_);
    ASSERT_EQ(grants.size(), static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const auto verified = Verify(grants[i]);
      ASSERT_TRUE(verified.ok()) << i << " of " << count << ": " << verified.status();
      EXPECT_EQ(verified->placement.SerializeAsString(), MakePlacement(i).SerializeAsString());
      EXPECT_EQ(verified->signer_serial, rpc::ParseCertificate(scheduler_.chain.front())->serial);
    }
  }
  EXPECT_TRUE(Sign(0, scheduler_).empty());
}

TEST_F(PlacementGrantTest, AGrantOfAMessageOfOrdersIsSmall) {
  // 600 orders with grants are a message of orders; see session::DesiredBuilder.
  for (const PlacementGrant& grant : Sign(600, scheduler_)) {
    EXPECT_LT(grant.ByteSizeLong(), 2048u);
  }
}

TEST_F(PlacementGrantTest, AGrantIsShortEnoughForMetadata) {
  Placement placement = MakePlacement(0);
  // As many as a Job may have.
  for (int i = 2; i < 64; ++i) placement.add_versions(session::VersionDigest(absl::StrCat(i)));
  const std::vector<Placement> placements(4096, placement);
  const auto grants = SignPlacements(
      placements, rpc::PrivateKey::FromPem(scheduler_.key_pem).value(), scheduler_.chain.front());
  ASSERT_TRUE(grants.ok()) << grants.status();
  // Base64 makes a third more of it; a server takes 8 KiB of metadata in all.
  EXPECT_LT(grants->front().ByteSizeLong() * 4 / 3, 6144u);
}

TEST_F(PlacementGrantTest, NoBitCanBeChanged) {
  const PlacementGrant grant = Sign(5, scheduler_)[2];
  const std::string bytes = grant.SerializeAsString();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto verified =
        VerifyGrant(changed, authority_.trust_domain(), {authority_.root()}, kNow);
    // What is signed is the Placement: other bits may lead to the same one, none to another.
    if (!verified.ok()) continue;
    EXPECT_EQ(verified->placement.SerializeAsString(), grant.placement()) << "bit " << bit;
  }
}

TEST_F(PlacementGrantTest, PathsOfOthersLeadNowhere) {
  const std::vector<PlacementGrant> grants = Sign(5, scheduler_);
  PlacementGrant moved = grants[1];
  moved.set_placement(grants[2].placement());
  ExpectRefused(moved, "signature");
  moved = grants[1];
  moved.set_leaf_index(0);
  ExpectRefused(moved, "signature");
  moved = grants[1];
  moved.set_tree_size(0);
  ExpectRefused(moved, "signature");
  moved = grants[1];
  moved.mutable_audit_path()->RemoveLast();
  ExpectRefused(moved, "signature");
  moved = grants[1];
  moved.add_audit_path(moved.audit_path(0));
  ExpectRefused(moved, "signature");
  for (int i = 0; i < 100; ++i) moved.add_audit_path(moved.audit_path(0));
  ExpectRefused(moved, "signature");
  // An inner node is no Placement.
  moved = grants[0];
  moved.set_placement(absl::StrCat("\1", std::string(64, 'x')));
  ExpectRefused(moved, "");
}

TEST_F(PlacementGrantTest, OnlyTheSchedulerGrants) {
  for (const char* path : {"/svc/credentials", "/executor/local", "/node/local/n1", "/person/1"}) {
    ExpectRefused(Sign(1, authority_.Issue(path)).front(), "not signed by the scheduler");
  }
  const rpc::TestAuthority stranger("other.capstan.dev", kNow);
  ExpectRefused(Sign(1, stranger.Issue("/svc/scheduler")).front(), "not signed by the scheduler");
  const rpc::TestAuthority impostor("test.capstan.dev", kNow);
  ExpectRefused(Sign(1, impostor.Issue("/svc/scheduler")).front(), "was not valid");
  // A certificate of the scheduler's with somebody else's key.
  const rpc::Svid own = authority_.Issue("/svc/data_loader");
  PlacementGrant stolen = Sign(1, own).front();
  stolen.set_certificate(scheduler_.chain.front());
  ExpectRefused(stolen, "signature");
  EXPECT_EQ(
      status::Reason(
          VerifyGrant("no grant", authority_.trust_domain(), {authority_.root()}, kNow).status()),
      "NO_PLACEMENT");
}

TEST_F(PlacementGrantTest, TheCertificateMustHaveBeenValidThenNotNow) {
  const std::string grant = Sign(1, scheduler_).front().SerializeAsString();
  const auto at = [&](absl::Time now) {
    return VerifyGrant(grant, authority_.trust_domain(), {authority_.root()}, now);
  };
  // A Task may run for longer than the certificates of those that ordered it.
  EXPECT_TRUE(at(kNow + absl::Hours(24 * 60)).ok());
  EXPECT_TRUE(at(kNow - absl::Minutes(4)).ok());
  EXPECT_FALSE(at(kNow - absl::Minutes(6)).ok());
  ExpectRefused(Sign(1, authority_.Issue("/svc/scheduler", -absl::Minutes(10))).front(),
                "was not valid");
}

TEST_F(PlacementGrantTest, WhatIsClaimedMustBeWhatIsGranted) {
  const Placement placement = MakePlacement(4);
  EXPECT_EQ(Matches(placement, {}), absl::OkStatus());
  EXPECT_EQ(Matches(placement, {.job = placement.job(),
                                .job_uid = placement.job_uid(),
                                .generation = 3,
                                .holder = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b/3",
                                .group = "worker",
                                .index = 4,
                                .service_account = placement.service_account(),
                                .bundle = placement.bundle(),
                                .output = placement.output(),
                                .version = kVersions[1]}),
            absl::OkStatus());
  const std::vector<PlacementClaim> others = {
      {.job = "projects/red/jobs/k"},
      {.job_uid = "x"},
      {.generation = 4},
      {.holder = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b/4"},
      {.group = "chief"},
      {.index = 5},
      {.service_account = "projects/red/serviceAccounts/admin"},
      {.bundle = "projects/red/bundles/ac"},
      {.output = "projects/red/jobs/k/output"},
      {.version = "projects/red/datasets/d/versions/2"},
      {.version = placement.versions(0)},
      {.job = ""},
      {.bundle = ""},
  };
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(status::Reason(Matches(placement, others[i])), "NO_PLACEMENT") << i;
  }
}

TEST_F(PlacementGrantTest, WhatIsKnownToHoldIsForgottenWithItsRoots) {
  std::vector<std::string> roots = {authority_.root()};
  PlacementVerifier verifier(authority_.trust_domain(), [&roots] { return roots; });
  const std::string grant = Sign(1, scheduler_).front().SerializeAsString();
  const auto first = verifier.Verify(grant, kNow);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(verifier.Verify(grant, kNow)->get(), first->get());
  EXPECT_FALSE(verifier.Verify(absl::StrCat(grant, "x"), kNow).ok());
  roots = {rpc::TestAuthority("test.capstan.dev", kNow).root()};
  EXPECT_FALSE(verifier.Verify(grant, kNow).ok());
  roots = {authority_.root()};
  EXPECT_TRUE(verifier.Verify(grant, kNow).ok());
}

}  // namespace
}  // namespace capstan::auth
