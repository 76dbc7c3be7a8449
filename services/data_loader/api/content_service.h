#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_SERVICE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/content.grpc.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// Gives a Site's content to Nodes that do not share its file system, and takes theirs.
class ContentService final : public capstan::dataloader::v1::ContentService::CallbackService {
 public:
  // Content is read on `readers`, at least one, in turn, and written on `writer`: strands that may
  // block. `registry` may be null. All must outlive the server.
  ContentService(const ApiDeps& deps, Site* site, std::vector<Strand*> readers, Strand* writer,
                 metrics::Registry* registry);

  grpc::ServerWriteReactor<capstan::dataloader::v1::Manifest>* ReadManifest(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ReadManifestRequest* request) override;
  grpc::ServerWriteReactor<capstan::dataloader::v1::ReadContentResponse>* ReadContent(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ReadContentRequest* request) override;
  grpc::ServerReadReactor<capstan::dataloader::v1::UploadOutputRequest>* UploadOutput(
      grpc::CallbackServerContext* context,
      capstan::dataloader::v1::CommitOutputResponse* response) override;

 private:
  using Opened = std::function<void(absl::StatusOr<OpenedContent>)>;

  Strand* NextReader() { return readers_[next_reader_++ % readers_.size()]; }
  // Opens what the Node may read; `opened` runs on `disk`.
  void Open(const capstan::dataloader::v1::ContentRef& content, const std::string& node,
            Strand* disk, Opened opened) const;

  const ApiDeps deps_;
  Site* const site_;
  const std::vector<Strand*> readers_;
  Strand* const writer_;
  std::atomic<size_t> next_reader_ = 0;
  absl::optional<metrics::Counter> sent_bytes_;
  // Streams of content that are open.
  const std::shared_ptr<std::atomic<int>> reading_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_SERVICE_H_
