#include "services/credentials/api/project_service.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/auth/spiffe_id.h"
#include "libs/digest/sha256.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr char kGetProject[] = "/capstan.credentials.v1.ProjectService/GetProject";
constexpr char kListProjects[] = "/capstan.credentials.v1.ProjectService/ListProjects";
constexpr char kListRoleBindings[] = "/capstan.credentials.v1.ProjectService/ListRoleBindings";
// All there may be of either kind fits into one range: see PolicyState's bounds.
constexpr int64_t kRangeLimit = 10'000;
constexpr size_t kMaxDisplayName = 63;

template <typename Request>
RequestIdentity IdentityOf(const rpc::Call& call, const Request& request) {
  Request body = request;
  body.clear_request_id();
  return {.principal = call.caller.Name(),
          .request_id = request.request_id(),
          .body_sha256 = Sha256::Of(body.SerializeAsString())};
}

template <typename T, typename Response>
EventSink::Callback Into(Response* response, rpc::Finish finish) {
  return [response, finish = std::move(finish)](absl::StatusOr<Answer> answer) mutable {
    const absl::Status status = answer.status();
    if (status.ok()) *response = std::get<T>(*std::move(answer));
    finish(status);
  };
}

void CheckId(absl::string_view field, absl::string_view id, status::FieldErrors* errors) {
  if (!resource::IsValidId(id)) errors->Add(field, absl::StrCat("expected ", resource::kIdRule));
}

void CheckParent(absl::string_view parent, status::FieldErrors* errors) {
  if (!parent.empty() && !resource::ProjectName::Parse(parent).ok()) {
    errors->Add("parent", "expected `projects/{project}`, or nothing for the trust domain");
  }
}

absl::Status ValidateCreateProject(const v1::CreateProjectRequest& request) {
  CAPSTAN_RETURN_IF_ERROR(resource::ValidateRequestId(request.request_id()));
  status::FieldErrors errors;
  CheckId("project_id", request.project_id(), &errors);
  if (!request.has_project())
    errors.Add("project", "is required; expected a Project, which may be empty");
  if (request.project().display_name().size() > kMaxDisplayName) {
    errors.Add("project.display_name", "has more than 63 bytes; expected at most that");
  }
  return errors.ToStatus();
}

absl::Status ValidateCreateRoleBinding(const v1::CreateRoleBindingRequest& request) {
  CAPSTAN_RETURN_IF_ERROR(resource::ValidateRequestId(request.request_id()));
  status::FieldErrors errors;
  CheckParent(request.parent(), &errors);
  CheckId("role_binding_id", request.role_binding_id(), &errors);
  const absl::StatusOr<auth::SpiffeId> member =
      auth::SpiffeId::ParsePath("x", absl::StrCat("/", request.role_binding().member()));
  if (!member.ok() || member->kind != auth::SpiffeId::Kind::kPerson) {
    errors.Add("role_binding.member", "expected `person/<uid>`");
  }
  const v1::RoleBinding::Role role = request.role_binding().role();
  if (role == v1::RoleBinding::ROLE_UNSPECIFIED || !v1::RoleBinding::Role_IsValid(role)) {
    errors.Add("role_binding.role",
               "expected ROLE_ADMIN, ROLE_OPERATOR, ROLE_RESEARCHER or ROLE_VIEWER");
  }
  return errors.ToStatus();
}

absl::Status ValidateGetProject(const v1::GetProjectRequest& request) {
  status::FieldErrors errors;
  if (!resource::ProjectName::Parse(request.name()).ok()) {
    errors.Add("name", "expected `projects/{project}`");
  }
  return errors.ToStatus();
}

absl::Status ValidateDeleteRoleBinding(const v1::DeleteRoleBindingRequest& request) {
  status::FieldErrors errors;
  if (!resource::RoleBindingName::Parse(request.name()).ok()) {
    errors.Add("name",
               "expected `roleBindings/{binding}` or "
               "`projects/{project}/roleBindings/{binding}`");
  }
  return errors.ToStatus();
}

