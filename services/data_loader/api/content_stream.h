#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_STREAM_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/types/optional.h"
#include "libs/content/content_reader.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/server_stream.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// One of a bounded number of places; given back by the destructor. Thread-safe.
class ReaderPlace {
 public:
  // Null if all `limit` are taken.
  static std::shared_ptr<ReaderPlace> Take(const std::shared_ptr<std::atomic<int>>& taken,
                                           int limit);
  explicit ReaderPlace(std::shared_ptr<std::atomic<int>> taken) : taken_(std::move(taken)) {}
  ~ReaderPlace() { --*taken_; }
  ReaderPlace(const ReaderPlace&) = delete;
  ReaderPlace& operator=(const ReaderPlace&) = delete;

 private:
  const std::shared_ptr<std::atomic<int>> taken_;
};

// Sends a manifest in pieces, as fast as its reader takes them. On a strand that may block; keeps
// itself alive until the call is over or everything is sent.
class ManifestStream : public std::enable_shared_from_this<ManifestStream> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<capstan::dataloader::v1::Manifest>>;
  ManifestStream(Strand* disk, Writer writer, capstan::dataloader::v1::Manifest manifest)
      : disk_(disk), writer_(std::move(writer)), manifest_(std::move(manifest)) {}
  void Start() { Step(); }

 private:
  void Step();

  Strand* const disk_;
  const Writer writer_;
  const capstan::dataloader::v1::Manifest manifest_;
  int next_ = 0;
};

// Sends content, one chunk a turn of the strand, so that streams share it fairly, and never more
// than a bound ahead of its reader.
class ContentStream : public std::enable_shared_from_this<ContentStream> {
 public:
  using Writer =
      std::shared_ptr<rpc::ServerStreamWriter<capstan::dataloader::v1::ReadContentResponse>>;
  // On `disk`. Ends the call if the range does not lie in the content. `sent_bytes` counts.
  static void Start(Strand* disk, const Writer& writer, std::shared_ptr<ReaderPlace> place,
                    OpenedContent content, int64_t offset, int64_t length,
                    absl::optional<metrics::Counter> sent_bytes);

  ContentStream(Strand* disk, Writer writer, std::shared_ptr<ReaderPlace> place,
                content::ContentReader reader, int64_t offset, int64_t end,
                absl::optional<metrics::Counter> sent_bytes)
      : disk_(disk),
        writer_(std::move(writer)),
        place_(std::move(place)),
        reader_(std::move(reader)),
        offset_(offset),
        end_(end),
        sent_bytes_(sent_bytes) {}

 private:
  void Step();

  Strand* const disk_;
  const Writer writer_;
  const std::shared_ptr<ReaderPlace> place_;
  content::ContentReader reader_;
  int64_t offset_;
  const int64_t end_;
  absl::optional<metrics::Counter> sent_bytes_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_CONTENT_STREAM_H_
