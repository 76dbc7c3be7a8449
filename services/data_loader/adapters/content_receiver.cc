#include "services/data_loader/adapters/content_receiver.h"

#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/content/content_writer.h"
#include "libs/content/manifest.h"
#include "libs/content/publish.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;
using ::capstan::dataloader::v1::Manifest;

// A folder that fills up; removed with this object unless it was renamed away.
class StagedContent {
 public:
  // `mismatch` is the reason of the error if what comes is not what the manifest says.
  StagedContent(const SafeRoot* site, std::string folder, Manifest manifest, std::string mismatch)
      : site_(site),
        folder_(std::move(folder)),
        manifest_(std::move(manifest)),
        mismatch_(std::move(mismatch)) {}
  ~StagedContent() {
    writer_ = nullptr;
    // One that was renamed away is not found.
    site_->RemoveTree(folder_).IgnoreError();
  }

  absl::Status Prepare() {
    CAPSTAN_RETURN_IF_ERROR(site_->MakeDirectories(folder_, 0700));
    CAPSTAN_ASSIGN_OR_RETURN(SafeRoot root, site_->Descend(folder_));
    root_ = std::make_unique<SafeRoot>(std::move(root));
    CAPSTAN_ASSIGN_OR_RETURN(writer_,
                             content::ContentWriter::Open(root_.get(), &manifest_, 0, never_));
    return absl::OkStatus();
  }

  absl::Status Write(absl::string_view bytes) {
    const absl::Status written = writer_->Write(bytes);
    const std::string reason = status::Reason(written);
    if (reason != "CONTENT_MISMATCH" && reason != "CONTENT_TOO_LONG") return written;
    return Mismatch(absl::StrCat(written.message(), "; was it changed while it was sent?"));
  }

  absl::Status CheckComplete() const {
    if (writer_->complete()) return absl::OkStatus();
    return Mismatch(absl::StrCat("file '", absl::CHexEscape(writer_->path()),
                                 "' and what follows lack ",
                                 content::TotalBytes(manifest_) - writer_->offset(), " bytes"));
  }

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

 private:
  absl::Status Mismatch(const std::string& message) const {
    return status::Error(absl::StatusCode::kInvalidArgument, mismatch_, message);
  }

  const SafeRoot* const site_;
  const std::string folder_;
  const Manifest manifest_;
  const std::string mismatch_;
  const std::atomic<bool> never_ = false;
  std::unique_ptr<SafeRoot> root_;
  std::unique_ptr<content::ContentWriter> writer_;
};

class BundleReceiver final : public BundleWriter {
 public:
  BundleReceiver(const SafeRoot* site, const std::string& id, Manifest manifest)
      : site_(site),
        staged_(site, absl::StrCat("staging/bundles/", id), std::move(manifest),
                "BUNDLE_MISMATCH") {}

  absl::Status Prepare() { return staged_.Prepare(); }
  absl::Status Write(absl::string_view bytes) override { return staged_.Write(bytes); }
  absl::StatusOr<Published> Finish() override {
    CAPSTAN_RETURN_IF_ERROR(staged_.CheckComplete());
    const Manifest& manifest = staged_.manifest();
    CAPSTAN_RETURN_IF_ERROR(content::PublishFolder(*site_, staged_.folder(), "bundles", manifest));
    return Published{content::ManifestDigest(manifest), content::TotalBytes(manifest),
                     manifest.files_size(), 0};
  }

 private:
  const SafeRoot* const site_;
  StagedContent staged_;
};

class OutputReceiver final : public OutputWriter {
 public:
  OutputReceiver(const SafeRoot* site, const std::string& id, std::string folder,
                 std::shared_ptr<const char> claim, pb::CommitOutputRequest request,
                 Manifest manifest)
      : site_(site),
        folder_(std::move(folder)),
        claim_(std::move(claim)),
        request_(std::move(request)),
        staged_(absl::in_place, site, absl::StrCat("staging/outputs/", id), std::move(manifest),
                "OUTPUT_MISMATCH") {}

  absl::Status Prepare() { return staged_->Prepare(); }
  absl::Status Write(absl::string_view bytes) override { return staged_->Write(bytes); }
  absl::StatusOr<StagedOutput> Finish() override {
    CAPSTAN_RETURN_IF_ERROR(staged_->CheckComplete());
    const size_t slash = folder_.rfind('/');
    CAPSTAN_RETURN_IF_ERROR(site_->MakeDirectories(folder_.substr(0, slash), 0755));
    CAPSTAN_RETURN_IF_ERROR(
        content::PublishAs(*site_, staged_->folder(), folder_, staged_->manifest()));
    StagedOutput staged;
    staged.request = request_;
    staged.manifest_digest = content::ManifestDigest(staged_->manifest());
    staged.total_bytes = content::TotalBytes(staged_->manifest());
    staged.folder = folder_;
    staged.directory = absl::StrCat(site_->path(), "/", folder_);
    // So that the destructor has nothing left to do.
    staged_.reset();
    return staged;
  }

 private:
  const SafeRoot* const site_;
  const std::string folder_;
  const std::shared_ptr<const char> claim_;
  const pb::CommitOutputRequest request_;
  // Until it is finished.
  absl::optional<StagedContent> staged_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BundleWriter>> ReceiveBundle(const SafeRoot* site,
                                                            const std::string& id,
                                                            const Manifest& manifest) {
  auto receiver = std::make_unique<BundleReceiver>(site, id, manifest);
  CAPSTAN_RETURN_IF_ERROR(receiver->Prepare());
  return std::unique_ptr<BundleWriter>(std::move(receiver));
}

absl::StatusOr<std::unique_ptr<OutputWriter>> ReceiveOutput(const SafeRoot* site,
                                                            const std::string& id,
                                                            const std::string& folder,
                                                            std::shared_ptr<const char> claim,
                                                            const pb::CommitOutputRequest& request,
                                                            const Manifest& manifest) {
  auto receiver =
      std::make_unique<OutputReceiver>(site, id, folder, std::move(claim), request, manifest);
  CAPSTAN_RETURN_IF_ERROR(receiver->Prepare());
  return std::unique_ptr<OutputWriter>(std::move(receiver));
}

}  // namespace capstan::data_loader
