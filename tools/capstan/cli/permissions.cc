#include "tools/capstan/cli/permissions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "libs/auth/roles.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

// `roleBindings`, `role-bindings` and `RoleBindings` are one.
std::string Folded(absl::string_view word) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(word, {{"-", ""}, {"_", ""}}));
}

absl::Status NoSuch(absl::string_view found, const std::vector<std::string>& expected) {
  return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_PERMISSION",
                       absl::StrCat("found '", WithoutControls(found), "', expected one of ",
                                    absl::StrJoin(expected, ", ")));
}

std::pair<std::string, std::string> Split(const std::string& permission) {
  return absl::StrSplit(permission, absl::MaxSplits('.', 1));
}

}  // namespace

absl::StatusOr<std::string> PermissionOf(absl::string_view verb, absl::string_view resource) {
  const std::vector<absl::string_view> parts = absl::StrSplit(resource, absl::MaxSplits('/', 1));
  const std::string collection = Folded(parts.front());
  std::vector<std::string> verbs;
  for (const std::string& permission : auth::AllPermissions()) {
    const auto [known, known_verb] = Split(permission);
    if (Folded(known) != collection && Folded(known) != absl::StrCat(collection, "s")) continue;
    if (Folded(known_verb) == Folded(verb)) return permission;
    verbs.push_back(known_verb);
  }
  return verbs.empty() ? NoSuch(parts.front(), PermissionResources()) : NoSuch(verb, verbs);
}

std::vector<std::string> PermissionResources() {
  std::set<std::string> resources;
  for (const std::string& permission : auth::AllPermissions()) {
    resources.insert(Split(permission).first);
  }
  return {resources.begin(), resources.end()};
}

std::vector<std::string> PermissionVerbs() {
  std::set<std::string> verbs;
  for (const std::string& permission : auth::AllPermissions()) {
    verbs.insert(Split(permission).second);
  }
  return {verbs.begin(), verbs.end()};
}

bool IsAskedInProject(absl::string_view permission) {
  static const auto* const outside = new std::set<absl::string_view>{"auditRecords.list",
                                                                     "capacityOrders.create",
                                                                     "capacityOrders.delete",
                                                                     "capacityOrders.get",
                                                                     "clusters.get",
                                                                     "demand.get",
                                                                     "identities.deny",
                                                                     "joinTokens.create",
                                                                     "maintenanceWindows.create",
                                                                     "maintenanceWindows.delete",
                                                                     "nodes.cordon",
                                                                     "nodes.get",
                                                                     "projects.create",
                                                                     "projects.list",
                                                                     "queues.create",
                                                                     "queues.get",
                                                                     "queues.update"};
  return outside->count(permission) == 0;
}

}  // namespace capstan::cli
