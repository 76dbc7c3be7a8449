#include "services/credentials/api/policy_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/credentials/core/act.h"

namespace capstan::credentials {
namespace {

constexpr char kWatchPolicy[] = "/capstan.credentials.v1.PolicyService/WatchPolicy";
// So that the largest deny list still fits into a snapshot.
constexpr size_t kMaxDeniedId = 300;
constexpr size_t kMaxReason = 1024;

// True for `/a/`, `/a/b/` and so on, of what ids are made of.
bool IsPathPrefix(absl::string_view path) {
  if (path.size() < 3 || path.front() != '/' || path.back() != '/') return false;
  for (absl::string_view part : absl::StrSplit(path.substr(1, path.size() - 2), '/')) {
    if (part.empty() || part == "." || part == "..") return false;
    for (char c : part) {
      const auto u = static_cast<unsigned char>(c);
      if (!absl::ascii_islower(u) && !absl::ascii_isdigit(u) && c != '-' && c != '_' && c != '.') {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<DenyIdentity> ParseDenial(const v1::DenyIdentityRequest& request,
                                         const std::string& trust_domain) {
  status::FieldErrors errors;
  DenyIdentity event;
  if (request.spiffe_id().empty() == request.serial().empty()) {
    errors.Add("spiffe_id", "exactly one of spiffe_id and serial must be given");
  } else if (!request.spiffe_id().empty()) {
    const std::string domain = absl::StrCat("spiffe://", trust_domain);
    std::string path = request.spiffe_id();
    if (absl::StartsWith(path, absl::StrCat(domain, "/"))) path = path.substr(domain.size());
    const absl::StatusOr<auth::SpiffeId> id = auth::SpiffeId::ParsePath(trust_domain, path);
    if (path.size() > kMaxDeniedId) {
      errors.Add("spiffe_id",
                 absl::StrCat("has more than ", kMaxDeniedId, " bytes; expected at most that"));
    } else if (id.ok() && id->kind == auth::SpiffeId::Kind::kServiceAccount) {
      errors.Add("spiffe_id", "is a service account; deny its Tasks by the path with a final `/`");
    } else if (!id.ok() && !IsPathPrefix(path)) {
      errors.Add("spiffe_id", absl::StrCat("expected an id of ", domain,
                                           ", its path, or a path that ends in `/`"));
    } else {
      event.spiffe_id = domain + path;
    }
  } else {
    const size_t first = request.serial().find_first_not_of('0');
    event.serial = first == std::string::npos ? "" : request.serial().substr(first);
    bool hex = !event.serial.empty() && event.serial.size() <= 40;
    for (char c : event.serial) {
      hex = hex && (absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f'));
    }
    if (!hex) errors.Add("serial", "expected a certificate's serial in lower-case hex");
  }
  if (request.reason().empty() || request.reason().size() > kMaxReason) {
    errors.Add("reason", "is required, of at most 1024 bytes: it goes to the audit log");
  }
  if (!errors.ok()) return errors.ToStatus();
  event.reason = request.reason();
  return event;
}

grpc::ServerWriteReactor<v1::PolicySnapshot>* PolicyServiceHandlers::WatchPolicy(
    grpc::CallbackServerContext* context, const v1::WatchPolicyRequest* request) {
  return rpc::HandleServerStream<v1::PolicySnapshot>(
      context, access_, kWatchPolicy, request, rpc::NothingToValidate(),
      [this](std::shared_ptr<PolicyFeed::Writer> writer, const v1::WatchPolicyRequest&) {
        strand_->Post(
            [this, writer = std::move(writer)]() mutable { feed_->AddWatcher(std::move(writer)); });
      });
}

grpc::ServerUnaryReactor* PolicyServiceHandlers::DenyIdentity(
    grpc::CallbackServerContext* context, const v1::DenyIdentityRequest* request,
    google::protobuf::Empty* response) {
  return rpc::HandleUnary(
      context, access_, act::kDenyIdentity, request, response,
      [this](const v1::DenyIdentityRequest& request) {
        return ParseDenial(request, trust_domain_).status();
      },
      [this](const rpc::Call& call, const v1::DenyIdentityRequest& request,
             google::protobuf::Empty*, rpc::Finish finish) {
        credentials::DenyIdentity event = *ParseDenial(request, trust_domain_);
        event.principal = call.caller.Name();
        sink_->Submit(std::move(event),
                      [finish = std::move(finish)](absl::StatusOr<Answer> answer) mutable {
                        finish(answer.status());
                      });
      });
}

}  // namespace capstan::credentials
