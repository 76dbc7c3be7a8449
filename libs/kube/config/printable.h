#ifndef CAPSTAN_LIBS_KUBE_CONFIG_PRINTABLE_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan::kube {

// One line that no terminal obeys, of text of others that is shown to people: each run of control
// characters becomes a space, and what is no UTF-8 U+FFFD.
std::string Printable(absl::string_view text);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_PRINTABLE_H_
