#include "libs/kube/informer/informer_metrics.h"

namespace capstan::kube {
namespace {

metrics::Labels LabelsOf(const ObjectScope& scope) {
  return {{"resource", scope.type.plural}, {"scope", ToString(scope)}};
}

}  // namespace

InformerMetrics::InformerMetrics(metrics::Registry* registry, const ObjectScope& scope)
    : objects_(registry->AddGauge("kube_informer_objects", "Objects in the cache of an informer.",
                                  LabelsOf(scope))),
      events_(registry->AddCounter("kube_informer_events_total", "Events of watches.",
                                   LabelsOf(scope))),
      lists_(registry->AddCounter("kube_informer_lists_total",
                                  "Whole states that an informer has taken over.",
                                  LabelsOf(scope))),
      watches_(registry->AddCounter("kube_informer_watches_total",
                                    "Watches that an informer has begun.", LabelsOf(scope))),
      failures_(registry->AddCounter("kube_informer_failures_total",
                                     "Lists and watches that have failed.", LabelsOf(scope))),
      last_event_(registry->AddGauge("kube_informer_last_event_timestamp_seconds",
                                     "When a watch has shown the last event.", LabelsOf(scope))) {}

}  // namespace capstan::kube
