#ifndef CAPSTAN_LIBS_AUTH_SPIFFE_ID_H_
#define CAPSTAN_LIBS_AUTH_SPIFFE_ID_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::auth {

// A SPIFFE id of one of the forms that Capstan gives out. Parsing is strict: what Parse accepts,
// ToString gives back byte for byte, so that ids may be compared as strings.
struct SpiffeId {
  enum class Kind {
    kService,         // /svc/<service>
    kExecutor,        // /executor/<cluster>
    kNode,            // /node/<cluster>/<node>
    kServiceAccount,  // /project/<p>/sa/<a>: subject of tokens for clouds, never of a certificate
    kTask,            // /project/<p>/sa/<a>/job/<uid>/gen/<n>/task/<group>-<i>
    kPerson,          // /person/<uid>
  };

  // Makes an id; the parts are not checked (Parse(id.ToString()) does).
  static SpiffeId Service(absl::string_view trust_domain, absl::string_view service);
  static SpiffeId Executor(absl::string_view trust_domain, absl::string_view cluster);
  static SpiffeId Node(absl::string_view trust_domain, absl::string_view cluster,
                       absl::string_view node);
  static SpiffeId ServiceAccount(absl::string_view trust_domain, absl::string_view project,
                                 absl::string_view service_account);
  static SpiffeId Task(absl::string_view trust_domain, absl::string_view project,
                       absl::string_view service_account, absl::string_view job_uid,
                       int64_t generation, absl::string_view group, int32_t index);
  static SpiffeId Person(absl::string_view trust_domain, absl::string_view uid);

  // Parses `spiffe://<trust domain><path>`, at most 2,048 bytes. INVALID_ARGUMENT with reason
  // INVALID_SPIFFE_ID for anything that is not exactly one of the forms above.
  static absl::StatusOr<SpiffeId> Parse(absl::string_view text);
  // Parses the path alone, e.g. `/svc/scheduler`.
  static absl::StatusOr<SpiffeId> ParsePath(absl::string_view trust_domain, absl::string_view path);

  std::string ToString() const;
  // From the first `/`.
  std::string Path() const;

  friend bool operator==(const SpiffeId&, const SpiffeId&) = default;

  Kind kind = Kind::kService;
  std::string trust_domain;
  // Those of the kind are set, the others empty.
  std::string service;
  std::string cluster;
  std::string node;
  std::string project;
  std::string service_account;
  std::string job_uid;
  int64_t generation = 0;
  std::string group;
  int32_t index = 0;
  std::string person;
};

// True for `[a-z0-9._-]{1,255}`.
bool IsTrustDomain(absl::string_view text);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_SPIFFE_ID_H_
