#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_TOKEN_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_TOKEN_H_

#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// What a token consists of, `<id>.<secret>.<bundle hash>`; see README.md.
struct JoinTokenParts {
  std::string id;
  std::string secret;
  std::string bundle_sha256;
};

// INVALID_ARGUMENT/INVALID_JOIN_TOKEN, without a word of the text, unless it has exactly that form.
absl::StatusOr<JoinTokenParts> ParseJoinToken(absl::string_view text);

// Makes tokens. Thread-safe.
class JoinTokenMaker {
 public:
  static constexpr absl::Duration kDefaultTtl = absl::Minutes(15);
  static constexpr absl::Duration kMaxTtl = absl::Hours(24);
  using Callback = absl::AnyInvocable<void(absl::StatusOr<v1::JoinToken>)>;

  // `bundle_sha256` is the trust bundle's, lower-case hex. The pointers must outlive it.
  JoinTokenMaker(EventSink* sink, SecretSource* secrets, std::string trust_domain,
                 std::string bundle_sha256)
      : sink_(sink),
        secrets_(secrets),
        trust_domain_(std::move(trust_domain)),
        bundle_sha256_(std::move(bundle_sha256)) {}

  // OK if a token may be made for the path: a service's, executor's or Node's, other than
  // credentials itself. Else INVALID_ARGUMENT with a violation of `path`.
  absl::Status Validate(absl::string_view path) const;

  // Makes a token for a path that was validated. The secret is in the answer and nowhere else.
  void Make(const std::string& principal, const std::string& path, absl::Duration ttl,
            Callback done);

  const std::string& trust_domain() const { return trust_domain_; }
  const std::string& bundle_sha256() const { return bundle_sha256_; }

 private:
  EventSink* const sink_;
  SecretSource* const secrets_;
  const std::string trust_domain_;
  const std::string bundle_sha256_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_TOKEN_H_