absl::Status ValidateListRoleBindings(const v1::ListRoleBindingsRequest& request) {
  status::FieldErrors errors;
  CheckParent(request.parent(), &errors);
  return errors.ToStatus();
}

// Takes the page that follows `position` from `all`, in order of names, and returns the token of
// the next one.
template <typename T, typename Add>
std::string TakePage(const std::vector<T>& all, const std::string& position, int size,
                     const resource::PageTokens& tokens, const std::string& arguments, Add add) {
  int taken = 0;
  std::string last;
  for (const T& item : all) {
    if (!position.empty() && item.name() <= position) continue;
    if (taken == size) return tokens.Seal(last, arguments);
    add(item);
    last = item.name();
    ++taken;
  }
  return "";
}

}  // namespace

grpc::ServerUnaryReactor* ProjectServiceHandlers::CreateProject(
    grpc::CallbackServerContext* context, const v1::CreateProjectRequest* request,
    v1::Project* response) {
  return rpc::HandleUnary(
      context, deps_.access, act::kCreateProject, request, response, ValidateCreateProject,
      [this](const rpc::Call& call, const v1::CreateProjectRequest& request, v1::Project* response,
             rpc::Finish finish) {
        credentials::CreateProject event;
        event.request = IdentityOf(call, request);
        event.project_id = request.project_id();
        event.display_name = request.project().display_name();
        event.uid = NewUid();
        deps_.sink->Submit(std::move(event), Into<v1::Project>(response, std::move(finish)));
      });
}

grpc::ServerUnaryReactor* ProjectServiceHandlers::GetProject(grpc::CallbackServerContext* context,
                                                             const v1::GetProjectRequest* request,
                                                             v1::Project* response) {
  return rpc::HandleUnary(
      context, deps_.access, kGetProject, request, response, ValidateGetProject,
      [this](const rpc::Call&, const v1::GetProjectRequest& request, v1::Project* response,
             rpc::Finish finish) {
        store::RangeRequest range;
        range.key = ProjectKey(request.name());
        deps_.store->Range(range, [name = request.name(), response, finish = std::move(finish)](
                                      absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          if (found->kvs.empty()) return finish(status::NotFound(name));
          v1::ProjectRecord record;
          if (!record.ParseFromString(found->kvs[0].value)) {
            return finish(absl::DataLossError("The Project's record cannot be read."));
          }
          *response = record.project();
          finish(absl::OkStatus());
        });
      });
}

grpc::ServerUnaryReactor* ProjectServiceHandlers::ListProjects(
    grpc::CallbackServerContext* context, const v1::ListProjectsRequest* request,
    v1::ListProjectsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, kListProjects, request, response, rpc::NothingToValidate(),
      [this](const rpc::Call& call, const v1::ListProjectsRequest& request,
             v1::ListProjectsResponse* response, rpc::Finish finish) {
        const absl::StatusOr<int> size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        // Bound to the caller: another one's list has other gaps.
        const std::string arguments =
            absl::StrCat(call.caller.Name(), "\n", resource::PageArguments(request));
        const absl::StatusOr<std::string> position =
            page_tokens_.Open(request.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        bool everywhere = false;
        std::set<std::string> visible;
        if (const auto policy = deps_.policy->Get(); policy != nullptr) {
          for (std::string& project :
               policy->ProjectsWith(call.caller.id->person, "projects.get", &everywhere)) {
            visible.insert(std::move(project));
          }
        }
        store::RangeRequest range;
        range.key = kProjectPrefix;
        range.end = store::PrefixEnd(kProjectPrefix);
        range.limit = kRangeLimit;
        deps_.store->Range(range, [this, size = *size, position = *position, arguments, everywhere,
                                   visible, response, finish = std::move(finish)](
                                      absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          std::vector<v1::Project> projects;
          for (const store::KeyValue& kv : found->kvs) {
            v1::ProjectRecord record;
            if (!record.ParseFromString(kv.value)) {
              return finish(absl::DataLossError("A Project's record cannot be read."));
            }
            const std::string id = record.project().name().substr(sizeof("projects/") - 1);
            if (everywhere || visible.count(id) > 0) projects.push_back(record.project());
          }
          response->set_next_page_token(
              TakePage(projects, position, size, page_tokens_, arguments,
                       [&](const v1::Project& p) { *response->add_projects() = p; }));
          finish(absl::OkStatus());
        });
      });
}

