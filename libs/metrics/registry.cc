#include "libs/metrics/registry.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace capstan::metrics {
namespace {

[[noreturn]] void RefuseName(const std::string& name, const char* why) {
  std::fprintf(stderr, "metric %s: %s\n", name.c_str(), why);
  std::abort();
}

void RequireValid(const std::string& name, bool is_counter) {
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) {
      RefuseName(name, "use lower-case letters, digits and _");
    }
  }
  if (absl::EndsWith(name, "_total") != is_counter) {
    RefuseName(name, "counters, and only they, end in _total");
  }
  if (absl::EndsWith(name, "_ms") || absl::EndsWith(name, "_milliseconds")) {
    RefuseName(name, "use base units: seconds, bytes");
  }
}

// prometheus-cpp reports one name used for two kinds by an exception.
template <typename Builder>
auto& Register(Builder builder, const std::string& name, absl::string_view help,
               prometheus::Registry& registry) {
  try {
    return builder.Name(name).Help(std::string(help)).Register(registry);
  } catch (const std::exception& error) {
    RefuseName(name, error.what());
  }
}

}  // namespace

void Counter::Increment(double by) { series_->Increment(by); }
double Counter::value() const { return series_->Value(); }
void Gauge::Set(double value) { series_->Set(value); }
void Gauge::Add(double by) { series_->Increment(by); }
double Gauge::value() const { return series_->Value(); }
void Histogram::Observe(double value) { series_->Observe(value); }

std::vector<double> LatencyBuckets() {
  return {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
          0.2,    0.5,    1,      2,     5,     10,    20,   50,   100};
}

Registry::Registry(absl::string_view service)
    : prefix_(absl::StrCat("capstan_", service, "_")),
      registry_(std::make_unique<prometheus::Registry>()) {}

Registry::~Registry() = default;

std::string Registry::FullName(absl::string_view name) const { return absl::StrCat(prefix_, name); }

Counter Registry::AddCounter(absl::string_view name, absl::string_view help, const Labels& labels) {
  const std::string full_name = FullName(name);
  RequireValid(full_name, /*is_counter=*/true);
  auto& family = Register(prometheus::BuildCounter(), full_name, help, *registry_);
  return Counter(&family.Add(labels));
}

Gauge Registry::AddGauge(absl::string_view name, absl::string_view help, const Labels& labels) {
  const std::string full_name = FullName(name);
  RequireValid(full_name, /*is_counter=*/false);
  auto& family = Register(prometheus::BuildGauge(), full_name, help, *registry_);
  return Gauge(&family.Add(labels));
}

Histogram Registry::AddHistogram(absl::string_view name, absl::string_view help,
                                 const std::vector<double>& upper_bounds, const Labels& labels) {
  const std::string full_name = FullName(name);
  RequireValid(full_name, /*is_counter=*/false);
  auto& family = Register(prometheus::BuildHistogram(), full_name, help, *registry_);
  return Histogram(&family.Add(labels, upper_bounds));
}

std::string Registry::RenderText() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace capstan::metrics
