#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_JWT_KEYRING_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_JWT_KEYRING_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// The algorithms that there is always a key for (RFC 7518): ES256 for ourselves, RS256 for clouds
// that take nothing else.
inline constexpr const char* kJwtAlgorithms[] = {"ES256", "RS256"};

struct JwtKeyConfig {
  // How long a key signs before the next one does.
  absl::Duration rotate_after = absl::Hours(24 * 30);
  // How long a key is published before it signs: longer than anyone keeps what was published.
  absl::Duration publish_before = absl::Hours(24);
  // No token lives longer.
  absl::Duration max_token_ttl = absl::Hours(1);
};

// The keys that sign JWT-SVIDs, and when they change. For each algorithm they follow one another:
// a key is published, then signs, then is published until the last token it may have signed is dead
// at every verifier. Which one signs follows from the stored times and `now` alone, so that nothing
// has to happen at the moment of the change.
//
// Times are the wall clock's, since verifiers compare tokens with theirs. A clock that steps back
// finds an older key signing again if it is still there, else the oldest: always a published one.
class JwtKeyring {
 public:
  // What verifiers' clocks may be behind, and the time that a token is under way.
  static constexpr absl::Duration kLinger = absl::Minutes(2);
  static constexpr absl::Duration kRetry = absl::Minutes(1);

  explicit JwtKeyring(const JwtKeyConfig& config) : config_(config) {}

  // Also of a key that another replica has made: it is no longer due here.
  void Load(const v1::JwtKeyRecord& record);
  void Load(const v1::JwtKeysHeadRecord& head) { sequence_ = head.sequence(); }

  // The key that signs now; null before the first one was made. Valid until the next change.
  const v1::JwtKeyRecord* Signer(const std::string& algorithm, absl::Time now) const;

  // The algorithms for which a key is to be made now. They are taken to be under way until Add or
  // Failed says otherwise.
  std::vector<std::string> TakeDue(absl::Time now);
  // The key could not be made; it is tried again after kRetry.
  void Failed(const std::string& algorithm, absl::Time now);
  // Whether a key that was made is still wanted: no other replica was faster.
  bool Wants(const std::string& algorithm, absl::Time now) const;
  // Takes a key that was made, decides when it signs, and stores it.
  void Add(v1::JwtKeyRecord record, absl::Time now, Step* step);
  // Deletes keys that nobody needs any more; true if there were any.
  bool Prune(absl::Time now, Step* step);

  // What no record holds: the keys being made, and when to try again.
  struct Unstored {
    std::set<std::string> making;
    std::map<std::string, absl::Time> retry;
  };
  Unstored unstored() const { return {making_, retry_}; }
  void Restore(Unstored unstored);

  // When TakeDue or Prune has something to do; InfiniteFuture before the first TakeDue.
  absl::Time NextChange() const;

  // All keys, ordered by algorithm, then by when they sign.
  std::vector<v1::JwtKeyRecord> keys() const;
  // What is published; changes with every key that comes or goes.
  JwtKeySet Published() const;

 private:
  // By when it signs, then id.
  using Line = std::map<std::pair<absl::Time, std::string>, v1::JwtKeyRecord>;

  absl::Time DueTime(const std::string& algorithm) const;
  // The same if nothing were under way or had failed.
  absl::Time WantedTime(const std::string& algorithm) const;
  absl::Time PruneTime(const Line& line) const;
  void StoreHead(Step* step);

  const JwtKeyConfig config_;
  int64_t sequence_ = 0;
  std::map<std::string, Line> lines_;
  std::set<std::string> making_;
  // After a failure, and for an algorithm that has no key yet.
  std::map<std::string, absl::Time> retry_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_JWT_KEYRING_H_
