#include "services/credentials/api/audit_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libs/resource/page.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/audit_chain.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {

grpc::ServerUnaryReactor* AuditServiceHandlers::ListAuditRecords(
    grpc::CallbackServerContext* context, const v1::ListAuditRecordsRequest* request,
    v1::ListAuditRecordsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.credentials.v1.AuditService/ListAuditRecords", request, response,
      [](const v1::ListAuditRecordsRequest& request) {
        status::FieldErrors errors;
        if (request.start_sequence() < 0) errors.Add("start_sequence", "must not be negative");
        return errors.ok() ? resource::EffectivePageSize(request.page_size()).status()
                           : errors.ToStatus();
      },
      [this](const rpc::Call&, const v1::ListAuditRecordsRequest& request,
             v1::ListAuditRecordsResponse* response, rpc::Finish finish) {
        const int64_t start = std::max<int64_t>(1, request.start_sequence());
        store::RangeRequest range;
        range.key = AuditKey(start);
        range.end = store::PrefixEnd(kAuditPrefix);
        range.limit = *resource::EffectivePageSize(request.page_size());
        store_->Range(range, [start, response, finish = std::move(finish)](
                                 absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          for (store::KeyValue& kv : found->kvs) response->add_records(std::move(kv.value));
          // Without gaps, unless someone has tampered: then the reader sees it.
          if (found->more) {
            response->set_next_sequence(start + static_cast<int64_t>(found->kvs.size()));
          }
          finish(absl::OkStatus());
        });
      });
}

grpc::ServerUnaryReactor* AuditServiceHandlers::GetAuditHead(grpc::CallbackServerContext* context,
                                                             const v1::GetAuditHeadRequest* request,
                                                             v1::AuditHead* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.credentials.v1.AuditService/GetAuditHead", request, response,
      rpc::NothingToValidate(),
      [this](const rpc::Call&, const v1::GetAuditHeadRequest&, v1::AuditHead* response,
             rpc::Finish finish) {
        store::RangeRequest range;
        range.key = kAuditHeadKey;
        store_->Range(range, [response, finish = std::move(finish)](
                                 absl::StatusOr<store::RangeResult> found) mutable {
          if (!found.ok()) return finish(found.status());
          v1::AuditHeadRecord head;
          if (!found->kvs.empty() && !head.ParseFromString(found->kvs[0].value)) {
            return finish(absl::DataLossError("The audit head's record cannot be read."));
          }
          response->set_chain(kAuditChain);
          response->set_sequence(head.sequence());
          response->set_hash(head.hash().empty() ? std::string(32, '\0') : head.hash());
          finish(absl::OkStatus());
        });
      });
}

}  // namespace capstan::credentials
