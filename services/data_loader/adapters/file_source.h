#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"
#include "services/data_loader/core/load_plan.pb.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {

// Objects in a folder, `file:///…`. Only folders at or below one of the allowed roots can be
// opened: the data_loader may read more of its machine than those who name a source. Thread-safe.
class FileSource final : public DataSource {
 public:
  // SOURCE_NOT_ALLOWED unless the folder lies below one of `allowed_roots`; OBJECT_NOT_FOUND if it
  // is not there.
  static absl::StatusOr<FileSource> Open(const std::string& uri,
                                         const std::vector<std::string>& allowed_roots);

  absl::StatusOr<std::vector<LoadPlan::File>> List(
      const std::vector<std::string>& objects) const override;
  absl::Status Read(const LoadPlan::File& planned, int64_t offset, int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) const override;
  absl::Status CheckUnchanged(const LoadPlan::File& planned) const override;

 private:
  // An open object that is still the one planned, else SOURCE_CHANGED or OBJECT_NOT_FOUND.
  absl::StatusOr<UniqueFd> OpenObject(const LoadPlan::File& planned) const;
  absl::Status CheckOpen(const UniqueFd& fd, const LoadPlan::File& planned) const;

  FileSource(SafeRoot root, std::string uri) : root_(std::move(root)), uri_(std::move(uri)) {}

  SafeRoot root_;
  std::string uri_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_FILE_SOURCE_H_
