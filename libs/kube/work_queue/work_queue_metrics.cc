#include "libs/kube/work_queue/work_queue_metrics.h"

#include <string>

namespace capstan::kube {
namespace {

metrics::Labels LabelsOf(absl::string_view name) { return {{"queue", std::string(name)}}; }

}  // namespace

WorkQueueMetrics::WorkQueueMetrics(metrics::Registry* registry, absl::string_view name)
    : depth_(
          registry->AddGauge("kube_work_queue_depth_keys", "Keys that are ready.", LabelsOf(name))),
      working_(registry->AddGauge("kube_work_queue_working_keys", "Keys that are worked on.",
                                  LabelsOf(name))),
      adds_(registry->AddCounter("kube_work_queue_adds_total", "Keys that were added.",
                                 LabelsOf(name))),
      retries_(registry->AddCounter("kube_work_queue_retries_total",
                                    "Keys that were added after a failure.", LabelsOf(name))),
      wait_(registry->AddHistogram("kube_work_queue_wait_seconds", "From ready to given out.",
                                   metrics::LatencyBuckets(), LabelsOf(name))),
      work_(registry->AddHistogram("kube_work_queue_work_seconds", "From given out to done.",
                                   metrics::LatencyBuckets(), LabelsOf(name))),
      longest_running_(registry->AddGauge("kube_work_queue_longest_running_seconds",
                                          "The longest work in hand.", LabelsOf(name))) {}

}  // namespace capstan::kube
