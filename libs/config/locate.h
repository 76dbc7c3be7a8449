#ifndef CAPSTAN_LIBS_CONFIG_LOCATE_H_
#define CAPSTAN_LIBS_CONFIG_LOCATE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/config/proto_reader.h"

namespace capstan::config {

// What was found wrong after reading, in terms of the file: each field violation of `status` gets
// the line and column at which the field, or the nearest one above it, was written, in the form of
// ReadProto's own errors. `prefix` is dropped from the fields' paths. A status without violations
// comes back as it is.
absl::Status Locate(const absl::Status& status, const SourceMap& places, absl::string_view file,
                    absl::string_view prefix = "");

}  // namespace capstan::config

#endif  // CAPSTAN_LIBS_CONFIG_LOCATE_H_
