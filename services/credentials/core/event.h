// What goes into the core of credentials, and what comes out.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_EVENT_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/auth/spiffe_id.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/record.pb.h"

namespace capstan::credentials {

// Identifies the caller that waits for an answer; 0 waits for none. Never stored.
using CallId = uint64_t;

// Principals that no certificate names.
inline constexpr char kAnonymous[] = "anonymous";
inline constexpr char kSupervisor[] = "supervisor";

// A public key that may be certified: its request's signature has been verified and its type and
// size are allowed.
struct CertifiableKey {
  // DER SubjectPublicKeyInfo.
  std::string spki;
  // Random serial for the certificate, 32 lower-case hex digits, never used before.
  std::string serial;
};

// The first run: nothing is stored yet.
struct FirstRun {
  v1::TrustDomainRecord trust_domain;
  // Unix uid that becomes admin of the trust domain.
  absl::optional<int64_t> admin_uid;
  // UUID4 of Project `default`.
  std::string project_uid;
};

struct CreateJoinToken {
  CallId call = 0;
  // SPIFFE id, or kSupervisor.
  std::string principal;
  // A service, executor or Node.
  auth::SpiffeId identity;
  absl::Duration ttl;
  // 32 hex digits, random.
  std::string token_id;
  // Of the secret's text.
  std::string secret_sha256;
};

struct Join {
  CallId call = 0;
  std::string token_id;
  std::string secret_sha256;
  CertifiableKey key;
};

// Renewal of the caller's own SVID.
struct RenewSvid {
  CallId call = 0;
  auth::SpiffeId identity;
  // Serial of the certificate that the caller showed.
  std::string serial;
  CertifiableKey key;
};

struct IssueTaskSvid {
  CallId call = 0;
  // The calling Node.
  auth::SpiffeId node;
  std::string serial;
  auth::SpiffeId task;
  CertifiableKey key;
};

struct IssueTaskJwt {
  CallId call = 0;
  // The calling Node.
  auth::SpiffeId node;
  std::string serial;
  auth::SpiffeId task;
  // `projects/{p}/jobs/{j}`, as the Node says.
  std::string job;
  // Checked: 1 to 8.
  std::vector<std::string> audiences;
  absl::Duration ttl;
  // The subject is the Task's service account instead of the Task.
  bool as_service_account = false;
  // One of kJwtAlgorithms.
  std::string algorithm;
  // For the claim `jti`, random.
  std::string token_id;
};

// What came of MakeJwtKey.
struct JwtKeyMade {
  std::string algorithm;
  // Its times and schema are the core's to set.
  absl::StatusOr<v1::JwtKeyRecord> record;
};

struct IssuePersonSvid {
  CallId call = 0;
  // As the kernel reports it.
  int64_t unix_uid = -1;
  CertifiableKey key;
};

// The service's own SVID, `/svc/credentials`.
struct IssueOwnSvid {
  CallId call = 0;
  CertifiableKey key;
};

// Common to the writes of people that carry a request_id.
struct RequestIdentity {
  std::string principal;
  // Empty: not idempotent.
  std::string request_id;
  std::string body_sha256;
};

struct CreateProject {
  CallId call = 0;
  RequestIdentity request;
  std::string project_id;
  std::string display_name;
  // UUID4 for the new Project.
  std::string uid;
};

struct CreateRoleBinding {
  CallId call = 0;
  RequestIdentity request;
  // `projects/{p}`, or empty for the trust domain.
  std::string parent;
  std::string role_binding_id;
  std::string member;
  v1::RoleBinding::Role role = v1::RoleBinding::ROLE_UNSPECIFIED;
};

struct DeleteRoleBinding {
  CallId call = 0;
  std::string principal;
  std::string name;
};

// Exactly one of spiffe_id and serial is set.
struct DenyIdentity {
  CallId call = 0;
  std::string principal;
  // Full id, or full prefix ending in `/`.
  std::string spiffe_id;
  std::string serial;
  std::string reason;
};

// Takes a denial back. Exactly one of spiffe_id and serial is set.
struct DeleteDenial {
  CallId call = 0;
  std::string principal;
  // As in DenyIdentity.
  std::string spiffe_id;
  std::string serial;
  std::string reason;
};

// An act or refusal outside the core, whose record belongs to the chain all the same.
struct RecordAct {
  CallId call = 0;
  std::string principal;
  std::string act;
  std::string resource;
  int outcome_code = 0;
  // Without secrets.
  std::string message;
  // Of those that repeated it.
  int64_t repeats = 0;
};

// Time has passed; sent at NextDeadline() or later.
struct Tick {
  // True at the end of the process: open windows of repeated refusals are closed early.
  bool flush = false;
};

using Event =
    std::variant<FirstRun, CreateJoinToken, Join, RenewSvid, IssueTaskSvid, IssueTaskJwt,
                 JwtKeyMade, IssuePersonSvid, IssueOwnSvid, CreateProject, CreateRoleBinding,
                 DeleteRoleBinding, DenyIdentity, DeleteDenial, RecordAct, Tick>;

// A certificate to be signed: everything about it is decided and recorded.
struct IssueOrder {
  std::string spiffe_id;
  std::string spki;
  std::string serial;
  absl::Time not_before;
  absl::Time not_after;
};

// A JWT-SVID to be signed: everything about it is decided and recorded.
struct JwtOrder {
  std::string key_id;
  std::string subject;
  std::vector<std::string> audiences;
  absl::Time issued_at;
  absl::Time expires;
  std::string id;
  std::string job;
  // Whose subject and attributes it bears.
  auth::SpiffeId task;
};

struct TokenMade {
  std::string spiffe_id;
  absl::Time expire_time;
};

struct Done {};

using Outcome = std::variant<Done, IssueOrder, JwtOrder, TokenMade, v1::Project, v1::RoleBinding>;

// Answers a call.
struct Reply {
  CallId call = 0;
  absl::StatusOr<Outcome> outcome;
};

// Gives the committed policy to those who watch it.
struct PublishPolicy {
  std::shared_ptr<const v1::PolicySnapshot> snapshot;
};

// The public keys that JWT-SVIDs are verified with.
struct JwtKeySet {
  // Rises with every change.
  int64_t sequence = 0;
  std::vector<std::string> public_jwks;
  // After how long to look again at the latest.
  absl::Duration refresh_hint;
};

// Gives the committed keys to those who verify.
struct PublishJwtKeys {
  std::shared_ptr<const JwtKeySet> keys;
};

// Makes a key, which JwtKeyMade then brings.
struct MakeJwtKey {
  std::string algorithm;
};

using Effect = std::variant<Reply, PublishPolicy, PublishJwtKeys, MakeJwtKey>;

// What an event leads to. `puts` and `deletes` form one transaction; `after` is carried out, in
// order, only once it and all earlier ones are committed.
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<Effect> after;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_EVENT_H_
