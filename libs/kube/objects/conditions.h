#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_CONDITIONS_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_CONDITIONS_H_

#include "absl/strings/string_view.h"

namespace capstan::kube {

// Whether one of `conditions` (of Pods, Nodes, metav1) has that type and is True; one that is not
// there, or Unknown, is not.
template <typename Conditions>
bool IsTrue(const Conditions& conditions, absl::string_view type) {
  for (const auto& condition : conditions) {
    if (condition.type() == type) return condition.status() == "True";
  }
  return false;
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_CONDITIONS_H_
