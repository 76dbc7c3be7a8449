#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "services/data_loader/adapters/load_plan.pb.h"

namespace capstan::data_loader {

// Objects in a folder, `file:///…`. Only folders at or below one of the allowed roots can be
// opened: the data_loader may read more of its machine than those who name a source. Thread-safe.
class FileSource {
 public:
  // SOURCE_NOT_ALLOWED unless the folder lies below one of `allowed_roots`; OBJECT_NOT_FOUND if it
  // is not there.
  static absl::StatusOr<FileSource> Open(const std::string& uri,
                                         const std::vector<std::string>& allowed_roots);

  // The objects asked for, or all. Sorted; sizes and validators as of now. OBJECT_NOT_FOUND names a
  // missing one.
  absl::StatusOr<std::vector<LoadPlan::File>> List(const std::vector<std::string>& objects) const;

  // An open object that is still the one planned, else SOURCE_CHANGED or OBJECT_NOT_FOUND.
  absl::StatusOr<UniqueFd> OpenObject(const LoadPlan::File& planned) const;
  // Whether the open object is unchanged; asked again after its last byte was read.
  absl::Status CheckUnchanged(const UniqueFd& fd, const LoadPlan::File& planned) const;

 private:
  FileSource(SafeRoot root, std::string uri) : root_(std::move(root)), uri_(std::move(uri)) {}

  SafeRoot root_;
  std::string uri_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_
