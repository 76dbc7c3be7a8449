// Labels and taints of Nodes, as Kubernetes has them
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels, Syntax and character
// set).
#ifndef CAPSTAN_LIBS_LABEL_LABEL_H_
#define CAPSTAN_LIBS_LABEL_LABEL_H_

#include "absl/strings/string_view.h"

namespace capstan::label {

// `[prefix/]name`, the prefix a DNS name, the name of at most 63 letters, digits, `-`, `_` and `.`.
bool IsKey(absl::string_view key);
// Empty, or as such a name.
bool IsValue(absl::string_view value);

// What was expected, for who is told that it is not so.
inline constexpr char kKeyRule[] =
    "[prefix/]name, such as nvidia.com/gpu.product: the prefix a DNS name of at most 253 lower-case"
    " characters, the name 1 to 63 of [A-Za-z0-9._-] with a letter or digit at both ends";
inline constexpr char kValueRule[] =
    "nothing, or 1 to 63 of [A-Za-z0-9._-] with a letter or digit at both ends";

}  // namespace capstan::label

#endif  // CAPSTAN_LIBS_LABEL_LABEL_H_
