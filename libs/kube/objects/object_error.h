#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_ERROR_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/status/error.h"

namespace capstan::kube {

inline constexpr char kObjectMalformed[] = "OBJECT_MALFORMED";

// INVALID_ARGUMENT. `what` must have nothing of the object's text: it may be a Secret's.
inline absl::Status ObjectMalformed(absl::string_view what) {
  return status::Error(
      absl::StatusCode::kInvalidArgument, kObjectMalformed,
      absl::StrCat("an object of the Kubernetes API cannot be read: ", what,
                   "; ask for a type that the server has, or mend what stands in between"));
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_OBJECT_ERROR_H_
