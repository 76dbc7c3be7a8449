#include "services/data_loader/api/upload_reactor.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/api/respond.h"
#include "services/data_loader/core/manifest.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kMethod[] = "/capstan.dataloader.v1.BundleService/UploadBundle";
// A Bundle is code; data comes as Datasets.
constexpr int64_t kMaxBundleBytes = int64_t{1} << 30;

absl::Status FieldError(const std::string& field, absl::string_view description) {
  status::FieldErrors errors;
  errors.Add(field, description);
  return errors.ToStatus();
}

class UploadReactor final : public grpc::ServerReadReactor<pb::UploadBundleRequest> {
 public:
  UploadReactor(const ApiDeps& deps, Site* site, Strand* disk, grpc::CallbackServerContext* context,
                pb::Bundle* response)
      : deps_(deps), site_(site), disk_(disk), context_(context), response_(response) {
    finish_.emplace([this](const absl::Status& status) { Finish(rpc::ToGrpcStatus(status)); });
    StartRead(&message_);
  }

  // The right to end the call travels with the task: if a stopping strand drops it, the call ends.
  void OnReadDone(bool ok) override {
    rpc::Finish finish = *std::move(finish_);
    finish_.reset();
    disk_->Post([this, ok, finish = std::move(finish)]() mutable {
      if (!ok) return Complete(std::move(finish));
      const absl::Status taken = Take();
      if (!taken.ok()) return finish(taken);
      finish_.emplace(std::move(finish));
      StartRead(&message_);
    });
  }

  void OnDone() override {
    disk_->Post([writer = std::move(writer_)] {});
    delete this;
  }

 private:
  absl::Status Take() {
    if (writer_ == nullptr) return Begin();
    if (message_.part_case() != pb::UploadBundleRequest::kChunk) {
      return FieldError("chunk", "is absent; after the header every message holds content");
    }
    return writer_->Write(message_.chunk());
  }

  absl::Status Begin() {
    // Only the header names the project, so the right is decided here and not when the call opens.
    CAPSTAN_RETURN_IF_ERROR(
        deps_.access->Authorize(rpc::PeerOf(*context_), kMethod, &message_).status());
    if (message_.part_case() != pb::UploadBundleRequest::kHeader) {
      return FieldError("header", "is absent; the first message holds it");
    }
    parent_ = message_.header().parent();
    const absl::Status parent = resource::ProjectName::Parse(parent_).status();
    if (!parent.ok()) return FieldError("header.parent", parent.message());
    const pb::Manifest& manifest = message_.header().manifest();
    const absl::Status checked = CheckManifest(manifest);
    if (!checked.ok()) return FieldError("header.manifest", checked.message());
    if (TotalBytes(manifest) > kMaxBundleBytes) {
      return FieldError("header.manifest",
                        absl::StrCat("has ", TotalBytes(manifest), " bytes of content; at most ",
                                     kMaxBundleBytes, ": bring data as a Dataset"));
    }
    CAPSTAN_ASSIGN_OR_RETURN(writer_, site_->ReceiveBundle(manifest));
    return absl::OkStatus();
  }

  void Complete(rpc::Finish finish) {
    if (writer_ == nullptr) {
      return finish(FieldError("header", "is absent; the call ended before it"));
    }
    absl::StatusOr<Published> published = writer_->Finish();
    if (!published.ok()) return finish(published.status());
    deps_.strand->Post([this, published = *std::move(published),
                        finish = std::move(finish)]() mutable {
      deps_.engine->BundleReceived(parent_, published, RespondWith(response_, std::move(finish)));
    });
  }

  const ApiDeps deps_;
  Site* const site_;
  Strand* const disk_;
  grpc::CallbackServerContext* const context_;
  pb::Bundle* const response_;
  std::optional<rpc::Finish> finish_;
  pb::UploadBundleRequest message_;
  std::string parent_;
  std::unique_ptr<BundleWriter> writer_;
};

}  // namespace

grpc::ServerReadReactor<pb::UploadBundleRequest>* MakeUploadReactor(
    const ApiDeps& deps, Site* site, Strand* disk, grpc::CallbackServerContext* context,
    pb::Bundle* response) {
  return new UploadReactor(deps, site, disk, context, response);
}

}  // namespace capstan::data_loader
