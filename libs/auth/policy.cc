#include "libs/auth/policy.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/roles.h"

namespace capstan::auth {
namespace {

constexpr absl::string_view kPersonPrefix = "person/";
constexpr absl::string_view kDomainBindings = "roleBindings/";

// True if `path` or one of the `…/` above it is in `denied`.
bool MatchesPath(const absl::flat_hash_set<std::string>& denied, absl::string_view path,
                 size_t first_slash) {
  if (denied.contains(path)) return true;
  for (size_t slash = path.find('/', first_slash); slash != absl::string_view::npos;
       slash = path.find('/', slash + 1)) {
    if (denied.contains(path.substr(0, slash + 1))) return true;
  }
  return false;
}

}  // namespace

Policy::Policy(const credentials::v1::PolicySnapshot& snapshot, BootTime received)
    : revision_(snapshot.revision()),
      received_(received),
      expires_(received + absl::Seconds(snapshot.valid_seconds())),
      denied_ids_(snapshot.denied_ids().begin(), snapshot.denied_ids().end()),
      denied_serials_(snapshot.denied_serials().begin(), snapshot.denied_serials().end()) {
  for (const credentials::v1::Project& project : snapshot.projects()) {
    projects_.emplace(ProjectOf(project.name()));
  }
  for (const credentials::v1::RoleBinding& binding : snapshot.role_bindings()) {
    absl::string_view member = binding.member();
    if (!absl::ConsumePrefix(&member, kPersonPrefix)) continue;
    const absl::string_view name = binding.name();
    const absl::string_view project = ProjectOf(name);
    // What is no binding's name must not pass for one of the whole trust domain.
    if (project.empty() && !absl::StartsWith(name, kDomainBindings)) continue;
    bindings_[member].push_back({std::string(project), binding.role()});
  }
}

std::shared_ptr<const Policy> Policy::Kept(const credentials::v1::PolicySnapshot& snapshot,
                                           BootTime received) {
  credentials::v1::PolicySnapshot denials;
  denials.set_revision(snapshot.revision());
  *denials.mutable_denied_ids() = snapshot.denied_ids();
  *denials.mutable_denied_serials() = snapshot.denied_serials();
  auto policy = std::make_shared<Policy>(denials, received);
  policy->expires_ = BootTime::InfinitePast();
  return policy;
}

credentials::v1::PolicySnapshot Policy::Denials() const {
  credentials::v1::PolicySnapshot denials;
  denials.set_revision(revision_);
  for (const std::string& id : denied_ids_) denials.add_denied_ids(id);
  for (const std::string& serial : denied_serials_) denials.add_denied_serials(serial);
  std::sort(denials.mutable_denied_ids()->begin(), denials.mutable_denied_ids()->end());
  std::sort(denials.mutable_denied_serials()->begin(), denials.mutable_denied_serials()->end());
  return denials;
}

bool Policy::IsDenied(const SpiffeId& id, absl::string_view serial) const {
  if (!serial.empty() && denied_serials_.contains(serial)) return true;
  if (denied_ids_.empty()) return false;
  const std::string full = id.ToString();
  const std::string path = id.Path();
  return MatchesPath(denied_ids_, full, full.size() - path.size()) ||
         MatchesPath(denied_ids_, path, 0);
}

bool Policy::Gives(absl::string_view person, absl::string_view permission,
                   absl::string_view project) const {
  const auto it = bindings_.find(person);
  if (it == bindings_.end()) return false;
  const bool any_project = project.empty() && ScopeOf(permission) == PermissionScope::kAnyProject;
  for (const Binding& binding : it->second) {
    if (!RoleGives(binding.role, permission)) continue;
    if (binding.project.empty() || any_project) return true;
    if (!project.empty() && binding.project == project) return true;
  }
  return false;
}

bool Policy::HasProject(absl::string_view project) const { return projects_.contains(project); }

std::vector<std::string> Policy::ProjectsWith(absl::string_view person,
                                              absl::string_view permission,
                                              bool* everywhere) const {
  *everywhere = false;
  std::vector<std::string> result;
  const auto it = bindings_.find(person);
  if (it == bindings_.end()) return result;
  for (const Binding& binding : it->second) {
    if (!RoleGives(binding.role, permission)) continue;
    if (binding.project.empty()) {
      *everywhere = true;
    } else {
      result.push_back(binding.project);
    }
  }
  return result;
}

std::vector<Policy::Binding> Policy::RolesOf(absl::string_view person) const {
  const auto it = bindings_.find(person);
  if (it == bindings_.end()) return {};
  std::vector<Binding> held = it->second;
  std::sort(held.begin(), held.end(), [](const Binding& a, const Binding& b) {
    return std::tie(a.project, a.role) < std::tie(b.project, b.role);
  });
  return held;
}

void PolicyHolder::Set(std::shared_ptr<const Policy> policy) {
  {
    absl::MutexLock lock(&mutex_);
    policy_.swap(policy);
  }
  absl::MutexLock lock(&observer_mutex_);
  if (changed_) changed_();
}

void PolicyHolder::OnChange(std::function<void()> changed) {
  absl::MutexLock lock(&observer_mutex_);
  changed_ = std::move(changed);
}

std::shared_ptr<const Policy> PolicyHolder::Get() const {
  absl::ReaderMutexLock lock(&mutex_);
  return policy_;
}

}  // namespace capstan::auth
