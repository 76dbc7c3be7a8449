#ifndef CAPSTAN_LIBS_KUBE_CLIENT_STATUS_BODY_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_STATUS_BODY_H_

#include "absl/strings/string_view.h"

namespace capstan::kube {

// Whether a body, JSON or protobuf, is a metav1.Status: what a server may answer to a deletion in
// place of the object.
bool IsStatusBody(absl::string_view body);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_STATUS_BODY_H_
