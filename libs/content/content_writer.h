#ifndef CAPSTAN_LIBS_CONTENT_CONTENT_WRITER_H_
#define CAPSTAN_LIBS_CONTENT_CONTENT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {

// Writes the content of a manifest (see ContentReader) to files, checking each file against its
// digest as its last byte comes. For one thread at a time; calls block for the disk.
class ContentWriter {
 public:
  // `root` is the folder of the files; `manifest` has been checked (CheckManifest) and outlives the
  // writer. Takes up what lies there up to `offset`, at most: files are read back and checked, and
  // the writer begins (offset()) with the first that is not what it should be. CANCELLED once
  // `stop` is set.
  static absl::StatusOr<std::unique_ptr<ContentWriter>> Open(
      const SafeRoot* root, const capstan::dataloader::v1::Manifest* manifest, int64_t offset,
      const std::atomic<bool>& stop);

  // Where the next byte belongs.
  int64_t offset() const { return offset_; }
  // Every byte is there, and every file is what its digest says.
  bool complete() const { return !file_.valid(); }
  // The file that the next byte belongs to; empty when complete.
  std::string path() const;

  // DATA_LOSS (CONTENT_MISMATCH) names a file whose bytes are not those of its digest; the writer
  // stands at that file's beginning then. OUT_OF_RANGE (CONTENT_TOO_LONG) after the last byte.
  absl::Status Write(absl::string_view bytes);
  // What was written is durable, but for the names of folders.
  absl::Status Sync();

 private:
  ContentWriter(const SafeRoot* root, const capstan::dataloader::v1::Manifest* manifest);

  // How many bytes of the file, up to `limit`, can be kept: all, a beginning, or none.
  absl::StatusOr<int64_t> Kept(const capstan::dataloader::v1::Manifest::File& file, int64_t limit,
                               const std::atomic<bool>& stop);
  absl::StatusOr<UniqueFd> OpenFile(const capstan::dataloader::v1::Manifest::File& file) const;
  absl::Status MakeEmpty(const capstan::dataloader::v1::Manifest::File& file);
  // Holds a finished file until it is synced.
  absl::Status Keep(UniqueFd fd);
  // Opens the file `next_`, from `from` on; makes the empty ones before it.
  absl::Status OpenNext(int64_t from);
  absl::Status CloseFile();

  const SafeRoot* const root_;
  const capstan::dataloader::v1::Manifest* const manifest_;
  const std::vector<int64_t> starts_;
  // The file after the open one.
  int next_ = 0;
  int64_t offset_ = 0;
  UniqueFd file_;
  Sha256 hash_;
  // Written whole, not yet synced.
  std::vector<UniqueFd> unsynced_;
};

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_CONTENT_WRITER_H_
