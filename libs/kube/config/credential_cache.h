#ifndef CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CACHE_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CACHE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// A credential as it was fetched.
struct FetchedCredential {
  Credential credential;
  // By the wall clock, as issuers count.
  absl::Time expires = absl::InfiniteFuture();
};

// When the credential at hand may be given, and when another is to be fetched. Pure; for one
// thread, or under a lock of its owner's.
//
// - A credential is given while it is fresh: not older than `fresh_for`, not rejected, and with
// more
//   than the margin left before it expires.
// - A fetch that fails is followed by the next one after `first_wait`, twice that, and so on up to
//   `longest_wait`; meanwhile what is at hand and has not expired is given, else the error.
// - A first rejection asks for a fetch at once. If what that brings is rejected too, the waits are
//   as after failures, from when it was fetched: a server that refuses everybody does not make a
//   plugin run for each request.
class CredentialCache {
 public:
  struct Options {
    // On CLOCK_BOOTTIME.
    absl::Duration fresh_for = absl::InfiniteDuration();
    // Less of a fifth of its life, if that is short.
    absl::Duration margin = absl::ZeroDuration();
    absl::Duration first_wait = absl::Seconds(1);
    absl::Duration longest_wait = absl::Minutes(1);
  };
  enum class Answer { kGive, kFetch, kRefuse };

  explicit CredentialCache(const Options& options) : options_(options) {}

  // kGive: credential(). kRefuse: error(). kFetch: fetch and tell Fetched; until then Ask goes on
  // saying so.
  Answer Ask(const Now& now) const;
  // Of a fetch. `error` may be shown again and again until the next.
  void Fetched(absl::StatusOr<FetchedCredential> result, const Now& now);
  // Means nothing unless it is the one at hand.
  void Rejected(const Credential& credential, const Now& now);

  // After a fetch that did not fail.
  const Credential& credential() const { return held_->credential; }
  // Of the last fetch; with the delay after which the next is made.
  absl::Status Error(const Now& now) const;

 private:
  bool HasExpired(const Now& now) const { return held_->expires <= now.wall; }
  bool IsFresh(const Now& now) const;
  absl::Duration Wait(int times) const;

  const Options options_;
  absl::optional<FetchedCredential> held_;
  BootTime held_since_;
  // Of the one that is held.
  absl::Duration margin_;
  bool rejected_ = false;
  // In a row.
  int failures_ = 0;
  int rejections_ = 0;
  absl::Status error_;
  BootTime last_rejection_ = BootTime::InfinitePast();
  BootTime not_before_ = BootTime::InfinitePast();
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_CREDENTIAL_CACHE_H_
