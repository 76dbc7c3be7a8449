// Keeps as many Pods as each PodSet says.
#ifndef CAPSTAN_EXAMPLES_KUBE_CONTROLLER_POD_SETS_H_
#define CAPSTAN_EXAMPLES_KUBE_CONTROLLER_POD_SETS_H_

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/resources.h"
#include "libs/log/log.h"

namespace capstan::examples {

inline constexpr kube::TypedResource<kube::DynamicObject> kPodSets = {"examples.capstan.dev", "v1",
                                                                      "PodSet", "podsets", true};

// Runs until `stop`. The connection is for this alone.
absl::Status RunPodSets(kube::Connection* connection, const absl::optional<log::Logger>& log,
                        const absl::Notification& stop);

}  // namespace capstan::examples

#endif  // CAPSTAN_EXAMPLES_KUBE_CONTROLLER_POD_SETS_H_
