#include "services/credentials/core/store_key.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/digest/sha256.h"

namespace capstan::credentials {

// Sixteen digits, so that byte order is numeric order.
std::string AuditKey(int64_t sequence) {
  return absl::StrCat(kAuditPrefix, absl::StrFormat("%016x", sequence));
}

std::string ProjectKey(absl::string_view name) {
  return absl::StrCat(kProjectPrefix, name.substr(sizeof("projects/") - 1));
}

std::string RoleBindingKey(absl::string_view name) {
  const size_t slash = name.rfind("roleBindings/");
  const absl::string_view parent = slash == 0 ? "" : name.substr(0, slash - 1);
  return absl::StrCat(RoleBindingParentPrefix(parent),
                      name.substr(slash + sizeof("roleBindings/") - 1));
}

std::string RoleBindingParentPrefix(absl::string_view parent) {
  return absl::StrCat(kRoleBindingPrefix, parent.empty() ? "trust_domain" : parent, "/");
}

std::string DeniedIdKey(absl::string_view spiffe_id) {
  return absl::StrCat(kDenyPrefix, "id/", spiffe_id);
}

std::string DeniedSerialKey(absl::string_view serial) {
  return absl::StrCat(kDenyPrefix, "serial/", serial);
}

std::string JoinTokenKey(absl::string_view id) { return absl::StrCat(kJoinTokenPrefix, id); }

std::string IssuedKey(absl::string_view serial) { return absl::StrCat(kIssuedPrefix, serial); }

std::string PersonKey(absl::string_view uid) { return absl::StrCat(kPersonPrefix, uid); }

std::string JwtKeyKey(absl::string_view key_id) { return absl::StrCat(kJwtKeyPrefix, key_id); }

std::string RequestKey(absl::string_view principal, absl::string_view request_id) {
  return absl::StrCat(kRequestPrefix, absl::BytesToHexString(
                                          Sha256::Of(absl::StrCat(principal, "\n", request_id))));
}

}  // namespace capstan::credentials
