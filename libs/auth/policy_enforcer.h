#ifndef CAPSTAN_LIBS_AUTH_POLICY_ENFORCER_H_
#define CAPSTAN_LIBS_AUTH_POLICY_ENFORCER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"

namespace capstan::auth {

// Puts each policy into force at once: ends the open calls whose callers it refuses, keeps its deny
// list in a file for the next start, and says how old it is. Also looks every second for calls
// whose certificate or policy has expired.
//
// Metrics, with the part's prefix:
//   policy_age_seconds    since the policy in force came in; of a kept one, since it was kept; -1
//                         before the first
//   policy_revision       its revision
//   policy_expired        1 while no policy decides about people
//   calls_revoked_total   open calls that were ended since their caller's right was gone
class PolicyEnforcer {
 public:
  struct Options {
    // Where the deny list is kept (0600); empty: nowhere.
    std::string file;
  };
  struct Deps {
    // All must outlive it.
    PolicyHolder* holder = nullptr;
    PolicyAccess* access = nullptr;
    // Its timers; file and calls are touched on whichever thread sets the policy.
    Strand* strand = nullptr;
    const log::Logger* log = nullptr;
    metrics::Registry* metrics = nullptr;
  };

  PolicyEnforcer(Options options, Deps deps);
  // On the strand, or after it has stopped.
  ~PolicyEnforcer();
  PolicyEnforcer(const PolicyEnforcer&) = delete;
  PolicyEnforcer& operator=(const PolicyEnforcer&) = delete;

  // Puts the kept deny list into force, if there is one and no policy yet: a part that starts while
  // credentials is away refuses whom it refused before. Before anything else uses the holder. A
  // file that cannot be read is an error, for then denials would be forgotten; remove it if
  // credentials can be reached.
  absl::Status LoadKept();
  // On the strand: begins.
  void Start();

 private:
  void Look();
  void Recheck();
  void Keep();

  const Options options_;
  const Deps deps_;
  metrics::Gauge age_;
  metrics::Gauge revision_;
  metrics::Gauge expired_;
  metrics::Counter revoked_;
  // What the file holds; touched by whoever sets the policy.
  std::string kept_;
  Strand::TimerId timer_ = 0;
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_POLICY_ENFORCER_H_
