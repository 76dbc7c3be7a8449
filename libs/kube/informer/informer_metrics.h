#ifndef CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_METRICS_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_METRICS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/metrics/registry.h"

namespace capstan::kube {

// One informer's series, labelled with its resource and scope:
//   kube_informer_objects                       gauge
//   kube_informer_events_total                  events of watches
//   kube_informer_lists_total                   whole states taken over, the first one too
//   kube_informer_watches_total                 watches begun, after the first: restarts
//   kube_informer_failures_total                requests that failed, or watches that broke
//   kube_informer_last_event_timestamp_seconds  its age is time() less this
// Thread-safe.
class InformerMetrics {
 public:
  // `registry` must outlive it.
  InformerMetrics(metrics::Registry* registry, const ObjectScope& scope);

  void SetObjects(size_t objects) { objects_.Set(static_cast<double>(objects)); }
  void CountEvent(absl::Time when) {
    events_.Increment();
    last_event_.Set(absl::ToDoubleSeconds(when - absl::UnixEpoch()));
  }
  void CountList() { lists_.Increment(); }
  void CountWatch() { watches_.Increment(); }
  void CountFailure() { failures_.Increment(); }

 private:
  metrics::Gauge objects_;
  metrics::Counter events_;
  metrics::Counter lists_;
  metrics::Counter watches_;
  metrics::Counter failures_;
  metrics::Gauge last_event_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_METRICS_H_
