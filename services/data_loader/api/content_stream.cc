#include "services/data_loader/api/content_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr size_t kChunkBytes = 512 << 10;
constexpr size_t kPieceBytes = 1 << 20;
// Below what a stream takes: it never refuses a message.
constexpr size_t kReadAhead = 3 << 20;

}  // namespace

std::shared_ptr<ReaderPlace> ReaderPlace::Take(const std::shared_ptr<std::atomic<int>>& taken,
                                               int limit) {
  auto place = std::make_shared<ReaderPlace>(taken);
  // The one just made counts: its destructor takes it back.
  return ++*taken > limit ? nullptr : place;
}

void ManifestStream::Step() {
  do {
    if (writer_->queued_bytes() > kReadAhead - kPieceBytes) {
      return writer_->NotifyDrained(disk_, [self = shared_from_this()] { self->Step(); });
    }
    pb::Manifest piece;
    size_t bytes = 0;
    while (next_ < manifest_.files_size() && bytes < kPieceBytes / 2) {
      bytes += manifest_.files(next_).ByteSizeLong();
      *piece.add_files() = manifest_.files(next_++);
    }
    // Over, or not allowed any more.
    if (!writer_->Write(std::move(piece)).ok()) return;
  } while (next_ < manifest_.files_size());
  writer_->Finish(absl::OkStatus());
}

void ContentStream::Start(Strand* disk, const Writer& writer, std::shared_ptr<ReaderPlace> place,
                          OpenedContent content, int64_t offset, int64_t length,
                          absl::optional<metrics::Counter> sent_bytes) {
  absl::StatusOr<SafeRoot> root = SafeRoot::Open(content.directory);
  if (!root.ok()) return writer->Finish(root.status());
  content::ContentReader reader(*std::move(root), std::move(content.manifest));
  const int64_t total = reader.total_bytes();
  if (offset > total || length > total - offset) {
    return writer->Finish(status::Error(
        absl::StatusCode::kOutOfRange, "RANGE_BEYOND_CONTENT",
        absl::StrCat(length, " bytes from ", offset, " on are not in ", total, " bytes")));
  }
  const int64_t end = length == 0 ? total : offset + length;
  std::make_shared<ContentStream>(disk, writer, std::move(place), std::move(reader), offset, end,
                                  sent_bytes)
      ->Step();
}

void ContentStream::Step() {
  if (offset_ == end_) return writer_->Finish(absl::OkStatus());
  if (writer_->queued_bytes() > kReadAhead) {
    return writer_->NotifyDrained(disk_, [self = shared_from_this()] { self->Step(); });
  }
  absl::StatusOr<std::string> bytes =
      reader_.Read(offset_, std::min(kChunkBytes, static_cast<size_t>(end_ - offset_)));
  if (!bytes.ok()) return writer_->Finish(bytes.status());
  offset_ += static_cast<int64_t>(bytes->size());
  if (sent_bytes_.has_value()) sent_bytes_->Increment(static_cast<double>(bytes->size()));
  pb::ReadContentResponse response;
  response.set_chunk(*std::move(bytes));
  // Over, or not allowed any more.
  if (!writer_->Write(std::move(response)).ok()) return;
  disk_->Post([self = shared_from_this()] { self->Step(); });
}

}  // namespace capstan::data_loader
