// Configuration and submit files: YAML or JSON into a protobuf message, with a line and a column
// for everything that is wrong.
#ifndef CAPSTAN_LIBS_CONFIG_PROTO_READER_H_
#define CAPSTAN_LIBS_CONFIG_PROTO_READER_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "libs/config/document.h"

namespace capstan::config {

// Where each field was written, by its path (`spec.task_groups[0].replicas`), so that what is found
// wrong later, for instance by a server, can be shown at its place.
using SourceMap = std::map<std::string, Mark>;

// Fills `message` from `text`. Rules:
// - Keys are the proto's field names, also in lowerCamelCase. An unknown key is an error, with the
//   nearest known one.
// - Integers are decimal. A field `x_bytes` also takes quantities (`4Gi`), and may be written `x`.
// A
//   field `x_millis` may be written `x`, which then takes quantities (`500m`, `2`).
// - Durations are `30s`, `15m`, `1h30m`; times are RFC 3339.
// - Enums are values' names, with or without the type's prefix, in any case.
// - Text may be written without quotes, whatever it looks like, except null.
// All problems are found in one go, the first 20 are reported: INVALID_ARGUMENT, reason
// INVALID_FILE, a message of one line `<file>:<line>:<column>: <path>: <problem>` each, and the
// paths as field violations. On an error the content of `message` is unspecified.
absl::Status ReadProto(absl::string_view text, absl::string_view file,
                       google::protobuf::Message* message, SourceMap* source_map = nullptr);

// The same from a file. NOT_FOUND or PERMISSION_DENIED with the path if it can't be read.
absl::Status ReadProtoFile(const std::string& path, google::protobuf::Message* message,
                           SourceMap* source_map = nullptr);

}  // namespace capstan::config

#endif  // CAPSTAN_LIBS_CONFIG_PROTO_READER_H_
