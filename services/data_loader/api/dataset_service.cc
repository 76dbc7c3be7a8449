#include "services/data_loader/api/dataset_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/data_loader/api/calling_node.h"
#include "services/data_loader/api/check_name.h"
#include "services/data_loader/core/dataset_request.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr absl::Duration kWatchInterval = absl::Milliseconds(500);

bool IsFinal(const pb::DataLoad& load) {
  return load.state() == pb::DataLoad::STATE_SUCCEEDED ||
         load.state() == pb::DataLoad::STATE_FAILED;
}

// Follows one DataLoad until it is final or the watcher is gone. On the strand.
class LoadWatch : public std::enable_shared_from_this<LoadWatch> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<pb::DataLoad>>;
  LoadWatch(const ApiDeps& deps, std::string name, Writer writer)
      : deps_(deps), name_(std::move(name)), writer_(std::move(writer)) {}

  void Start() {
    writer_->NotifyClosed(deps_.strand, [self = shared_from_this()] { self->closed_ = true; });
    Step();
  }

 private:
  void Step() {
    if (closed_) return;
    deps_.state->GetLoad(name_, [self = shared_from_this()](absl::StatusOr<pb::DataLoad> load) {
      self->Show(std::move(load));
    });
  }

  void Show(absl::StatusOr<pb::DataLoad> load) {
    if (!load.ok()) return writer_->Finish(load.status());
    const std::string bytes = DeterministicBytes(*load);
    const bool final = IsFinal(*load);
    if (bytes != last_) {
      last_ = bytes;
      const absl::Status written = writer_->Write(*std::move(load));
      // A full queue only means that this state is skipped: the next one says more.
      if (!written.ok() && !absl::IsResourceExhausted(written)) return;
    }
    if (final) return writer_->Finish(absl::OkStatus());
    deps_.strand->RunAfter(kWatchInterval, [self = shared_from_this()] { self->Step(); });
  }

  const ApiDeps deps_;
  const std::string name_;
  const Writer writer_;
  std::string last_;
  bool closed_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* DatasetService::CreateDataset(grpc::CallbackServerContext* context,
                                                        const pb::CreateDatasetRequest* request,
                                                        pb::Dataset* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DatasetService/CreateDataset", request,
      response, CheckCreateDataset,
      [this](const rpc::Call&, const pb::CreateDatasetRequest& request, pb::Dataset* response,
             rpc::Finish finish) {
        deps_.strand->Post([this, &request, response, finish = std::move(finish)]() mutable {
          deps_.engine->CreateDataset(request, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(grpc::CallbackServerContext* context,
                                                     const pb::GetDatasetRequest* request,
                                                     pb::Dataset* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DatasetService/GetDataset", request, response,
      [](const pb::GetDatasetRequest& r) {
        return CheckName<resource::DatasetName>("name", r.name());
      },
      [this](const rpc::Call&, const pb::GetDatasetRequest& request, pb::Dataset* response,
             rpc::Finish finish) {
        deps_.state->GetDataset(request.name(), rpc::RespondWith(response, std::move(finish)));
      });
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(grpc::CallbackServerContext* context,
                                                       const pb::ListDatasetsRequest* request,
                                                       pb::ListDatasetsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DatasetService/ListDatasets", request,
      response,
      [](const pb::ListDatasetsRequest& r) {
        return CheckName<resource::ProjectName>("parent", r.parent());
      },
      [this](const rpc::Call&, const pb::ListDatasetsRequest& request,
             pb::ListDatasetsResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(request);
        const auto size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const auto after = deps_.page_tokens->Open(request.page_token(), arguments);
        if (!after.ok()) return finish(after.status());
        deps_.state->ListDatasets(
            request.parent(), *after, *size + 1,
            [this, arguments, size = static_cast<size_t>(*size), response,
             finish = std::move(finish)](absl::StatusOr<std::vector<pb::Dataset>> found) mutable {
              if (!found.ok()) return finish(found.status());
              for (size_t i = 0; i < found->size() && i < size; ++i) {
                *response->add_datasets() = std::move((*found)[i]);
              }
              if (found->size() > size) {
                response->set_next_page_token(deps_.page_tokens->Seal(
                    response->datasets(static_cast<int>(size) - 1).name(), arguments));
              }
              finish(absl::OkStatus());
            });
      });
}

grpc::ServerUnaryReactor* DataLoadService::EnsureDataLoad(grpc::CallbackServerContext* context,
                                                          const pb::EnsureDataLoadRequest* request,
                                                          pb::DataLoad* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/EnsureDataLoad", request,
      response,
      [](const pb::EnsureDataLoadRequest& r) {
        return CheckName<resource::DatasetName>("dataset", r.dataset());
      },
      [this](const rpc::Call&, const pb::EnsureDataLoadRequest& request, pb::DataLoad* response,
             rpc::Finish finish) {
        deps_.strand->Post([this, &request, response, finish = std::move(finish)]() mutable {
          deps_.engine->EnsureLoad(request, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* DataLoadService::GetDataLoad(grpc::CallbackServerContext* context,
                                                       const pb::GetDataLoadRequest* request,
                                                       pb::DataLoad* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/GetDataLoad", request,
      response,
      [](const pb::GetDataLoadRequest& r) {
        return CheckName<resource::DataLoadName>("name", r.name());
      },
      [this](const rpc::Call&, const pb::GetDataLoadRequest& request, pb::DataLoad* response,
             rpc::Finish finish) {
        deps_.state->GetLoad(request.name(), rpc::RespondWith(response, std::move(finish)));
      });
}

grpc::ServerUnaryReactor* DataLoadService::ListDataLoads(grpc::CallbackServerContext* context,
                                                         const pb::ListDataLoadsRequest* request,
                                                         pb::ListDataLoadsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/ListDataLoads", request,
      response,
      [](const pb::ListDataLoadsRequest& r) {
        return CheckName<resource::ProjectName>("parent", r.parent());
      },
      [this](const rpc::Call&, const pb::ListDataLoadsRequest& request,
             pb::ListDataLoadsResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(request);
        const auto size = resource::EffectivePageSize(request.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.page_tokens->Open(request.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        deps_.state->ListLoads(
            request.parent(),
            [this, arguments, size = *size, last = *position, response,
             finish = std::move(finish)](absl::StatusOr<std::vector<pb::DataLoad>> loads) mutable {
              if (!loads.ok()) return finish(loads.status());
              size_t i = 0;
              while (!last.empty() && i < loads->size() && (*loads)[i].name() != last) ++i;
              if (!last.empty() && i < loads->size()) ++i;
              for (; i < loads->size() && response->data_loads_size() < size; ++i) {
                *response->add_data_loads() = (*loads)[i];
              }
              if (i < loads->size()) {
                response->set_next_page_token(
                    deps_.page_tokens->Seal((*loads)[i - 1].name(), arguments));
              }
              finish(absl::OkStatus());
            });
      });
}

grpc::ServerWriteReactor<pb::DataLoad>* DataLoadService::WatchDataLoad(
    grpc::CallbackServerContext* context, const pb::GetDataLoadRequest* request) {
  return rpc::HandleServerStream<pb::DataLoad>(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/WatchDataLoad", request,
      [](const pb::GetDataLoadRequest& r) {
        return CheckName<resource::DataLoadName>("name", r.name());
      },
      [this](LoadWatch::Writer writer, const pb::GetDataLoadRequest& request) {
        std::make_shared<LoadWatch>(deps_, request.name(), std::move(writer))->Start();
      });
}

grpc::ServerUnaryReactor* DataLoadService::PinVersion(grpc::CallbackServerContext* context,
                                                      const pb::PinVersionRequest* request,
                                                      pb::PinVersionResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/PinVersion", request, response,
      [](const pb::PinVersionRequest& r) {
        return CheckName<resource::DatasetVersionName>("version", r.version());
      },
      [this](const rpc::Call& call, const pb::PinVersionRequest& request,
             pb::PinVersionResponse* response, rpc::Finish finish) {
        const absl::Status placed = deps_.access->CheckPlacement(
            call.caller, {.holder = request.holder(), .version = request.version()});
        if (!placed.ok()) return finish(placed);
        deps_.strand->Post([this, node = NodeOf(call.caller), &request, response,
                            finish = std::move(finish)]() mutable {
          deps_.engine->PinVersion(request, node, rpc::RespondWith(response, std::move(finish)));
        });
      });
}

grpc::ServerUnaryReactor* DataLoadService::ReleasePins(grpc::CallbackServerContext* context,
                                                       const pb::ReleasePinsRequest* request,
                                                       pb::ReleasePinsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.dataloader.v1.DataLoadService/ReleasePins", request,
      response, rpc::NothingToValidate(),
      [this](const rpc::Call& call, const pb::ReleasePinsRequest& request,
             pb::ReleasePinsResponse* response, rpc::Finish finish) {
        deps_.strand->Post([this, node = NodeOf(call.caller), &request, response,
                            finish = std::move(finish)]() mutable {
          deps_.engine->ReleasePins(request.holder(), node,
                                    rpc::RespondWith(response, std::move(finish)));
        });
      });
}

}  // namespace capstan::data_loader
