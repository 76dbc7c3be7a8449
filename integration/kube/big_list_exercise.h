// Lists of many objects, in pages, at once and as a watch list, of kube-apiserver and the fake.
#ifndef CAPSTAN_INTEGRATION_KUBE_BIG_LIST_EXERCISE_H_
#define CAPSTAN_INTEGRATION_KUBE_BIG_LIST_EXERCISE_H_

#include <cstddef>

#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {

// With GoogleTest's expectations: each list has every object once, takes time in proportion to
// their number and memory within a bound for each. Says on stdout what it measured.
void ExerciseBigListOfServer(testenv::KubernetesCluster* cluster, size_t objects);
void ExerciseBigListOfFake(size_t objects);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_BIG_LIST_EXERCISE_H_
