#include "tools/capstan/cli/access_commands.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/auth/roles.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/cli/v1/identity.pb.h"
#include "proto/capstan/credentials/v1/access_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/denial.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/permissions.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using credentials::v1::AccessService;
using credentials::v1::CallerAccess;
using credentials::v1::CreateJoinTokenRequest;
using credentials::v1::DeleteDenialRequest;
using credentials::v1::Denial;
using credentials::v1::DenialService;
using credentials::v1::DenyIdentityRequest;
using credentials::v1::GetCallerAccessRequest;
using credentials::v1::GetTrustBundleRequest;
using credentials::v1::IdentityService;
using credentials::v1::JoinToken;
using credentials::v1::JoinTokenService;
using credentials::v1::ListDenialsRequest;
using credentials::v1::ListDenialsResponse;
using credentials::v1::PolicyService;
using credentials::v1::RoleBinding;
using credentials::v1::TestPermissionsRequest;
using credentials::v1::TestPermissionsResponse;
using credentials::v1::TrustBundle;

std::string DescribeIdentity(const v1::Identity& identity, absl::Time now) {
  std::string out = absl::StrCat("You are:    ", identity.name(), "\n");
  if (identity.roles().empty()) absl::StrAppend(&out, "Roles:      none that are known\n");
  for (const CallerAccess::HeldRole& held : identity.roles()) {
    absl::StrAppend(&out, "Role:       ",
                    absl::AsciiStrToLower(ShortEnum(RoleBinding::Role_Name(held.role()), "ROLE_")),
                    " in ", held.project().empty() ? "every project" : LastSegment(held.project()),
                    "\n");
  }
  const absl::Time end = ToTime(identity.expire_time());
  absl::StrAppend(&out,
                  "SVID ends:  ", absl::FormatTime(absl::RFC3339_sec, end, absl::UTCTimeZone()),
                  ", in ", HumanDuration(end - now), "; renewed when needed\n");
  absl::StrAppend(&out, "Serial:     ", identity.serial(), "\n");
  absl::StrAppend(&out, "Issued by:  ", identity.issued_by(), ", for your uid on this machine\n");
  absl::StrAppend(&out, "Kept in:    ", identity.svid_file(), "\n");
  return out;
}

absl::StatusOr<std::vector<std::string>> Held(AccessService::Stub* stub,
                                              const std::string& resource,
                                              const std::vector<std::string>& permissions,
                                              const Invocation& invocation) {
  TestPermissionsRequest request;
  request.set_resource(resource);
  for (const std::string& permission : permissions) request.add_permissions(permission);
  CAPSTAN_ASSIGN_OR_RETURN(
      const TestPermissionsResponse response,
      Call(stub, &AccessService::Stub::TestPermissions, request, Terms(invocation)));
  return std::vector<std::string>(response.permissions().begin(), response.permissions().end());
}

absl::Status CheckNamesOne(const DenyOptions& options) {
  if (options.identity.empty() != options.serial.empty()) return absl::OkStatus();
  return status::Error(absl::StatusCode::kInvalidArgument, "NOTHING_TO_DENY",
                       "expected either an identity or --serial, and one of them");
}

std::string DescribeBundle(const TrustBundle& bundle) {
  std::string out;
  for (const std::string& root : bundle.roots()) {
    const std::string base64 = absl::Base64Escape(root);
    absl::StrAppend(&out, "-----BEGIN CERTIFICATE-----\n");
    for (size_t at = 0; at < base64.size(); at += 64) {
      absl::StrAppend(&out, base64.substr(at, 64), "\n");
    }
    absl::StrAppend(&out, "-----END CERTIFICATE-----\n");
  }
  return out;
}

}  // namespace

absl::Status WhoAmI(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, platform->Identity());
  const auto snapshot = identity->Get();
  v1::Identity shown;
  shown.set_name(identity->spiffe_id());
  *shown.mutable_expire_time() = ToProto(snapshot->not_after);
  shown.set_serial(snapshot->serial);
  shown.set_issued_by(platform->endpoints().person_socket());
  shown.set_svid_file(identity->svid_path());
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("credentials"));
  const auto stub = AccessService::NewStub(channel);
  auto access = Call(stub.get(), &AccessService::Stub::GetCallerAccess, GetCallerAccessRequest(),
                     Terms(invocation));
  if (access.ok()) {
    shown.mutable_roles()->Swap(access->mutable_roles());
  } else {
    *invocation.err << "note: your roles are not known now: " << access.status().message() << "\n";
  }
  return PrintResource<v1::Identity>(invocation, shown, [&](const v1::Identity& who) {
    return DescribeIdentity(who, invocation.clock->Read().wall);
  });
}

absl::Status CanI(const std::string& verb, const std::string& resource, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string permission, PermissionOf(verb, resource));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<AccessService>(invocation, "credentials"));
  const bool in_project = IsAskedInProject(permission);
  const std::string where = in_project ? ProjectParent(invocation.project) : "";
  CAPSTAN_ASSIGN_OR_RETURN(const auto held,
                           Held(connection.stub.get(), where, {permission}, invocation));
  *invocation.out << (held.empty() ? "no" : "yes") << "\n";
  if (!held.empty()) return absl::OkStatus();
  return Failed(absl::StrCat("you do not have ", permission,
                             in_project ? absl::StrCat(" in ", where) : "",
                             "; an admin can give you a role with `capstan role bind`"));
}

