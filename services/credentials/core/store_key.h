// Keys of credentials' records in its store; docs/store.md lists them.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_STORE_KEY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_STORE_KEY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan::credentials {

// All records that the engine mirrors and decides from lie below it.
inline constexpr char kKeyRoot[] = "/capstan/credentials/v1/";
// Schema version that every record is written with.
inline constexpr int kSchema = 1;

// Put by every transaction that changes a record, which also compares that nobody else has put it
// since: so replicas take turns, each on top of all that the others have committed.
inline constexpr char kTurnKey[] = "/capstan/credentials/v1/turn";
inline constexpr char kTrustDomainKey[] = "/capstan/credentials/v1/trust_domain";
inline constexpr char kPolicyHeadKey[] = "/capstan/credentials/v1/policy_head";
inline constexpr char kAuditHeadKey[] = "/capstan/credentials/v1/audit_head";
inline constexpr char kAuditPrefix[] = "/capstan/credentials/v1/audit/";
inline constexpr char kProjectPrefix[] = "/capstan/credentials/v1/project/";
inline constexpr char kRoleBindingPrefix[] = "/capstan/credentials/v1/role_binding/";
inline constexpr char kDenyPrefix[] = "/capstan/credentials/v1/deny/";
inline constexpr char kJoinTokenPrefix[] = "/capstan/credentials/v1/join_token/";
inline constexpr char kIssuedPrefix[] = "/capstan/credentials/v1/issued/";
inline constexpr char kPersonPrefix[] = "/capstan/credentials/v1/person/";
inline constexpr char kJwtKeysHeadKey[] = "/capstan/credentials/v1/jwt_keys_head";
inline constexpr char kJwtKeyPrefix[] = "/capstan/credentials/v1/jwt_key/";
inline constexpr char kRequestPrefix[] = "/capstan/credentials/v1/request/";

std::string AuditKey(int64_t sequence);
// `name` is `projects/{p}`.
std::string ProjectKey(absl::string_view name);
// `name` is `roleBindings/{b}` or `projects/{p}/roleBindings/{b}`.
std::string RoleBindingKey(absl::string_view name);
// Prefix of the bindings of a parent; "" is the trust domain.
std::string RoleBindingParentPrefix(absl::string_view parent);
std::string DeniedIdKey(absl::string_view spiffe_id);
std::string DeniedSerialKey(absl::string_view serial);
std::string JoinTokenKey(absl::string_view id);
std::string IssuedKey(absl::string_view serial);
std::string PersonKey(absl::string_view uid);
std::string JwtKeyKey(absl::string_view key_id);
// Principals hold `/`, so the key holds a digest of both.
std::string RequestKey(absl::string_view principal, absl::string_view request_id);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_STORE_KEY_H_
