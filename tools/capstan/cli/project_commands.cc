#include "tools/capstan/cli/project_commands.h"

#include <pwd.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using credentials::v1::CreateProjectRequest;
using credentials::v1::CreateRoleBindingRequest;
using credentials::v1::DeleteRoleBindingRequest;
using credentials::v1::GetProjectRequest;
using credentials::v1::ListProjectsRequest;
using credentials::v1::ListProjectsResponse;
using credentials::v1::ListRoleBindingsRequest;
using credentials::v1::ListRoleBindingsResponse;
using credentials::v1::Project;
using credentials::v1::ProjectService;
using credentials::v1::RoleBinding;

absl::StatusOr<std::string> Member(const std::string& given) {
  const absl::string_view bare = absl::StripPrefix(given, "person/");
  uint32_t uid = 0;
  if (absl::SimpleAtoi(bare, &uid)) return absl::StrCat("person/", uid);
  if (const passwd* user = getpwnam(std::string(bare).c_str())) {
    return absl::StrCat("person/", user->pw_uid);
  }
  return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_USER",
                       absl::StrCat("'", given, "' is neither a uid nor a user of this machine"),
                       {{"member", given}});
}

absl::StatusOr<RoleBinding::Role> ParseRole(const std::string& given) {
  RoleBinding::Role role = RoleBinding::ROLE_UNSPECIFIED;
  if (!RoleBinding::Role_Parse(absl::StrCat("ROLE_", absl::AsciiStrToUpper(given)), &role) ||
      role == RoleBinding::ROLE_UNSPECIFIED) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_ROLE",
                         absl::StrCat("'", given,
                                      "' is no role; admin, operator, researcher and "
                                      "viewer are"),
                         {{"role", given}});
  }
  return role;
}

absl::StatusOr<std::vector<RoleBinding>> AllRoles(bool everywhere, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  ListRoleBindingsRequest request;
  if (!everywhere) request.set_parent(ProjectParent(invocation.project));
  return ListAll(projects.stub.get(), &ProjectService::Stub::ListRoleBindings, request,
                 &ListRoleBindingsResponse::mutable_role_bindings, Terms(invocation));
}

std::string BindingName(const std::string& name, bool everywhere, const Invocation& invocation) {
  if (everywhere && !absl::StrContains(name, "/")) return absl::StrCat("roleBindings/", name);
  return InProject(invocation.project, "roleBindings", name);
}

}  // namespace

absl::Status CreateProject(const std::string& id, const std::string& display_name,
                           Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  CreateProjectRequest request;
  request.set_project_id(id);
  request.set_request_id(invocation.random->Uuid4());
  request.mutable_project()->set_display_name(display_name);
  CAPSTAN_ASSIGN_OR_RETURN(
      const Project project,
      Call(projects.stub.get(), &ProjectService::Stub::CreateProject, request, Terms(invocation)));
  return PrintResource<Project>(invocation, project, [](const Project& made) {
    return absl::StrCat(made.name(), " created\n");
  });
}

absl::Status GetProject(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  GetProjectRequest request;
  request.set_name(ProjectParent(name));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Project project,
      Call(projects.stub.get(), &ProjectService::Stub::GetProject, request, Terms(invocation)));
  return PrintResource<Project>(invocation, project, [&](const Project& shown) {
    return absl::StrCat("Name:          ", shown.name(),
                        "\nDisplay name:  ", WithoutControls(shown.display_name()),
                        "\nUid:           ", shown.uid(), "\nAge:           ",
                        HumanAge(ToTime(shown.create_time()), invocation.clock->Read().wall), "\n");
  });
}

absl::Status ListProjects(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  ListProjectsRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all, ListAll(projects.stub.get(), &ProjectService::Stub::ListProjects, request,
                              &ListProjectsResponse::mutable_projects, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<Project>(
      invocation, "projects", all,
      {{"NAME", [](const Project& project) { return LastSegment(project.name()); }},
       {"DISPLAY NAME", [](const Project& project) { return project.display_name(); }},
       {"AGE",
        [now](const Project& project) { return HumanAge(ToTime(project.create_time()), now); }},
       {"UID", [](const Project& project) { return project.uid(); }, /*wide=*/true}});
}

absl::Status BindRole(const BindRoleOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string member, Member(options.member));
  CAPSTAN_ASSIGN_OR_RETURN(const RoleBinding::Role role, ParseRole(options.role));
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  CreateRoleBindingRequest request;
  if (!options.everywhere) request.set_parent(ProjectParent(invocation.project));
  request.set_role_binding_id(options.id.empty()
                                  ? absl::StrCat(absl::AsciiStrToLower(options.role), "-",
                                                 absl::StrReplaceAll(member, {{"/", "-"}}))
                                  : options.id);
  request.set_request_id(invocation.random->Uuid4());
  request.mutable_role_binding()->set_member(member);
  request.mutable_role_binding()->set_role(role);
  CAPSTAN_ASSIGN_OR_RETURN(const RoleBinding binding,
                           Call(projects.stub.get(), &ProjectService::Stub::CreateRoleBinding,
                                request, Terms(invocation)));
  return PrintResource<RoleBinding>(invocation, binding, [](const RoleBinding& made) {
    return absl::StrCat(made.name(), " created\n");
  });
}

absl::Status UnbindRole(const std::string& name, bool everywhere, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto projects, Connect<ProjectService>(invocation, "credentials"));
  DeleteRoleBindingRequest request;
  request.set_name(BindingName(name, everywhere, invocation));
  CAPSTAN_RETURN_IF_ERROR(Call(projects.stub.get(), &ProjectService::Stub::DeleteRoleBinding,
                               request, Terms(invocation))
                              .status());
  *invocation.out << request.name() << " deleted\n";
  return absl::OkStatus();
}

absl::Status ListRoles(bool everywhere, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<RoleBinding> all, AllRoles(everywhere, invocation));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<RoleBinding>(
      invocation, "role_bindings", all,
      {{"NAME", [](const RoleBinding& binding) { return binding.name(); }},
       {"MEMBER", [](const RoleBinding& binding) { return binding.member(); }},
       {"ROLE",
        [](const RoleBinding& binding) {
          return absl::AsciiStrToLower(ShortEnum(RoleBinding::Role_Name(binding.role()), "ROLE_"));
        }},
       {"AGE", [now](const RoleBinding& binding) {
          return HumanAge(ToTime(binding.create_time()), now);
        }}});
}

absl::Status GetRole(const std::string& name, bool everywhere, Invocation& invocation) {
  const std::string whole = BindingName(name, everywhere, invocation);
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<RoleBinding> all,
                           AllRoles(absl::StartsWith(whole, "roleBindings/"), invocation));
  for (const RoleBinding& binding : all) {
    if (binding.name() != whole) continue;
    return PrintResource<RoleBinding>(invocation, binding, [](const RoleBinding& shown) {
      return absl::StrCat(
          shown.name(), ": ", shown.member(), " is ",
          absl::AsciiStrToLower(ShortEnum(RoleBinding::Role_Name(shown.role()), "ROLE_")), "\n");
    });
  }
  return status::Error(absl::StatusCode::kNotFound, "NO_SUCH_BINDING",
                       absl::StrCat("there is no ", whole, "; `capstan role list` shows them"),
                       {{"name", whole}});
}

}  // namespace capstan::cli
