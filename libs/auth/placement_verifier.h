#ifndef CAPSTAN_LIBS_AUTH_PLACEMENT_VERIFIER_H_
#define CAPSTAN_LIBS_AUTH_PLACEMENT_VERIFIER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/auth/placement_grant.h"

namespace capstan::auth {

// Verifies the grants that Nodes show, and remembers which hold: a Node shows the same one for as
// long as its Task lives, and verifying takes longer than the rest of a small call. Thread-safe.
class PlacementVerifier {
 public:
  // DER roots of the trust bundle as they are now; called for each grant, on any thread.
  using Roots = std::function<std::vector<std::string>()>;

  PlacementVerifier(std::string trust_domain, Roots roots);

  // As VerifyGrant.
  absl::StatusOr<std::shared_ptr<const VerifiedPlacement>> Verify(const std::string& grant,
                                                                  absl::Time now);

 private:
  // Of less than 1 KiB each; when there are more, all are verified anew.
  static constexpr size_t kMaxKnown = 65536;

  const std::string trust_domain_;
  const Roots roots_;
  absl::Mutex mutex_;
  // By which the known ones hold.
  std::vector<std::string> known_by_ ABSL_GUARDED_BY(mutex_);
  // By the SHA-256 of the grant.
  absl::flat_hash_map<std::string, std::shared_ptr<const VerifiedPlacement>> known_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_PLACEMENT_VERIFIER_H_
