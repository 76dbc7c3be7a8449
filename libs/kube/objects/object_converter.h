// Between the two encodings of one object.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_CONVERTER_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_CONVERTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

// Turns the JSON text of an object into its protobuf message, without envelope, and back. Errors
// are INVALID_ARGUMENT with reason OBJECT_MALFORMED and repeat nothing of the object. Immutable,
// hence for any thread.
class ObjectConverter {
 public:
  virtual ~ObjectConverter() = default;

  // Whether objects of that kind can be converted: (`apps/v1`, `Deployment`).
  virtual bool Knows(absl::string_view api_version, absl::string_view kind) const = 0;
  // Only for kinds that it knows. Fields that the message has not are dropped.
  virtual absl::StatusOr<std::string> ToProtobuf(absl::string_view api_version,
                                                 absl::string_view kind,
                                                 absl::string_view json) const = 0;
  // The JSON text has apiVersion and kind; unknown fields of the message are dropped.
  virtual absl::StatusOr<std::string> ToJson(absl::string_view api_version, absl::string_view kind,
                                             absl::string_view message) const = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_CONVERTER_H_
