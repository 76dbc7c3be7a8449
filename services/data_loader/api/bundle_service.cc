#include "services/data_loader/api/bundle_service.h"

#include <string>
#include <utility>

#include "libs/auth/principal.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "libs/rpc/upload.h"
#include "services/data_loader/api/bundle_upload.h"
#include "services/data_loader/api/calling_node.h"
#include "services/data_loader/api/check_name.h"
#include "services/data_loader/api/commit_request.h"
#include "services/data_loader/api/output_claim.h"
#include "services/data_loader/core/dataset_request.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

absl::Status CheckCommitOutput(const pb::CommitOutputRequest& request) {
  return CheckCommit(request, Staging::kAtTheSite);
}

}  // namespace

grpc::ServerReadReactor<pb::UploadBundleRequest>* BundleService::UploadBundle(
    grpc::CallbackServerContext* context, pb::Bundle* response) {
  return rpc::HandleUpload<pb::UploadBundleRequest>(
      context, deps_.access, "/capstan.dataloader.v1.BundleService/UploadBundle", response, disk_,
      kBundleUploadLimits, [this](const auth::Caller&, const pb::UploadBundleRequest& header) {
        return OpenBundleUpload(deps_, site_, header);
      });
}

grpc::ServerUnaryReactor* BundleService::GetBundle(grpc::CallbackServerContext* context,
                                                   const pb::GetBundleRequest* request,
                                                   pb::Bundle* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.BundleService/GetBundle", request, response,
      [](const pb::GetBundleRequest& r) {
        return CheckName<resource::BundleName>("name", r.name());
      },
      [this](const rpc::Call&, const pb::GetBundleRequest& request, pb::Bundle* response,
             rpc::Finish finish) {
        deps_.state->GetBundle(request.name(), rpc::RespondWith(response, std::move(finish)));
      });
}

grpc::ServerUnaryReactor* BundleService::PinBundle(grpc::CallbackServerContext* context,
                                                   const pb::PinBundleRequest* request,
                                                   pb::PinVersionResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.BundleService/PinBundle", request, response,
      [](const pb::PinBundleRequest& r) {
        return CheckName<resource::BundleName>("name", r.name());
      },
      [this](const rpc::Call& call, const pb::PinBundleRequest& request,
             pb::PinVersionResponse* response, rpc::Finish finish) {
        const absl::Status placed = deps_.access->CheckPlacement(
            call.caller, {.holder = request.holder(), .bundle = request.name()});
        if (!placed.ok()) return finish(placed);
        deps_.strand->Post([this, node = NodeOf(call.caller), &request, response,
                            finish = std::move(finish)]() mutable {
          deps_.engine->PinBundle(request, node, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* OutputService::OpenOutput(grpc::CallbackServerContext* context,
                                                    const pb::OpenOutputRequest* request,
                                                    pb::OpenOutputResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.OutputService/OpenOutput", request, response,
      CheckOpenOutput,
      [this](const rpc::Call& call, const pb::OpenOutputRequest& request,
             pb::OpenOutputResponse* response, rpc::Finish finish) {
        const absl::Status placed = deps_.access->CheckPlacement(call.caller, ClaimOf(request));
        if (!placed.ok()) return finish(placed);
        deps_.strand->Post([this, &request, response, finish = std::move(finish)]() mutable {
          deps_.engine->OpenOutput(request, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* OutputService::CommitOutput(grpc::CallbackServerContext* context,
                                                      const pb::CommitOutputRequest* request,
                                                      pb::CommitOutputResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.OutputService/CommitOutput", request, response,
      CheckCommitOutput,
      [this](const rpc::Call& call, const pb::CommitOutputRequest& request,
             pb::CommitOutputResponse* response, rpc::Finish finish) {
        const absl::Status placed = deps_.access->CheckPlacement(call.caller, ClaimOf(request));
        if (!placed.ok()) return finish(placed);
        deps_.strand->Post([this, &request, response, finish = std::move(finish)]() mutable {
          deps_.engine->CommitOutput(request, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* OutputService::GetOutput(grpc::CallbackServerContext* context,
                                                   const pb::GetOutputRequest* request,
                                                   pb::Output* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.OutputService/GetOutput", request, response,
      [](const pb::GetOutputRequest& r) {
        return CheckName<resource::OutputName>("name", r.name());
      },
      [this](const rpc::Call&, const pb::GetOutputRequest& request, pb::Output* response,
             rpc::Finish finish) {
        deps_.state->GetOutput(request.name(), rpc::RespondWith(response, std::move(finish)));
      });
}

}  // namespace capstan::data_loader
