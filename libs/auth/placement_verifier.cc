#include "libs/auth/placement_verifier.h"

#include <utility>

#include "libs/digest/sha256.h"

namespace capstan::auth {

PlacementVerifier::PlacementVerifier(std::string trust_domain, Roots roots)
    : trust_domain_(std::move(trust_domain)), roots_(std::move(roots)) {}

absl::StatusOr<std::shared_ptr<const VerifiedPlacement>> PlacementVerifier::Verify(
    const std::string& grant, absl::Time now) {
  std::vector<std::string> roots = roots_();
  // Short, and nobody finds another grant of the same digest.
  const std::string digest = Sha256::Of(grant);
  {
    absl::MutexLock lock(&mutex_);
    if (known_by_ != roots) {
      known_.clear();
      known_by_ = roots;
    }
    const auto known = known_.find(digest);
    if (known != known_.end()) return known->second;
  }
  absl::StatusOr<VerifiedPlacement> verified = VerifyGrant(grant, trust_domain_, roots, now);
  if (!verified.ok()) return verified.status();
  auto placement = std::make_shared<const VerifiedPlacement>(*std::move(verified));
  absl::MutexLock lock(&mutex_);
  if (known_by_ != roots) return placement;
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.try_emplace(digest, placement);
  return placement;
}

}  // namespace capstan::auth
