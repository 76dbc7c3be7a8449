#include "services/data_loader/api/content_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/upload.h"
#include "libs/status/error.h"
#include "services/data_loader/api/calling_node.h"
#include "services/data_loader/api/check_content_ref.h"
#include "services/data_loader/api/content_stream.h"
#include "services/data_loader/api/output_upload.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr int kMaxReaders = 64;

absl::Status CheckRef(const pb::ContentRef& content) {
  status::FieldErrors errors;
  CheckContentRef(content, &errors);
  return errors.ToStatus();
}

}  // namespace

ContentService::ContentService(const ApiDeps& deps, Site* site, std::vector<Strand*> readers,
                               Strand* writer, metrics::Registry* registry)
    : deps_(deps), site_(site), readers_(std::move(readers)), writer_(writer) {
  if (registry == nullptr) return;
  sent_bytes_ = registry->AddCounter("content_sent_bytes_total",
                                     "Content read by Nodes from the Site, without manifests");
}

void ContentService::Open(const pb::ContentRef& content, const std::string& node, Strand* disk,
                          Opened opened) const {
  deps_.strand->Post([this, content, node, disk, opened = std::move(opened)] {
    absl::StatusOr<ReadableContent> readable = deps_.engine->CheckRead(content, node);
    disk->Post([site = site_, readable = std::move(readable), opened] {
      if (!readable.ok()) return opened(readable.status());
      opened(site->OpenContent(readable->folder, readable->manifest_digest));
    });
  });
}

grpc::ServerWriteReactor<pb::Manifest>* ContentService::ReadManifest(
    grpc::CallbackServerContext* context, const pb::ReadManifestRequest* request) {
  return rpc::HandleServerStream<pb::Manifest>(
      context, deps_.access, "/capstan.dataloader.v1.ContentService/ReadManifest", request,
      [](const pb::ReadManifestRequest& r) { return CheckRef(r.content()); },
      [this](const ManifestStream::Writer& writer, const pb::ReadManifestRequest& request) {
        Strand* const disk = NextReader();
        Open(request.content(), NodeOf(writer->caller()), disk,
             [disk, writer](absl::StatusOr<OpenedContent> opened) {
               if (!opened.ok()) return writer->Finish(opened.status());
               std::make_shared<ManifestStream>(disk, writer, std::move(opened->manifest))->Start();
             });
      });
}

grpc::ServerWriteReactor<pb::ReadContentResponse>* ContentService::ReadContent(
    grpc::CallbackServerContext* context, const pb::ReadContentRequest* request) {
  return rpc::HandleServerStream<pb::ReadContentResponse>(
      context, deps_.access, "/capstan.dataloader.v1.ContentService/ReadContent", request,
      [](const pb::ReadContentRequest& r) {
        absl::Status checked = CheckRef(r.content());
        if (!checked.ok()) return checked;
        status::FieldErrors errors;
        if (r.offset() < 0) errors.Add("offset", "is negative");
        if (r.length() < 0) errors.Add("length", "is negative");
        return errors.ToStatus();
      },
      [this](const ContentStream::Writer& writer, const pb::ReadContentRequest& request) {
        auto place = ReaderPlace::Take(reading_, kMaxReaders);
        if (place == nullptr) {
          return writer->Finish(status::WithRetryDelay(
              status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_READERS",
                            absl::StrCat(kMaxReaders, " streams of content are open")),
              absl::Seconds(1)));
        }
        Strand* const disk = NextReader();
        Open(request.content(), NodeOf(writer->caller()), disk,
             [disk, writer, place, sent = sent_bytes_, offset = request.offset(),
              length = request.length()](absl::StatusOr<OpenedContent> opened) {
               if (!opened.ok()) return writer->Finish(opened.status());
               ContentStream::Start(disk, writer, place, *std::move(opened), offset, length, sent);
             });
      });
}

grpc::ServerReadReactor<pb::UploadOutputRequest>* ContentService::UploadOutput(
    grpc::CallbackServerContext* context, pb::CommitOutputResponse* response) {
  return rpc::HandleUpload<pb::UploadOutputRequest>(
      context, deps_.access, "/capstan.dataloader.v1.ContentService/UploadOutput", response,
      writer_, kOutputUploadLimits,
      [this](const auth::Caller& caller, const pb::UploadOutputRequest& header) {
        return OpenOutputUpload(deps_, site_, caller, header);
      });
}

}  // namespace capstan::data_loader
