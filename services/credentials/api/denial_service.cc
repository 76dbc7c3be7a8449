#include "services/credentials/api/denial_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/resource/page.h"
#include "libs/rpc/unary.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/api/policy_service.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr char kListDenials[] = "/capstan.credentials.v1.DenialService/ListDenials";

// What names an entry is what made it, so it is read by the same rules.
absl::StatusOr<DenyIdentity> Parse(const v1::DeleteDenialRequest& request,
                                   const std::string& trust_domain) {
  v1::DenyIdentityRequest denial;
  denial.set_spiffe_id(request.spiffe_id());
  denial.set_serial(request.serial());
  denial.set_reason(request.reason());
  return ParseDenial(denial, trust_domain);
}

}  // namespace

grpc::ServerUnaryReactor* DenialServiceHandlers::ListDenials(grpc::CallbackServerContext* context,
                                                             const v1::ListDenialsRequest* request,
                                                             v1::ListDenialsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, kListDenials, request, response, rpc::NothingToValidate(),
      [this](const rpc::Call&, const v1::ListDenialsRequest& request,
             v1::ListDenialsResponse* response, rpc::Finish finish) {
        const absl::StatusOr<int> size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const std::string arguments = resource::PageArguments(request);
        const absl::StatusOr<std::string> position =
            page_tokens_.Open(request.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        store::RangeRequest range;
        // The position is the last key of the page before.
        range.key = position->empty() ? kDenyPrefix : *position + std::string(1, '\0');
        range.end = store::PrefixEnd(kDenyPrefix);
        range.limit = *size;
        deps_.store->Range(range, [this, arguments, response, finish = std::move(finish)](
                                      absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          for (const store::KeyValue& kv : found->kvs) {
            v1::DenyRecord record;
            if (!record.ParseFromString(kv.value)) {
              return finish(absl::DataLossError("A denial's record cannot be read."));
            }
            v1::Denial* denial = response->add_denials();
            denial->set_spiffe_id(record.spiffe_id());
            denial->set_serial(record.serial());
            denial->set_reason(record.reason());
            denial->set_principal(record.principal());
            *denial->mutable_create_time() = record.create_time();
          }
          if (found->more) {
            response->set_next_page_token(page_tokens_.Seal(found->kvs.back().key, arguments));
          }
          finish(absl::OkStatus());
        });
      });
}

grpc::ServerUnaryReactor* DenialServiceHandlers::DeleteDenial(
    grpc::CallbackServerContext* context, const v1::DeleteDenialRequest* request,
    google::protobuf::Empty* response) {
  return rpc::HandleUnary(
      context, deps_.access, act::kDeleteDenial, request, response,
      [this](const v1::DeleteDenialRequest& request) {
        return Parse(request, deps_.trust_domain).status();
      },
      [this](const rpc::Call& call, const v1::DeleteDenialRequest& request,
             google::protobuf::Empty*, rpc::Finish finish) {
        const DenyIdentity denial = *Parse(request, deps_.trust_domain);
        credentials::DeleteDenial event;
        event.principal = call.caller.Name();
        event.spiffe_id = denial.spiffe_id;
        event.serial = denial.serial;
        event.reason = denial.reason;
        deps_.sink->Submit(std::move(event),
                           [finish = std::move(finish)](absl::StatusOr<Answer> answer) mutable {
                             finish(answer.status());
                           });
      });
}

}  // namespace capstan::credentials