absl::Status ListWhatICan(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<AccessService>(invocation, "credentials"));
  std::vector<std::string> inside;
  std::vector<std::string> outside;
  for (std::string& permission : auth::AllPermissions()) {
    (IsAskedInProject(permission) ? inside : outside).push_back(std::move(permission));
  }
  const std::string project = ProjectParent(invocation.project);
  CAPSTAN_ASSIGN_OR_RETURN(auto held, Held(connection.stub.get(), project, inside, invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto held_outside,
                           Held(connection.stub.get(), "", outside, invocation));
  held.insert(held.end(), held_outside.begin(), held_outside.end());
  TestPermissionsResponse all;
  for (const std::string& permission : held) all.add_permissions(permission);
  return PrintResource<TestPermissionsResponse>(
      invocation, all, [&](const TestPermissionsResponse& shown) {
        TextTable table({"PERMISSION", "WHERE"});
        for (const std::string& permission : shown.permissions()) {
          table.AddRow({permission, IsAskedInProject(permission) ? project : "everywhere"});
        }
        return table.empty() ? "nothing\n"
                             : table.Render(invocation.out_terminal, invocation.output.headers);
      });
}

absl::Status DenyIdentity(const DenyOptions& options, Invocation& invocation) {
  CAPSTAN_RETURN_IF_ERROR(CheckNamesOne(options));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<PolicyService>(invocation, "credentials"));
  DenyIdentityRequest request;
  request.set_spiffe_id(options.identity);
  request.set_serial(options.serial);
  request.set_reason(options.reason);
  CAPSTAN_RETURN_IF_ERROR(
      Call(connection.stub.get(), &PolicyService::Stub::DenyIdentity, request, Terms(invocation))
          .status());
  *invocation.out << (options.identity.empty() ? options.serial : options.identity) << " denied\n";
  return absl::OkStatus();
}

absl::Status AllowIdentity(const DenyOptions& options, Invocation& invocation) {
  CAPSTAN_RETURN_IF_ERROR(CheckNamesOne(options));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DenialService>(invocation, "credentials"));
  DeleteDenialRequest request;
  request.set_spiffe_id(options.identity);
  request.set_serial(options.serial);
  request.set_reason(options.reason);
  CAPSTAN_RETURN_IF_ERROR(
      Call(connection.stub.get(), &DenialService::Stub::DeleteDenial, request, Terms(invocation))
          .status());
  *invocation.out << (options.identity.empty() ? options.serial : options.identity)
                  << " no longer denied\n";
  return absl::OkStatus();
}

absl::Status ListDenials(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DenialService>(invocation, "credentials"));
  ListDenialsRequest request;
  request.set_page_size(1000);
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all, ListAll(connection.stub.get(), &DenialService::Stub::ListDenials, request,
                              &ListDenialsResponse::mutable_denials, Terms(invocation)));
  return PrintList<Denial>(
      invocation, "denials", all,
      {{"DENIED",
        [](const Denial& d) {
          return d.spiffe_id().empty() ? absl::StrCat("serial ", d.serial()) : d.spiffe_id();
        }},
       {"SINCE",
        [](const Denial& d) {
          return absl::FormatTime(absl::RFC3339_sec, ToTime(d.create_time()), absl::UTCTimeZone());
        }},
       {"BY", [](const Denial& d) { return d.principal(); }},
       {"REASON", [](const Denial& d) { return d.reason(); }}});
}

absl::Status CreateJoinToken(const std::string& path, absl::Duration ttl, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<JoinTokenService>(invocation, "credentials"));
  CreateJoinTokenRequest request;
  request.set_path(path);
  if (ttl > absl::ZeroDuration()) *request.mutable_ttl() = ToProto(ttl);
  CAPSTAN_ASSIGN_OR_RETURN(const JoinToken token,
                           Call(connection.stub.get(), &JoinTokenService::Stub::CreateJoinToken,
                                request, Terms(invocation)));
  return PrintResource<JoinToken>(invocation, token, [&](const JoinToken& made) {
    *invocation.err << "for " << made.spiffe_id() << ", once, until "
                    << absl::FormatTime(absl::RFC3339_sec, ToTime(made.expire_time()),
                                        absl::UTCTimeZone())
                    << "; it is shown this once\n";
    return absl::StrCat(made.token(), "\n");
  });
}

absl::Status ShowTrustBundle(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<IdentityService>(invocation, "credentials"));
  CAPSTAN_ASSIGN_OR_RETURN(const TrustBundle bundle,
                           Call(connection.stub.get(), &IdentityService::Stub::GetTrustBundle,
                                GetTrustBundleRequest(), Terms(invocation)));
  return PrintResource<TrustBundle>(invocation, bundle, DescribeBundle);
}

}  // namespace capstan::cli
