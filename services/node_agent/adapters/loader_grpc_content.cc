#include "services/node_agent/adapters/loader_grpc_content.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/content.grpc.pb.h"
#include "services/node_agent/adapters/open_calls.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr size_t kChunkBytes = 512 << 10;
constexpr size_t kPieceBytes = 512 << 10;
// Every call has a deadline: what a slow network needs for its bytes, and some more. A peer that is
// gone is noticed sooner, by the channel's keepalive.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr int64_t kSlowestBytesPerSecond = 1 << 20;
constexpr absl::Duration kManifestDeadline = absl::Minutes(5);
constexpr absl::Duration kCommitDeadline = absl::Minutes(60);

class LoaderGrpcContent final : public LoaderContent {
 public:
  LoaderGrpcContent(const std::shared_ptr<grpc::Channel>& channel, metrics::Registry* registry,
                    const GrantBook* grants)
      : stub_(pb::ContentService::NewStub(channel)), grants_(grants) {
    if (registry == nullptr) return;
    fetched_bytes_ = registry->AddCounter("cache_fetched_bytes_total",
                                          "Content brought to this Node", {{"origin", "loader"}});
  }

  absl::StatusOr<pb::Manifest> ReadManifest(const pb::ContentRef& content) override {
    OpenCalls::Call call(&calls_, kManifestDeadline);
    pb::ReadManifestRequest request;
    *request.mutable_content() = content;
    const auto reader = stub_->ReadManifest(call.context(), request);
    pb::Manifest manifest;
    pb::Manifest piece;
    bool too_long = false;
    while (reader->Read(&piece)) {
      if (too_long) continue;
      manifest.MergeFrom(piece);
      if (manifest.files_size() > content::kMaxManifestFiles) {
        too_long = true;
        call.context()->TryCancel();
      }
    }
    const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    if (too_long) {
      return status::Error(absl::StatusCode::kDataLoss, "INVALID_MANIFEST",
                           "the manifest that comes has too many files");
    }
    CAPSTAN_RETURN_IF_ERROR(status);
    return manifest;
  }

  absl::Status Read(const pb::ContentRef& content, const ContentRange& range,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) override {
    OpenCalls::Call call(&calls_, kPatience + absl::Seconds(range.length / kSlowestBytesPerSecond));
    pb::ReadContentRequest request;
    *request.mutable_content() = content;
    request.set_offset(range.offset);
    request.set_length(range.length);
    const auto reader = stub_->ReadContent(call.context(), request);
    pb::ReadContentResponse response;
    int64_t left = range.length;
    absl::Status taken;
    while (reader->Read(&response)) {
      if (!taken.ok()) continue;
      const auto size = static_cast<int64_t>(response.chunk().size());
      if (fetched_bytes_.has_value()) fetched_bytes_->Increment(static_cast<double>(size));
      taken = size > left ? status::Error(absl::StatusCode::kDataLoss, "CONTENT_TOO_LONG",
                                          "more bytes come than were asked for")
                          : sink(response.chunk());
      left -= size;
      if (!taken.ok()) call.context()->TryCancel();
    }
    const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    CAPSTAN_RETURN_IF_ERROR(taken);
    CAPSTAN_RETURN_IF_ERROR(status);
    if (left > 0) return absl::UnavailableError("the stream of content ended early");
    return absl::OkStatus();
  }

  absl::StatusOr<pb::CommitOutputResponse> SendOutput(const pb::CommitOutputRequest& commit,
                                                      const SafeRoot& root,
                                                      const pb::Manifest& manifest) override {
    CAPSTAN_ASSIGN_OR_RETURN(SafeRoot again, SafeRoot::Open(root.path()));
    content::ContentReader reader(std::move(again), manifest);
    OpenCalls::Call call(&calls_, kCommitDeadline);
    if (grants_ != nullptr) {
      const std::string holder = absl::StrCat(commit.job_uid(), "/", commit.generation());
      for (const auto& [key, value] : grants_->OfHolder(holder)) {
        call.context()->AddMetadata(key, value);
      }
    }
    pb::CommitOutputResponse response;
    const auto writer = stub_->UploadOutput(call.context(), &response);
    pb::UploadOutputRequest message;
    *message.mutable_header() = commit;
    // A server that has heard enough answers early; its answer is what counts.
    bool wanted = writer->Write(message);
    int next = 0;
    do {
      pb::Manifest& piece = *message.mutable_manifest();
      piece.Clear();
      size_t bytes = 0;
      while (next < manifest.files_size() && bytes < kPieceBytes) {
        bytes += manifest.files(next).ByteSizeLong();
        *piece.add_files() = manifest.files(next++);
      }
      wanted = wanted && writer->Write(message);
    } while (wanted && next < manifest.files_size());
    absl::Status read;
    for (int64_t offset = 0; wanted && offset < reader.total_bytes();) {
      absl::StatusOr<std::string> bytes = reader.Read(offset, kChunkBytes);
      if (!bytes.ok()) {
        read = bytes.status();
        call.context()->TryCancel();
        break;
      }
      offset += static_cast<int64_t>(bytes->size());
      message.set_chunk(*std::move(bytes));
      wanted = writer->Write(message);
    }
    writer->WritesDone();
    const absl::Status status = rpc::FromGrpcStatus(writer->Finish());
    CAPSTAN_RETURN_IF_ERROR(read);
    CAPSTAN_RETURN_IF_ERROR(status);
    return response;
  }

  void Stop() override { calls_.Stop(); }

 private:
  const std::unique_ptr<pb::ContentService::Stub> stub_;
  const GrantBook* const grants_;
  OpenCalls calls_;
  absl::optional<metrics::Counter> fetched_bytes_;
};

}  // namespace

std::unique_ptr<LoaderContent> MakeLoaderGrpcContent(const std::shared_ptr<grpc::Channel>& channel,
                                                     metrics::Registry* registry,
                                                     const GrantBook* grants) {
  return std::make_unique<LoaderGrpcContent>(channel, registry, grants);
}

}  // namespace capstan::node_agent
