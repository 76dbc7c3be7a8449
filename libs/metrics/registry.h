// Metrics of one part. Names are `capstan_<service>_<noun>_<unit>` in base units (seconds, bytes),
// counters end in `_total`; the registry puts the first two words there itself.
#ifndef CAPSTAN_LIBS_METRICS_REGISTRY_H_
#define CAPSTAN_LIBS_METRICS_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace capstan::metrics {

// Label values must come from small closed sets: never a job, a person or a message.
using Labels = std::map<std::string, std::string>;

// Handles to one time series each: cheap to copy, thread-safe, valid as long as the registry.
class Counter {
 public:
  void Increment(double by = 1);
  double value() const;

 private:
  friend class Registry;
  explicit Counter(prometheus::Counter* series) : series_(series) {}
  prometheus::Counter* series_;
};

class Gauge {
 public:
  void Set(double value);
  void Add(double by);
  double value() const;

 private:
  friend class Registry;
  explicit Gauge(prometheus::Gauge* series) : series_(series) {}
  prometheus::Gauge* series_;
};

class Histogram {
 public:
  void Observe(double value);
  void Observe(absl::Duration value) { Observe(absl::ToDoubleSeconds(value)); }

 private:
  friend class Registry;
  explicit Histogram(prometheus::Histogram* series) : series_(series) {}
  prometheus::Histogram* series_;
};

// Upper bounds for durations from 100 µs to 100 s, three to a decade.
std::vector<double> LatencyBuckets();

// Makes and keeps the metrics of one service. Thread-safe. Asking twice for the same name and
// labels gives the same series. A name that breaks the rule, or one name used for two kinds, is a
// mistake of the caller's and aborts the process at start-up, with the name.
class Registry {
 public:
  // `service` as in the metric names, e.g. `scheduler`.
  explicit Registry(absl::string_view service);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // `name` without the prefix, e.g. `placements_total`.
  Counter AddCounter(absl::string_view name, absl::string_view help, const Labels& labels = {});
  // E.g. `queued_jobs`.
  Gauge AddGauge(absl::string_view name, absl::string_view help, const Labels& labels = {});
  // E.g. `round_duration_seconds`.
  Histogram AddHistogram(absl::string_view name, absl::string_view help,
                         const std::vector<double>& upper_bounds = LatencyBuckets(),
                         const Labels& labels = {});

  // Everything in the text exposition format of Prometheus, version 0.0.4.
  std::string RenderText() const;

 private:
  std::string FullName(absl::string_view name) const;

  const std::string prefix_;
  std::unique_ptr<prometheus::Registry> registry_;
};

}  // namespace capstan::metrics

#endif  // CAPSTAN_LIBS_METRICS_REGISTRY_H_
