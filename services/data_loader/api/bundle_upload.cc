#include "services/data_loader/api/bundle_upload.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/content/manifest.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

// A Bundle is code; data comes as Datasets.
constexpr int64_t kMaxBundleBytes = int64_t{1} << 30;

absl::Status FieldError(const std::string& field, absl::string_view description) {
  status::FieldErrors errors;
  errors.Add(field, description);
  return errors.ToStatus();
}

class Receiver final : public BundleReceiver {
 public:
  Receiver(const ApiDeps& deps, std::string parent, std::unique_ptr<BundleWriter> writer)
      : deps_(deps), parent_(std::move(parent)), writer_(std::move(writer)) {}

  absl::Status Take(const pb::UploadBundleRequest& message) override {
    if (message.part_case() != pb::UploadBundleRequest::kChunk) {
      return FieldError("chunk", "is absent; after the header every message holds content");
    }
    return writer_->Write(message.chunk());
  }

  // The manifest says whether all is there.
  void End(Answer answer) override {
    absl::StatusOr<Published> published = writer_->Finish();
    if (!published.ok()) return answer(published.status());
    deps_.strand->Post([engine = deps_.engine, parent = parent_, published = *std::move(published),
                        answer = std::move(answer)]() mutable {
      engine->BundleReceived(parent, published, std::move(answer));
    });
  }

 private:
  const ApiDeps deps_;
  const std::string parent_;
  const std::unique_ptr<BundleWriter> writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReceiver>> OpenBundleUpload(
    const ApiDeps& deps, Site* site, const pb::UploadBundleRequest& header) {
  if (header.part_case() != pb::UploadBundleRequest::kHeader) {
    return FieldError("header", "is absent; the first message holds it");
  }
  const std::string& parent = header.header().parent();
  const absl::Status parsed = resource::ProjectName::Parse(parent).status();
  if (!parsed.ok()) return FieldError("header.parent", parsed.message());
  const pb::Manifest& manifest = header.header().manifest();
  const absl::Status checked = content::CheckManifest(manifest);
  if (!checked.ok()) return FieldError("header.manifest", checked.message());
  if (content::TotalBytes(manifest) > kMaxBundleBytes) {
    return FieldError(
        "header.manifest",
        absl::StrCat("has ", content::TotalBytes(manifest), " bytes of content; at most ",
                     kMaxBundleBytes, ": bring data as a Dataset"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<BundleWriter> writer, site->ReceiveBundle(manifest));
  return std::make_unique<Receiver>(deps, parent, std::move(writer));
}

}  // namespace capstan::data_loader
