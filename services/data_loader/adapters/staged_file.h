#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_STAGED_FILE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_STAGED_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::data_loader {

// A file of a load that is not published yet: written in parts, made durable, read back. What is
// written goes through the page cache: it is read back at once to be hashed, and by Jobs soon
// after. Held open from its first byte to its last sync, so that no error of the disk is told to a
// descriptor that nobody looks at. Thread-safe; calls block for the disk.
class StagedFile {
 public:
  // Makes it if it is not there; keeps what is.
  static absl::StatusOr<StagedFile> Open(const SafeRoot& root, const std::string& path);

  absl::Status Write(int64_t offset, absl::string_view bytes) const;
  // Lets the disk begin with what was written there, so that Sync has less to wait for. A size of 0
  // means all from `offset` on. Promises nothing.
  void BeginWriteOut(int64_t offset, int64_t size) const;
  // What was written is durable.
  absl::Status Sync() const;
  // Gives `sink` these bytes in order, in pieces that stay in a core's cache. DATA_LOSS
  // (STAGED_FILES_LOST) if the file ends before.
  absl::Status Read(int64_t offset, int64_t size,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) const;

 private:
  StagedFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_STAGED_FILE_H_
