#include "libs/auth/placement_grant.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "libs/auth/no_placement.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/signature.h"
#include "libs/session/placement.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"

namespace capstan::auth {
namespace {

using type::v1::Placement;
using type::v1::PlacementGrant;

constexpr char kPurpose[] = "capstan placements v1";
// Of a tree with as many leaves as an int64 counts.
constexpr int kMaxAuditPath = 63;

std::string HashLeaf(absl::string_view leaf) {
  return Sha256::Of(absl::StrCat(absl::string_view("\0", 1), leaf));
}

std::string HashNode(absl::string_view left, absl::string_view right) {
  return Sha256::Of(absl::StrCat("\1", left, right));
}

// All levels of the tree, leaves first; a node without a sibling is its own parent.
std::vector<std::vector<std::string>> MakeTree(std::vector<std::string> leaves) {
  std::vector<std::vector<std::string>> levels;
  levels.push_back(std::move(leaves));
  while (levels.back().size() > 1) {
    const std::vector<std::string>& below = levels.back();
    std::vector<std::string> level;
    level.reserve((below.size() + 1) / 2);
    for (size_t i = 0; i + 1 < below.size(); i += 2) {
      level.push_back(HashNode(below[i], below[i + 1]));
    }
    if (below.size() % 2 == 1) level.push_back(below.back());
    levels.push_back(std::move(level));
  }
  return levels;
}

// The root that the leaf and its path lead to (RFC 9162, section 2.1.3.2); empty if the path does
// not fit the leaf's position.
std::string RootOf(const PlacementGrant& grant) {
  if (grant.leaf_index() < 0 || grant.leaf_index() >= grant.tree_size()) return "";
  auto position = static_cast<uint64_t>(grant.leaf_index());
  auto last = static_cast<uint64_t>(grant.tree_size() - 1);
  std::string root = HashLeaf(grant.placement());
  for (const std::string& sibling : grant.audit_path()) {
    if (last == 0 || sibling.size() != Sha256::kSize) return "";
    if (position % 2 == 1 || position == last) {
      root = HashNode(sibling, root);
      while (position % 2 == 0 && position != 0) {
        position /= 2;
        last /= 2;
      }
    } else {
      root = HashNode(root, sibling);
    }
    position /= 2;
    last /= 2;
  }
  return last == 0 ? root : "";
}

}  // namespace

absl::StatusOr<std::vector<PlacementGrant>> SignPlacements(const std::vector<Placement>& placements,
                                                           const rpc::PrivateKey& key,
                                                           const std::string& certificate) {
  std::vector<PlacementGrant> grants(placements.size());
  if (placements.empty()) return grants;
  std::vector<std::string> leaves;
  leaves.reserve(placements.size());
  for (size_t i = 0; i < placements.size(); ++i) {
    grants[i].set_placement(placements[i].SerializeAsString());
    leaves.push_back(HashLeaf(grants[i].placement()));
  }
  const std::vector<std::vector<std::string>> levels = MakeTree(std::move(leaves));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string signature,
                           rpc::Sign(key, kPurpose, levels.back().front()));
  for (size_t i = 0; i < grants.size(); ++i) {
    PlacementGrant& grant = grants[i];
    grant.set_leaf_index(static_cast<int64_t>(i));
    grant.set_tree_size(static_cast<int64_t>(grants.size()));
    size_t position = i;
    for (const std::vector<std::string>& level : levels) {
      const size_t sibling = position ^ 1;
      if (sibling < level.size()) grant.add_audit_path(level[sibling]);
      position /= 2;
    }
    grant.set_signature(signature);
    grant.set_certificate(certificate);
  }
  return grants;
}

absl::StatusOr<VerifiedPlacement> VerifyGrant(absl::string_view grant,
                                              absl::string_view trust_domain,
                                              const std::vector<std::string>& roots,
                                              absl::Time now) {
  PlacementGrant parsed;
  VerifiedPlacement verified;
  if (!parsed.ParseFromArray(grant.data(), static_cast<int>(grant.size())) ||
      !verified.placement.ParseFromString(parsed.placement())) {
    return NoPlacement("the grant cannot be read");
  }
  const absl::StatusOr<rpc::Certificate> certificate = rpc::ParseCertificate(parsed.certificate());
  if (!certificate.ok()) return NoPlacement("the grant's certificate cannot be read");
  if (certificate->uri != absl::StrCat("spiffe://", trust_domain, "/svc/scheduler") ||
      verified.placement.trust_domain() != trust_domain) {
    return NoPlacement("the grant was not signed by the scheduler of this trust domain");
  }
  const absl::Time signed_at = ToTime(verified.placement.sign_time());
  if (signed_at > now + kGrantClockSkew) return NoPlacement("the grant is of the future");
  if (!rpc::VerifyChain(parsed.certificate(), {}, roots, signed_at).ok()) {
    return NoPlacement("the grant's certificate was not valid when it says that it was signed");
  }
  const std::string root = parsed.audit_path_size() > kMaxAuditPath ? "" : RootOf(parsed);
  if (root.empty() ||
      !rpc::SignatureHolds(certificate->public_key, kPurpose, root, parsed.signature())) {
    return NoPlacement("the grant's signature does not hold");
  }
  verified.signer_serial = certificate->serial;
  return verified;
}

absl::Status Matches(const Placement& placement, const PlacementClaim& claim) {
  const auto differs = [](const auto& claimed, const auto& granted) {
    return claimed.has_value() && *claimed != granted;
  };
  const auto other = [](absl::string_view what) {
    return NoPlacement(absl::StrCat("its grant is for another ", what));
  };
  if (differs(claim.job, placement.job()) || differs(claim.job_uid, placement.job_uid())) {
    return other("Job");
  }
  if (differs(claim.generation, placement.generation())) return other("generation");
  if (differs(claim.holder, absl::StrCat(placement.job_uid(), "/", placement.generation()))) {
    return other("holder");
  }
  if (differs(claim.group, placement.group()) || differs(claim.index, placement.index())) {
    return other("Task");
  }
  if (differs(claim.service_account, placement.service_account())) return other("service account");
  if (differs(claim.bundle, placement.bundle())) return other("Bundle");
  if (differs(claim.output, placement.output())) return other("Output");
  if (claim.version.has_value() &&
      std::find(placement.versions().begin(), placement.versions().end(),
                session::VersionDigest(*claim.version)) == placement.versions().end()) {
    return other("Dataset version");
  }
  return absl::OkStatus();
}

}  // namespace capstan::auth
