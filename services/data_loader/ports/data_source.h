#ifndef CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/data_loader/core/load_plan.pb.h"

namespace capstan::data_loader {

// Where a Dataset's objects come from. Thread-safe; calls block, and retry by themselves what
// another attempt may mend. Errors name the object, never a secret:
//   NOT_FOUND          OBJECT_NOT_FOUND
//   ABORTED            SOURCE_CHANGED: it is not, or no more, the object that was planned
//   DATA_LOSS          SOURCE_TRUNCATED: it ends before its planned size
//   PERMISSION_DENIED  SOURCE_NOT_ALLOWED
//   CANCELLED          the load was stopped
// and those of the kind of source, which are final.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // The objects asked for, or all; sorted by path, with sizes and validators as of now.
  virtual absl::StatusOr<std::vector<LoadPlan::File>> List(
      const std::vector<std::string>& objects) const = 0;
  // Gives `sink` the bytes [offset, offset + length) of a planned object in order and in pieces,
  // each once; OK only if all came from the object that was planned, as far as its source can tell
  // by then. An error of the sink ends the call with it.
  virtual absl::Status Read(const LoadPlan::File& planned, int64_t offset, int64_t length,
                            absl::FunctionRef<absl::Status(absl::string_view)> sink) const = 0;
  // Whether the object is still the one that was planned.
  virtual absl::Status CheckUnchanged(const LoadPlan::File& planned) const = 0;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_PORTS_DATA_SOURCE_H_
