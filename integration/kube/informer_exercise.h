// Informers and a controller of a real control plane while parts of it fail and others write.
#ifndef CAPSTAN_INTEGRATION_KUBE_INFORMER_EXERCISE_H_
#define CAPSTAN_INTEGRATION_KUBE_INFORMER_EXERCISE_H_

#include <cstdint>

#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {

// Runs one, chosen by the seed, with GoogleTest's expectations: that caches end as the server's
// truth, handlers see no object go back nor a state twice, own writes are read at once, and the
// controller makes no object twice. In a namespace of its own.
void ExerciseInformers(testenv::KubernetesCluster* cluster, uint64_t seed);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_INFORMER_EXERCISE_H_
