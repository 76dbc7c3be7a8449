#include "services/data_loader/adapters/bundle_receiver.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/adapters/publish.h"
#include "services/data_loader/core/manifest.h"

namespace capstan::data_loader {
namespace {

using ::capstan::dataloader::v1::Manifest;

absl::Status Mismatch(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "BUNDLE_MISMATCH", message);
}

class Receiver final : public BundleWriter {
 public:
  Receiver(const SafeRoot* site, std::string folder, Manifest manifest)
      : site_(site), folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  // A finished Bundle was renamed away; RemoveTree then finds nothing.
  ~Receiver() override { site_->RemoveTree(folder_).IgnoreError(); }

  absl::Status Prepare() {
    CAPSTAN_RETURN_IF_ERROR(site_->MakeDirectories(folder_, 0700));
    return OpenNext();
  }

  absl::Status Write(absl::string_view bytes) override {
    while (!bytes.empty()) {
      if (!file_.valid()) {
        return Mismatch("more bytes were sent than the manifest's files have");
      }
      const size_t take = std::min(bytes.size(), static_cast<size_t>(rest_));
      const std::string& path = manifest_.files(next_ - 1).path();
      CAPSTAN_RETURN_IF_ERROR(WriteAll(file_.get(), bytes.substr(0, take), path));
      hash_.Update(bytes.substr(0, take));
      rest_ -= static_cast<int64_t>(take);
      bytes.remove_prefix(take);
      if (rest_ == 0) CAPSTAN_RETURN_IF_ERROR(CloseFile());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Published> Finish() override {
    if (file_.valid()) {
      return Mismatch(absl::StrCat("file '", absl::CHexEscape(manifest_.files(next_ - 1).path()),
                                   "' lacks ", rest_, " bytes"));
    }
    CAPSTAN_RETURN_IF_ERROR(PublishFolder(*site_, folder_, "bundles", manifest_));
    return Published{ManifestDigest(manifest_), TotalBytes(manifest_), manifest_.files_size(), 0};
  }

 private:
  // Opens the next file that has bytes to come, making the empty ones before it.
  absl::Status OpenNext() {
    CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, site_->Descend(folder_));
    while (next_ < manifest_.files_size()) {
      const Manifest::File& file = manifest_.files(next_++);
      const size_t slash = file.path().rfind('/');
      if (slash != std::string::npos) {
        CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories(file.path().substr(0, slash), 0700));
      }
      CAPSTAN_ASSIGN_OR_RETURN(file_,
                               root.OpenFile(file.path(), O_WRONLY | O_CREAT | O_EXCL, 0600));
      rest_ = file.size_bytes();
      if (rest_ > 0) return absl::OkStatus();
      CAPSTAN_RETURN_IF_ERROR(CheckDigest());
    }
    return absl::OkStatus();
  }

  absl::Status CloseFile() {
    CAPSTAN_RETURN_IF_ERROR(CheckDigest());
    return OpenNext();
  }

  absl::Status CheckDigest() {
    file_.Reset(-1);
    const Manifest::File& file = manifest_.files(next_ - 1);
    if (hash_.Finish() == file.sha256()) return absl::OkStatus();
    return Mismatch(
        absl::StrCat("content of '", absl::CHexEscape(file.path()),
                     "' does not have the digest in the manifest; was it changed during "
                     "the upload?"));
  }

  const SafeRoot* const site_;
  const std::string folder_;
  const Manifest manifest_;
  // Index after the open file.
  int next_ = 0;
  UniqueFd file_;
  int64_t rest_ = 0;
  Sha256 hash_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BundleWriter>> ReceiveBundle(const SafeRoot* site,
                                                            const std::string& id,
                                                            const Manifest& manifest) {
  auto receiver = std::make_unique<Receiver>(site, absl::StrCat("staging/bundles/", id), manifest);
  CAPSTAN_RETURN_IF_ERROR(receiver->Prepare());
  return std::unique_ptr<BundleWriter>(std::move(receiver));
}

}  // namespace capstan::data_loader
