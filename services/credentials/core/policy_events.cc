// What credentials decides about Projects, role bindings and denials.
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

v1::Project MakeProject(absl::string_view id, absl::string_view display_name, absl::string_view uid,
                        const Now& now) {
  v1::Project project;
  project.set_name(absl::StrCat("projects/", id));
  project.set_uid(std::string(uid));
  project.set_display_name(std::string(display_name));
  *project.mutable_create_time() = ToProto(now.wall);
  // A digest of the content makes a strong entity tag: equal content, equal tag.
  project.set_etag(absl::StrCat(
      "\"", absl::BytesToHexString(Sha256::Of(project.SerializeAsString()).substr(0, 8)), "\""));
  return project;
}

// True if denying `denied` (an id, or a prefix ending in `/`) denies `spiffe_id`.
bool Covers(absl::string_view denied, absl::string_view spiffe_id) {
  return denied == spiffe_id ||
         (absl::EndsWith(denied, "/") && absl::StartsWith(spiffe_id, denied));
}

}  // namespace

Step CredentialsCore::On(const FirstRun& event, const Now& now) {
  Step step;
  trust_domain_ = event.trust_domain;
  step.puts.push_back({.key = kTrustDomainKey, .value = event.trust_domain.SerializeAsString()});
  const std::string own_id = IdOf("/svc/credentials");
  // The store is empty, so neither can fail.
  policy_.AddProject(MakeProject("default", "Default", event.project_uid, now), &step)
      .IgnoreError();
  std::string message = "Made the trust domain and Project `default`.";
  if (event.admin_uid.has_value()) {
    v1::RoleBinding binding;
    binding.set_name("roleBindings/first-admin");
    binding.set_member(absl::StrCat("person/", *event.admin_uid));
    binding.set_role(v1::RoleBinding::ROLE_ADMIN);
    *binding.mutable_create_time() = ToProto(now.wall);
    policy_.AddRoleBinding(binding, &step).IgnoreError();
    absl::StrAppend(&message, " Bound `", binding.member(), "` as its admin.");
  }
  Audit(own_id, act::kFirstRun, absl::StrCat("spiffe://", trust_domain_->name()), message, now,
        &step);
  Publish(&step);
  return step;
}

Step CredentialsCore::On(const CreateProject& event, const Now& now) {
  const std::string name = absl::StrCat("projects/", event.project_id);
  if (auto repeated = Repeated(event.request); repeated.has_value()) {
    Step step;
    step.after.push_back(Reply{event.call, *std::move(repeated)});
    return step;
  }
  Step step;
  v1::Project project = MakeProject(event.project_id, event.display_name, event.uid, now);
  if (absl::Status added = policy_.AddProject(project, &step); !added.ok()) {
    return Refuse(event.call, event.request.principal, act::kCreateProject, name, added,
                  std::string(added.message()), now);
  }
  Remember(event.request, name, now, &step);
  Audit(event.request.principal, act::kCreateProject, name, "Made the Project.", now, &step);
  Publish(&step);
  step.after.push_back(Reply{event.call, Outcome(std::move(project))});
  return step;
}

Step CredentialsCore::On(const CreateRoleBinding& event, const Now& now) {
  const std::string name = absl::StrCat(event.parent, event.parent.empty() ? "" : "/",
                                        "roleBindings/", event.role_binding_id);
  if (auto repeated = Repeated(event.request); repeated.has_value()) {
    Step step;
    step.after.push_back(Reply{event.call, *std::move(repeated)});
    return step;
  }
  const auto refuse = [&](const absl::Status& answer) {
    return Refuse(event.call, event.request.principal, act::kCreateRoleBinding, name, answer,
                  std::string(answer.message()), now);
  };
  if (!event.parent.empty() && policy_.FindProject(event.parent) == nullptr) {
    return refuse(status::NotFound(event.parent));
  }
  v1::RoleBinding binding;
  binding.set_name(name);
  binding.set_member(event.member);
  binding.set_role(event.role);
  *binding.mutable_create_time() = ToProto(now.wall);
  Step step;
  if (absl::Status added = policy_.AddRoleBinding(binding, &step); !added.ok()) {
    return refuse(added);
  }
  Remember(event.request, name, now, &step);
  Audit(event.request.principal, act::kCreateRoleBinding, name,
        absl::StrCat("Bound `", event.member, "` as ", v1::RoleBinding::Role_Name(event.role), "."),
        now, &step);
  Publish(&step);
  step.after.push_back(Reply{event.call, Outcome(std::move(binding))});
  return step;
}

Step CredentialsCore::On(const DeleteRoleBinding& event, const Now& now) {
  Step step;
  if (absl::Status removed = policy_.RemoveRoleBinding(event.name, &step); !removed.ok()) {
    return Refuse(event.call, event.principal, act::kDeleteRoleBinding, event.name, removed,
                  std::string(removed.message()), now);
  }
  Audit(event.principal, act::kDeleteRoleBinding, event.name, "Removed the role binding.", now,
        &step);
  Publish(&step);
  step.after.push_back(Reply{event.call, Outcome(Done{})});
  return step;
}

Step CredentialsCore::On(const DenyIdentity& event, const Now& now) {
  const bool by_id = !event.spiffe_id.empty();
  const std::string& denied = by_id ? event.spiffe_id : event.serial;
  const auto refuse = [&](const absl::Status& answer) {
    return Refuse(event.call, event.principal, act::kDenyIdentity, denied, answer,
                  std::string(answer.message()), now);
  };
  // Whoever is denied can't take the denial back, so these two would end the trust domain or the
  // caller's own right to say anything more.
  if (by_id && Covers(denied, IdOf("/svc/credentials"))) {
    return refuse(status::Error(absl::StatusCode::kFailedPrecondition, "DENIES_CREDENTIALS",
                                absl::StrCat("`", denied,
                                             "` covers credentials itself, without "
                                             "which no identity can be renewed."),
                                {{"spiffe_id", denied}}));
  }
  if (by_id && Covers(denied, event.principal)) {
    return refuse(status::Error(absl::StatusCode::kFailedPrecondition, "DENIES_CALLER",
                                absl::StrCat("`", denied,
                                             "` covers the caller; let another admin "
                                             "do it."),
                                {{"spiffe_id", denied}}));
  }
  v1::DenyRecord record;
  record.set_schema(kSchema);
  record.set_spiffe_id(event.spiffe_id);
  record.set_serial(event.serial);
  record.set_reason(event.reason);
  record.set_principal(event.principal);
  *record.mutable_create_time() = ToProto(now.wall);
  Step step;
  if (absl::Status added = policy_.Deny(record, &step); !added.ok()) return refuse(added);
  Audit(event.principal, act::kDenyIdentity, denied,
        absl::StrCat("Denied from now on. Reason given: ", event.reason), now, &step);
  Publish(&step);
  step.after.push_back(Reply{event.call, Outcome(Done{})});
  return step;
}

Step CredentialsCore::On(const DeleteDenial& event, const Now& now) {
  const std::string& denied = event.spiffe_id.empty() ? event.serial : event.spiffe_id;
  Step step;
  if (absl::Status removed = policy_.DeleteDenial(event.spiffe_id, event.serial, &step);
      !removed.ok()) {
    return Refuse(event.call, event.principal, act::kDeleteDenial, denied, removed,
                  std::string(removed.message()), now);
  }
  Audit(event.principal, act::kDeleteDenial, denied,
        absl::StrCat("No longer denied. Reason given: ", event.reason), now, &step);
  Publish(&step);
  step.after.push_back(Reply{event.call, Outcome(Done{})});
  return step;
}

}  // namespace capstan::credentials
