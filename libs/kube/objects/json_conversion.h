// Between Kubernetes' JSON and the messages of libs/kube/objects/proto.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CONVERSION_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CONVERSION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "libs/kube/objects/object_converter.h"

namespace capstan::kube {

// Kubernetes' JSON is not protobuf's: metav1.Time and MicroTime are RFC 3339 text, Quantity text,
// IntOrString a number or text, bytes base64, integers of 64 bits numbers, ExtraValue a list;
// RawExtension and FieldsV1 hold any JSON; VolumeSource, PersistentVolumeSource and
// LocalObjectReference lie open in what embeds them.
//
// What one side has no place for is dropped, nulls too. A field is written if it is set, except
// empty text, which Go's types cannot tell from none: objects that a server sent as protobuf so
// show zeros that the server's own JSON would leave out. Both directions are linear; the depth is
// that of the messages.

// Adds the fields of a JSON object to `message`. INVALID_ARGUMENT with reason OBJECT_MALFORMED, and
// a path in the text, for a value of the wrong type; it repeats no value.
absl::Status JsonToMessage(absl::string_view json, google::protobuf::Message* message);

// A JSON object. It has `api_version` and `kind` if they are not empty. An error as above
// if a time is out of the years 1 to 9999, or RawExtension holds no JSON.
absl::StatusOr<std::string> MessageToJson(absl::string_view api_version, absl::string_view kind,
                                          const google::protobuf::Message& message);

// Of the kinds in resources.h, metav1's Status and DeleteOptions.
const ObjectConverter& BuiltinConverter();

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_JSON_CONVERSION_H_