grpc::ServerUnaryReactor* ProjectServiceHandlers::CreateRoleBinding(
    grpc::CallbackServerContext* context, const v1::CreateRoleBindingRequest* request,
    v1::RoleBinding* response) {
  return rpc::HandleUnary(
      context, deps_.access, act::kCreateRoleBinding, request, response, ValidateCreateRoleBinding,
      [this](const rpc::Call& call, const v1::CreateRoleBindingRequest& request,
             v1::RoleBinding* response, rpc::Finish finish) {
        credentials::CreateRoleBinding event;
        event.request = IdentityOf(call, request);
        event.parent = request.parent();
        event.role_binding_id = request.role_binding_id();
        event.member = request.role_binding().member();
        event.role = request.role_binding().role();
        deps_.sink->Submit(std::move(event), Into<v1::RoleBinding>(response, std::move(finish)));
      });
}

grpc::ServerUnaryReactor* ProjectServiceHandlers::DeleteRoleBinding(
    grpc::CallbackServerContext* context, const v1::DeleteRoleBindingRequest* request,
    google::protobuf::Empty* response) {
  return rpc::HandleUnary(
      context, deps_.access, act::kDeleteRoleBinding, request, response, ValidateDeleteRoleBinding,
      [this](const rpc::Call& call, const v1::DeleteRoleBindingRequest& request,
             google::protobuf::Empty*, rpc::Finish finish) {
        credentials::DeleteRoleBinding event;
        event.principal = call.caller.Name();
        event.name = request.name();
        deps_.sink->Submit(std::move(event),
                           [finish = std::move(finish)](absl::StatusOr<Answer> answer) mutable {
                             finish(answer.status());
                           });
      });
}

grpc::ServerUnaryReactor* ProjectServiceHandlers::ListRoleBindings(
    grpc::CallbackServerContext* context, const v1::ListRoleBindingsRequest* request,
    v1::ListRoleBindingsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, kListRoleBindings, request, response, ValidateListRoleBindings,
      [this](const rpc::Call&, const v1::ListRoleBindingsRequest& request,
             v1::ListRoleBindingsResponse* response, rpc::Finish finish) {
        const absl::StatusOr<int> size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const std::string arguments = resource::PageArguments(request);
        const absl::StatusOr<std::string> position =
            page_tokens_.Open(request.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        store::RangeRequest range;
        range.key = RoleBindingParentPrefix(request.parent());
        range.end = store::PrefixEnd(range.key);
        range.limit = kRangeLimit;
        deps_.store->Range(
            range, [this, size = *size, position = *position, arguments, response,
                    finish = std::move(finish)](absl::StatusOr<store::RangeResult> found) mutable {
              if (!found.ok()) return finish(found.status());
              std::vector<v1::RoleBinding> bindings;
              for (const store::KeyValue& kv : found->kvs) {
                v1::RoleBindingRecord record;
                if (!record.ParseFromString(kv.value)) {
                  return finish(absl::DataLossError("A role binding's record cannot be read."));
                }
                bindings.push_back(record.role_binding());
              }
              response->set_next_page_token(
                  TakePage(bindings, position, size, page_tokens_, arguments,
                           [&](const v1::RoleBinding& b) { *response->add_role_bindings() = b; }));
              finish(absl::OkStatus());
            });
      });
}

}  // namespace capstan::credentials
