#ifndef CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_METRICS_H_
#define CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_METRICS_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/metrics/registry.h"

namespace capstan::kube {

// One queue's series, labelled with its name:
//   kube_work_queue_depth_keys, kube_work_queue_working_keys  gauges
//   kube_work_queue_adds_total, kube_work_queue_retries_total
//   kube_work_queue_wait_seconds       from ready to given out
//   kube_work_queue_work_seconds       from given out to done
//   kube_work_queue_longest_running_seconds  as of the last change of the queue
// Thread-safe.
class WorkQueueMetrics {
 public:
  // `registry` must outlive it.
  WorkQueueMetrics(metrics::Registry* registry, absl::string_view name);

  void CountAdd() { adds_.Increment(); }
  void CountRetry() { retries_.Increment(); }
  void ObserveWait(absl::Duration waited) { wait_.Observe(waited); }
  void ObserveWork(absl::Duration took) { work_.Observe(took); }
  void Set(size_t depth, size_t working, absl::Duration longest_running) {
    depth_.Set(static_cast<double>(depth));
    working_.Set(static_cast<double>(working));
    longest_running_.Set(absl::ToDoubleSeconds(longest_running));
  }

 private:
  metrics::Gauge depth_;
  metrics::Gauge working_;
  metrics::Counter adds_;
  metrics::Counter retries_;
  metrics::Histogram wait_;
  metrics::Histogram work_;
  metrics::Gauge longest_running_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_METRICS_H_
