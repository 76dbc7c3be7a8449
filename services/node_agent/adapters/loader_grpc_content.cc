#include "services/node_agent/adapters/loader_grpc_content.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/content.grpc.pb.h"

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
  explicit LoaderGrpcContent(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(pb::ContentService::NewStub(channel)) {}

  absl::StatusOr<pb::Manifest> ReadManifest(const pb::ContentRef& content) override {
    Call call(this, kManifestDeadline);
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

  absl::Status Read(const pb::ContentRef& content, int64_t offset, int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) override {
    Call call(this, kPatience + absl::Seconds(length / kSlowestBytesPerSecond));
    pb::ReadContentRequest request;
    *request.mutable_content() = content;
    request.set_offset(offset);
    request.set_length(length);
    const auto reader = stub_->ReadContent(call.context(), request);
    pb::ReadContentResponse response;
    int64_t left = length;
    absl::Status taken;
    while (reader->Read(&response)) {
      if (!taken.ok()) continue;
      const auto size = static_cast<int64_t>(response.chunk().size());
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
    Call call(this, kCommitDeadline);
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

  void Stop() override {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    for (grpc::ClientContext* context : open_) context->TryCancel();
  }

 private:
  // A call under way, which Stop ends.
  class Call {
   public:
    Call(LoaderGrpcContent* owner, absl::Duration deadline) : owner_(owner) {
      rpc::SetDeadline(context_, deadline);
      absl::MutexLock lock(&owner_->mutex_);
      owner_->open_.insert(&context_);
      if (owner_->stopped_) context_.TryCancel();
    }
    ~Call() {
      absl::MutexLock lock(&owner_->mutex_);
      owner_->open_.erase(&context_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    grpc::ClientContext* context() { return &context_; }

   private:
    LoaderGrpcContent* const owner_;
    grpc::ClientContext context_;
  };

  const std::unique_ptr<pb::ContentService::Stub> stub_;
  absl::Mutex mutex_;
  std::set<grpc::ClientContext*> open_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<LoaderContent> MakeLoaderGrpcContent(
    const std::shared_ptr<grpc::Channel>& channel) {
  return std::make_unique<LoaderGrpcContent>(channel);
}

}  // namespace capstan::node_agent
