// Messages as JSON or YAML for scripts and for reading.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PROTO_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PROTO_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace capstan::cli {

// Fields in the order of the proto, by their proto names, as submit files have them; maps sorted by
// key; fields that are not set are left out. 64-bit integers are JSON strings, as proto3's JSON
// mapping has them, and plain in YAML. Durations are `1.5s`, times RFC 3339 in UTC, bytes base64.
// The same message always gives the same text. Ends in a newline.
std::string ToJson(const google::protobuf::Message& message);
std::string ToYaml(const google::protobuf::Message& message);

// An object with one list, `{"<field>": […]}`.
std::string ToJson(absl::string_view field,
                   const std::vector<const google::protobuf::Message*>& list);
std::string ToYaml(absl::string_view field,
                   const std::vector<const google::protobuf::Message*>& list);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PROTO_TEXT_H_
