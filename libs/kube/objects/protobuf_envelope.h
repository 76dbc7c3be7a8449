// What is around objects in `application/vnd.kubernetes.protobuf`.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "google/protobuf/message_lite.h"
#include "libs/kube/objects/codec.h"

namespace capstan::kube {

// Views are into what was parsed.
struct ProtobufEnvelope {
  absl::string_view api_version;
  absl::string_view kind;
  // The message.
  absl::string_view raw;
};

// The bytes 6b 38 73 00 and a runtime.Unknown without content encoding. Copies nothing. All errors
// are those of Codec.
absl::StatusOr<ProtobufEnvelope> ParseProtobufEnvelope(absl::string_view body);
// Of a list of any type: `XList` has metadata = 1 and items = 2 for every X.
absl::StatusOr<EncodedList> ParseProtobufList(absl::string_view raw);

// Of a message of any kind of object: `X` has metadata = 1 for every X. Absent if it is malformed,
// or if its metadata is in several pieces.
absl::optional<ObjectNames> FindProtobufNames(absl::string_view object);

// Equal messages give equal bytes.
std::string WriteProtobufEnvelope(absl::string_view api_version, absl::string_view kind,
                                  const google::protobuf::MessageLite& message);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_PROTOBUF_ENVELOPE_H_
