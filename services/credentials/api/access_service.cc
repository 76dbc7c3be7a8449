#include "services/credentials/api/access_service.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/roles.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"

namespace capstan::credentials {
namespace {

constexpr int kMaxPermissions = 100;

absl::Status ValidateTestPermissions(const v1::TestPermissionsRequest& request) {
  status::FieldErrors errors;
  if (request.permissions().empty() || request.permissions_size() > kMaxPermissions) {
    errors.Add("permissions", absl::StrCat("found ", request.permissions_size(), ", expected 1 to ",
                                           kMaxPermissions));
    return errors.ToStatus();
  }
  const std::vector<std::string> known = auth::AllPermissions();
  for (int i = 0; i < request.permissions_size(); ++i) {
    const std::string& permission = request.permissions(i);
    if (!std::binary_search(known.begin(), known.end(), permission)) {
      errors.Add(absl::StrCat("permissions[", i, "]"),
                 absl::StrCat("found `", permission, "`, expected one such as `jobs.create`"));
    }
  }
  return errors.ToStatus();
}

}  // namespace

grpc::ServerUnaryReactor* AccessServiceHandlers::GetCallerAccess(
    grpc::CallbackServerContext* context, const v1::GetCallerAccessRequest* request,
    v1::CallerAccess* response) {
  return rpc::HandleUnary(context, access_, "/capstan.credentials.v1.AccessService/GetCallerAccess",
                          request, response, rpc::NothingToValidate(),
                          [this](const rpc::Call& call, const v1::GetCallerAccessRequest&,
                                 v1::CallerAccess* response, rpc::Finish finish) {
                            response->set_principal(call.caller.Name());
                            if (const auto policy = policy_->Get(); policy != nullptr) {
                              for (const auto& held : policy->RolesOf(call.caller.id->person)) {
                                auto* role = response->add_roles();
                                if (!held.project.empty())
                                  role->set_project(absl::StrCat("projects/", held.project));
                                role->set_role(held.role);
                              }
                            }
                            finish(absl::OkStatus());
                          });
}

grpc::ServerUnaryReactor* AccessServiceHandlers::TestPermissions(
    grpc::CallbackServerContext* context, const v1::TestPermissionsRequest* request,
    v1::TestPermissionsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.credentials.v1.AccessService/TestPermissions", request, response,
      ValidateTestPermissions,
      [this](const rpc::Call& call, const v1::TestPermissionsRequest& request,
             v1::TestPermissionsResponse* response, rpc::Finish finish) {
        const auto policy = policy_->Get();
        for (const std::string& permission : request.permissions()) {
          if (policy != nullptr && policy->Gives(call.caller.id->person, permission,
                                                 auth::ProjectOf(request.resource()))) {
            response->add_permissions(permission);
          }
        }
        finish(absl::OkStatus());
      });
}

}  // namespace capstan::credentials
