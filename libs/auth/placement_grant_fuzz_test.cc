// Grants that somebody has changed: whatever was done to one, nothing holds but what was signed.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/auth/placement_grant.h"
#include "libs/digest/sha256.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/time/proto_time.h"

namespace {

using capstan::Sha256;
using capstan::auth::SignPlacements;
using capstan::auth::VerifyGrant;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::type::v1::Placement;
using capstan::type::v1::PlacementGrant;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr int kMostSigned = 9;

struct World {
  capstan::rpc::TestAuthority authority{"test.capstan.dev", kNow};
  capstan::rpc::Svid scheduler = authority.Issue("/svc/scheduler");
  capstan::rpc::Svid executor = authority.Issue("/svc/executor");
  // Of 1, 2, … signed together.
  std::vector<std::vector<PlacementGrant>> grants;
  std::set<std::string> placements;
};

const World& TheWorld() {
  static const World* const world = [] {
    auto* made = new World;
    const auto key = capstan::rpc::PrivateKey::FromPem(made->scheduler.key_pem);
    for (int count = 1; count <= kMostSigned; ++count) {
      std::vector<Placement> placements;
      for (int index = 0; index < count; ++index) {
        Placement& placement = placements.emplace_back();
        placement.set_trust_domain("test.capstan.dev");
        placement.set_job(absl::StrCat("projects/p/jobs/j", count));
        placement.set_index(index);
        *placement.mutable_sign_time() = capstan::ToProto(kNow);
        made->placements.insert(placement.SerializeAsString());
      }
      made->grants.push_back(
          SignPlacements(placements, key.value(), made->scheduler.chain.front()).value());
    }
    return made;
  }();
  return *world;
}

const PlacementGrant& AnyGrant(FuzzInput* input) {
  const auto& signed_together = TheWorld().grants[input->Below(kMostSigned)];
  return signed_together[input->Below(signed_together.size())];
}

// What an inner node of a tree, or its leaf, hashes to.
std::string AnyHash(FuzzInput* input) {
  const PlacementGrant& grant = AnyGrant(input);
  switch (input->Below(3)) {
    case 0:
      return Sha256::Of(absl::StrCat(absl::string_view("\0", 1), grant.placement()));
    case 1:
      if (grant.audit_path().empty()) return "";
      return grant.audit_path(static_cast<int>(input->Below(grant.audit_path_size())));
    default:
      return std::string(input->Bytes(32));
  }
}

void Change(PlacementGrant* grant, FuzzInput* input) {
  switch (input->Below(9)) {
    case 0:
      grant->set_leaf_index(input->Number());
      break;
    case 1:
      grant->set_tree_size(input->Number());
      break;
    case 2:
      grant->add_audit_path(AnyHash(input));
      break;
    case 3:
      if (grant->audit_path().empty()) break;
      grant->set_audit_path(static_cast<int>(input->Below(grant->audit_path_size())),
                            AnyHash(input));
      break;
    case 4:
      if (!grant->audit_path().empty()) grant->mutable_audit_path()->RemoveLast();
      break;
    case 5:
      grant->set_placement(AnyGrant(input).placement());
      break;
    case 6: {
      // A leaf that reads like the inside of a tree.
      grant->set_placement(absl::StrCat(AnyHash(input), AnyHash(input)));
      break;
    }
    case 7:
      grant->set_signature(input->Flag() ? AnyGrant(input).signature()
                                         : std::string(input->Bytes(72)));
      break;
    default: {
      Placement placement;
      if (!placement.ParseFromString(grant->placement())) break;
      placement.set_index(static_cast<int32_t>(input->Number()));
      placement.set_job(std::string("projects/p/jobs/other"));
      grant->set_placement(placement.SerializeAsString());
      if (input->Flag()) grant->set_certificate(TheWorld().executor.chain.front());
    }
  }
}

void Check(absl::string_view bytes) {
  const World& world = TheWorld();
  const auto verified =
      VerifyGrant(bytes, world.authority.trust_domain(), {world.authority.root()}, kNow);
  if (!verified.ok()) return;
  Require(world.placements.count(verified->placement.SerializeAsString()) == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Below(4) == 0) {
    Check(input.Rest());
    return 0;
  }
  PlacementGrant grant = AnyGrant(&input);
  const World& world = TheWorld();
  Require(VerifyGrant(grant.SerializeAsString(), world.authority.trust_domain(),
                      {world.authority.root()}, kNow)
              .ok());
  while (!input.empty()) Change(&grant, &input);
  std::string bytes = grant.SerializeAsString();
  Check(bytes);
  return 0;
}
