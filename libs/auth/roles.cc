#include "libs/auth/roles.h"

#include <algorithm>
#include <array>

namespace capstan::auth {
namespace {

using Binding = credentials::v1::RoleBinding;

constexpr unsigned kAdmin = 1u << Binding::ROLE_ADMIN;
constexpr unsigned kOperator = 1u << Binding::ROLE_OPERATOR;
constexpr unsigned kResearcher = 1u << Binding::ROLE_RESEARCHER;
constexpr unsigned kViewer = 1u << Binding::ROLE_VIEWER;
constexpr unsigned kEveryone = kAdmin | kOperator | kResearcher | kViewer;

struct Row {
  absl::string_view permission;
  unsigned roles;
  PermissionScope scope = PermissionScope::kProject;
};

constexpr PermissionScope kAny = PermissionScope::kAnyProject;

// Sorted by permission.
constexpr auto kTable = std::to_array<Row>({
    {"auditRecords.list", kAdmin | kOperator},
    {"bundles.create", kAdmin | kResearcher, kAny},
    {"bundles.get", kEveryone, kAny},
    // Names Jobs of all Projects.
    {"capacityOrders.create", kAdmin | kOperator},
    {"capacityOrders.delete", kAdmin | kOperator},
    {"capacityOrders.get", kAdmin | kOperator},
    {"clusters.get", kEveryone, kAny},
    {"dataLoads.create", kAdmin | kResearcher},
    {"dataLoads.get", kEveryone},
    {"datasets.create", kAdmin | kResearcher},
    {"datasets.get", kEveryone},
    // Names Jobs of all Projects.
    {"demand.get", kAdmin | kOperator},
    {"identities.deny", kAdmin},
    {"jobs.cancel", kAdmin | kResearcher},
    {"jobs.create", kAdmin | kResearcher},
    {"jobs.exec", kAdmin | kResearcher},
    {"jobs.get", kEveryone},
    {"jobs.list", kEveryone},
    // Work for the scheduler, of use to who submits and to who adds and drains Nodes.
    {"jobs.simulate", kAdmin | kOperator | kResearcher},
    {"jobs.update", kAdmin | kResearcher},
    {"joinTokens.create", kAdmin | kOperator},
    {"logs.read", kEveryone},
    {"maintenanceWindows.create", kAdmin | kOperator},
    {"maintenanceWindows.delete", kAdmin | kOperator},
    {"nodes.cordon", kAdmin | kOperator},
    {"nodes.get", kEveryone, kAny},
    {"outputs.get", kEveryone},
    {"projects.create", kAdmin},
    {"projects.get", kEveryone},
    {"projects.list", kEveryone, kAny},
    {"queues.create", kAdmin | kOperator},
    {"queues.get", kEveryone, kAny},
    {"queues.update", kAdmin | kOperator},
    {"roleBindings.create", kAdmin},
    {"roleBindings.delete", kAdmin},
    {"roleBindings.get", kAdmin | kOperator | kResearcher},
    // To read by a subscription moves what others are shown: not for who only looks.
    {"subscriptions.create", kAdmin | kResearcher},
    {"subscriptions.read", kAdmin | kResearcher},
});

const Row* Find(absl::string_view permission) {
  const auto it = std::lower_bound(
      kTable.begin(), kTable.end(), permission,
      [](const Row& row, absl::string_view wanted) { return row.permission < wanted; });
  return it != kTable.end() && it->permission == permission ? &*it : nullptr;
}

}  // namespace

bool RoleGives(Binding::Role role, absl::string_view permission) {
  const Row* row = Find(permission);
  if (row == nullptr || role <= Binding::ROLE_UNSPECIFIED || role > Binding::ROLE_VIEWER) {
    return false;
  }
  return (row->roles & (1u << role)) != 0;
}

PermissionScope ScopeOf(absl::string_view permission) {
  const Row* row = Find(permission);
  return row == nullptr ? PermissionScope::kProject : row->scope;
}

std::vector<std::string> AllPermissions() {
  std::vector<std::string> result;
  for (const Row& row : kTable) result.emplace_back(row.permission);
  return result;
}

}  // namespace capstan::auth
