#include "libs/kube/reconciler/reconciler_metrics.h"

#include <string>

namespace capstan::kube {
namespace {

metrics::Counter Add(metrics::Registry* registry, absl::string_view name, const char* result) {
  return registry->AddCounter("kube_reconciles_total", "Calls of a reconciler that have ended.",
                              {{"reconciler", std::string(name)}, {"result", result}});
}

}  // namespace

ReconcilerMetrics::ReconcilerMetrics(metrics::Registry* registry, absl::string_view name)
    : ok_(Add(registry, name, "ok")), error_(Add(registry, name, "error")) {}

}  // namespace capstan::kube
