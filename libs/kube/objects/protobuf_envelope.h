// What is around objects in `application/vnd.kubernetes.protobuf`.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "google/protobuf/message_lite.h"

namespace capstan::kube {

// Views are into what was parsed.
struct ProtobufEnvelope {
  absl::string_view api_version;
  absl::string_view kind;
  // The message.
  absl::string_view raw;
};

// Of a list of any type: `XList` has metadata = 1 and items = 2 for every X.
struct ProtobufList {
  std::string resource_version;
  std::string continue_token;
  absl::optional<int64_t> remaining;
  std::vector<absl::string_view> items;
};

// The bytes 6b 38 73 00 and a runtime.Unknown without content encoding. Copies nothing. All errors
// are those of Codec.
absl::StatusOr<ProtobufEnvelope> ParseProtobufEnvelope(absl::string_view body);
absl::StatusOr<ProtobufList> ParseProtobufList(absl::string_view raw);

// Equal messages give equal bytes.
std::string WriteProtobufEnvelope(absl::string_view api_version, absl::string_view kind,
                                  const google::protobuf::MessageLite& message);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_
