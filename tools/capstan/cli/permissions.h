// Permissions as people ask for them: a verb and what it is done to.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PERMISSIONS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PERMISSIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::cli {

// `create` and `jobs`, `job` or `jobs/digits` → `jobs.create`; `role-bindings` → `roleBindings`.
// INVALID_ARGUMENT, reason NO_SUCH_PERMISSION, says which verbs or resources there are.
absl::StatusOr<std::string> PermissionOf(absl::string_view verb, absl::string_view resource);

// The collections that permissions are about, e.g. `jobs`, and all verbs, both sorted.
std::vector<std::string> PermissionResources();
std::vector<std::string> PermissionVerbs();

// Whether the permission is asked for in a project: Jobs lie in one, Nodes do not.
bool IsAskedInProject(absl::string_view permission);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PERMISSIONS_H_
