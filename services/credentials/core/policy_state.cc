#include "services/credentials/core/policy_state.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

absl::Status AlreadyExists(absl::string_view name) {
  return status::Error(absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS",
                       absl::StrCat("`", name, "` exists already; choose another id."),
                       {{"resource", std::string(name)}});
}

absl::Status TooMany(absl::string_view what, size_t limit) {
  return status::Error(
      absl::StatusCode::kResourceExhausted, "TOO_MANY",
      absl::StrCat("There are ", limit, " ", what, " already, the most there may be."),
      {{"limit", absl::StrCat(limit)}, {"what", std::string(what)}});
}

bool IsTrustDomainAdmin(const v1::RoleBinding& binding) {
  return binding.role() == v1::RoleBinding::ROLE_ADMIN &&
         absl::string_view(binding.name()).substr(0, 13) == "roleBindings/";
}

}  // namespace

void PolicyState::Load(const v1::ProjectRecord& record) {
  projects_[record.project().name()] = record.project();
}

void PolicyState::Load(const v1::RoleBindingRecord& record) {
  bindings_[record.role_binding().name()] = record.role_binding();
}

void PolicyState::Load(const v1::DenyRecord& record) {
  if (!record.spiffe_id().empty()) denied_ids_.insert(record.spiffe_id());
  if (!record.serial().empty()) denied_serials_.insert(record.serial());
}

void PolicyState::Raise(Step* step) {
  ++revision_;
  v1::PolicyHeadRecord head;
  head.set_schema(kSchema);
  head.set_revision(revision_);
  for (store::Put& put : step->puts) {
    if (put.key == kPolicyHeadKey) {
      put.value = head.SerializeAsString();
      return;
    }
  }
  step->puts.push_back({.key = kPolicyHeadKey, .value = head.SerializeAsString()});
}

absl::Status PolicyState::AddProject(const v1::Project& project, Step* step) {
  if (projects_.count(project.name()) > 0) return AlreadyExists(project.name());
  if (projects_.size() >= kMaxProjects) return TooMany("projects", kMaxProjects);
  v1::ProjectRecord record;
  record.set_schema(kSchema);
  *record.mutable_project() = project;
  step->puts.push_back({.key = ProjectKey(project.name()), .value = record.SerializeAsString()});
  projects_[project.name()] = project;
  Raise(step);
  return absl::OkStatus();
}

absl::Status PolicyState::AddRoleBinding(const v1::RoleBinding& binding, Step* step) {
  if (bindings_.count(binding.name()) > 0) return AlreadyExists(binding.name());
  if (bindings_.size() >= kMaxRoleBindings) return TooMany("role bindings", kMaxRoleBindings);
  v1::RoleBindingRecord record;
  record.set_schema(kSchema);
  *record.mutable_role_binding() = binding;
  step->puts.push_back(
      {.key = RoleBindingKey(binding.name()), .value = record.SerializeAsString()});
  bindings_[binding.name()] = binding;
  Raise(step);
  return absl::OkStatus();
}

absl::Status PolicyState::RemoveRoleBinding(const std::string& name, Step* step) {
  const auto it = bindings_.find(name);
  if (it == bindings_.end()) return status::NotFound(name);
  if (IsTrustDomainAdmin(it->second) && TrustDomainAdmins() == 1) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "LAST_ADMIN",
                         absl::StrCat("`", name,
                                      "` binds the last admin of the trust domain; bind "
                                      "another one first."),
                         {{"resource", name}});
  }
  step->deletes.push_back({.key = RoleBindingKey(name), .end = ""});
  bindings_.erase(it);
  Raise(step);
  return absl::OkStatus();
}

absl::Status PolicyState::Deny(const v1::DenyRecord& record, Step* step) {
  const bool by_id = !record.spiffe_id().empty();
  std::set<std::string>& denied = by_id ? denied_ids_ : denied_serials_;
  const std::string& value = by_id ? record.spiffe_id() : record.serial();
  if (denied.count(value) > 0) return absl::OkStatus();
  if (denied.size() >= kMaxDenied) return TooMany("denied identities", kMaxDenied);
  step->puts.push_back({.key = by_id ? DeniedIdKey(value) : DeniedSerialKey(value),
                        .value = record.SerializeAsString()});
  denied.insert(value);
  Raise(step);
  return absl::OkStatus();
}

absl::Status PolicyState::DeleteDenial(const std::string& spiffe_id, const std::string& serial,
                                       Step* step) {
  const bool by_id = !spiffe_id.empty();
  const std::string& value = by_id ? spiffe_id : serial;
  if ((by_id ? denied_ids_ : denied_serials_).erase(value) == 0) {
    return status::Error(absl::StatusCode::kNotFound, "NOT_DENIED",
                         absl::StrCat("The deny list has no entry of exactly `", value,
                                      "`; `capstan access denials` shows those it has."),
                         {{"denied", value}});
  }
  step->deletes.push_back({.key = by_id ? DeniedIdKey(value) : DeniedSerialKey(value), .end = ""});
  Raise(step);
  return absl::OkStatus();
}

const v1::Project* PolicyState::FindProject(const std::string& name) const {
  const auto it = projects_.find(name);
  return it == projects_.end() ? nullptr : &it->second;
}

const v1::RoleBinding* PolicyState::FindRoleBinding(const std::string& name) const {
  const auto it = bindings_.find(name);
  return it == bindings_.end() ? nullptr : &it->second;
}

bool PolicyState::IsDeniedId(absl::string_view spiffe_id) const {
  if (denied_ids_.count(std::string(spiffe_id)) > 0) return true;
  // Every prefix that ends in `/` is looked up, so the list's length does not matter.
  for (size_t slash = spiffe_id.find('/'); slash != absl::string_view::npos;
       slash = spiffe_id.find('/', slash + 1)) {
    if (denied_ids_.count(std::string(spiffe_id.substr(0, slash + 1))) > 0) return true;
  }
  return false;
}

v1::PolicySnapshot PolicyState::Snapshot(absl::Duration valid) const {
  v1::PolicySnapshot snapshot;
  snapshot.set_revision(revision_);
  for (const auto& [name, project] : projects_) *snapshot.add_projects() = project;
  for (const auto& [name, binding] : bindings_) *snapshot.add_role_bindings() = binding;
  for (const std::string& id : denied_ids_) snapshot.add_denied_ids(id);
  for (const std::string& serial : denied_serials_) snapshot.add_denied_serials(serial);
  snapshot.set_valid_seconds(absl::ToInt64Seconds(valid));
  return snapshot;
}

int PolicyState::TrustDomainAdmins() const {
  int admins = 0;
  for (const auto& [name, binding] : bindings_) admins += IsTrustDomainAdmin(binding) ? 1 : 0;
  return admins;
}

}  // namespace capstan::credentials
