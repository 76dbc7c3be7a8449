#ifndef CAPSTAN_LIBS_CONTENT_CONTENT_READER_H_
#define CAPSTAN_LIBS_CONTENT_CONTENT_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {

// The content of a manifest: the bytes of its files, one file after the other in the manifest's
// order. An offset into it names a byte of a file, so that what was interrupted goes on anywhere.
class ContentReader {
 public:
  // `root` is the folder that the files lie in. For one thread at a time; calls block for the disk.
  ContentReader(SafeRoot root, capstan::dataloader::v1::Manifest manifest);

  int64_t total_bytes() const { return starts_.back(); }
  // At most `limit` bytes from `offset` on, less only at the end of the content. DATA_LOSS
  // (CONTENT_DAMAGED) names a file that is shorter than its manifest says or absent.
  absl::StatusOr<std::string> Read(int64_t offset, size_t limit);

 private:
  SafeRoot root_;
  const capstan::dataloader::v1::Manifest manifest_;
  // Where each file begins, and at the end where the last one ends.
  std::vector<int64_t> starts_;
  int open_file_ = -1;
  UniqueFd file_;
};

// Where each file of the manifest begins in its content, and at the end where the last one ends.
std::vector<int64_t> FileStarts(const capstan::dataloader::v1::Manifest& manifest);

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_CONTENT_READER_H_
