#ifndef CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_METRICS_H_
#define CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_METRICS_H_

#include "absl/strings/string_view.h"
#include "libs/metrics/registry.h"

namespace capstan::kube {

// kube_reconciles_total, labelled with the reconciler's name and the result, `ok` or `error`. Times
// are those of its queue (WorkQueueMetrics). Thread-safe.
class ReconcilerMetrics {
 public:
  // `registry` must outlive it.
  ReconcilerMetrics(metrics::Registry* registry, absl::string_view name);

  void Count(bool ok) { (ok ? ok_ : error_).Increment(); }

 private:
  metrics::Counter ok_;
  metrics::Counter error_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_METRICS_H_
