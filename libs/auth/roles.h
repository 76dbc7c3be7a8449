#ifndef CAPSTAN_LIBS_AUTH_ROLES_H_
#define CAPSTAN_LIBS_AUTH_ROLES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::auth {

// Where a permission must have been given.
enum class PermissionScope {
  // In the resource's project, or in the whole trust domain.
  kProject,
  // In the resource's project if it has one, else in any project: for what projects share, such as
  // queues and content-addressed bundles.
  kAnyProject,
};

// The built-in table of roles and permissions. A permission that is not in it is given to no one.
bool RoleGives(credentials::v1::RoleBinding::Role role, absl::string_view permission);
PermissionScope ScopeOf(absl::string_view permission);
// All permissions of the table, sorted.
std::vector<std::string> AllPermissions();

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_ROLES_H_
