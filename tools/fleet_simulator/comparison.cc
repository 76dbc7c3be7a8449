#include "tools/fleet_simulator/comparison.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/wrappers.pb.h"
#include "libs/utf8/utf8.h"

namespace capstan::fleet_simulator {
namespace {

// As a string of JSON; a trace's queue may have any name.
std::string Quoted(const std::string& name) {
  google::protobuf::StringValue value;
  value.set_value(ToUtf8(name));
  std::string json;
  return google::protobuf::util::MessageToJsonString(value, &json).ok() ? json : "\"\"";
}

std::vector<double> ValuesOf(const PolicyOutcomes& policy, const Measure& measure) {
  std::vector<double> values;
  values.reserve(policy.outcomes.size());
  for (const Outcome& outcome : policy.outcomes) values.push_back(measure.of(outcome));
  return values;
}

std::string DifferenceText(const Difference& difference, bool higher_is_better) {
  std::string text = absl::StrFormat("%+.2f", difference.mean);
  if (std::isfinite(difference.margin)) absl::StrAppendFormat(&text, " ± %.2f", difference.margin);
  if (difference.clear()) {
    absl::StrAppend(&text, (difference.mean > 0) == higher_is_better ? " better" : " worse");
  }
  return text;
}

// Names of policies, queues and sizes in a table of waits.
constexpr size_t kWaiterWidth = 20;

// `±` is one column and two bytes.
std::string Padded(const std::string& text, size_t width) {
  size_t columns = 0;
  for (const char byte : text) columns += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return columns < width ? absl::StrCat(text, std::string(width - columns, ' ')) : text;
}

void AppendWaits(std::string& table, const std::string& of, const Waits& waits) {
  absl::StrAppend(
      &table, Padded(of, kWaiterWidth),
      absl::StrFormat("%8d  %8.2f  %8.2f  %8.2f\n", waits.jobs, absl::ToDoubleHours(waits.p50),
                      absl::ToDoubleHours(waits.p90), absl::ToDoubleHours(waits.p99)));
}

}  // namespace

Difference MeanDifference(const std::vector<double>& values) {
  Difference difference;
  if (values.empty()) return difference;
  const auto count = static_cast<double>(values.size());
  for (double value : values) difference.mean += value / count;
  if (values.size() < 2) return difference;
  double squares = 0;
  for (double value : values) squares += (value - difference.mean) * (value - difference.mean);
  const double deviation = std::sqrt(squares / (count - 1));
  const boost::math::students_t distribution(count - 1);
  difference.margin = boost::math::quantile(distribution, 0.975) * deviation / std::sqrt(count);
  return difference;
}

std::string ComparisonTable(const std::vector<PolicyOutcomes>& policies) {
  constexpr size_t kNameWidth = 28;
  constexpr size_t kWidth = 32;
  if (policies.empty()) return "";
  std::string table = Padded("", kNameWidth);
  for (const PolicyOutcomes& policy : policies) {
    absl::StrAppend(&table, Padded(policy.policy, &policy == &policies.front() ? 12 : kWidth + 10));
  }
  absl::StrAppend(&table, "\n");
  for (const Measure& measure : Measures()) {
    const std::string unit = *measure.unit == 0 ? "" : absl::StrCat(", ", measure.unit);
    absl::StrAppend(&table, Padded(absl::StrCat(measure.name, unit), kNameWidth));
    const std::vector<double> first = ValuesOf(policies.front(), measure);
    absl::StrAppend(&table, Padded(absl::StrFormat("%.2f", MeanDifference(first).mean), 12));
    for (size_t p = 1; p < policies.size(); ++p) {
      const std::vector<double> values = ValuesOf(policies[p], measure);
      std::vector<double> differences;
      for (size_t i = 0; i < values.size(); ++i) differences.push_back(values[i] - first[i]);
      absl::StrAppend(
          &table, Padded(absl::StrFormat("%.2f", MeanDifference(values).mean), 10),
          Padded(
              absl::StrCat(
                  "(", DifferenceText(MeanDifference(differences), measure.higher_is_better), ")"),
              kWidth));
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

std::string WaitTable(const PolicyOutcomes& policy) {
  if (policy.outcomes.empty()) return "";
  const Outcome& outcome = policy.outcomes.front();
  std::string table =
      absl::StrCat(Padded(policy.policy, kWaiterWidth), "    jobs     p50 h     p90 h     p99 h\n");
  for (const auto& [queue, waits] : outcome.by_queue) AppendWaits(table, queue, waits);
  for (const auto& [size, waits] : outcome.by_size) {
    AppendWaits(table, absl::StrCat(size, " GPUs"), waits);
  }
  return table;
}

std::string ComparisonJsonLines(const std::vector<PolicyOutcomes>& policies, int first_seed) {
  std::string lines;
  for (const PolicyOutcomes& policy : policies) {
    for (size_t i = 0; i < policy.outcomes.size(); ++i) {
      const Outcome& outcome = policy.outcomes[i];
      const std::string head = absl::StrFormat("{\"policy\":\"%s\",\"seed\":%d,", policy.policy,
                                               first_seed + static_cast<int>(i));
      for (const Measure& measure : Measures()) {
        absl::StrAppendFormat(&lines, "%s\"measure\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}\n",
                              head, measure.name, measure.unit, measure.of(outcome));
      }
      const auto add_waits = [&](const char* of, const std::map<std::string, Waits>& all) {
        for (const auto& [name, waits] : all) {
          absl::StrAppendFormat(&lines,
                                "%s\"%s\":%s,\"jobs\":%d,\"mean_wait_h\":%.6g,\"p50_wait_h\":%.6g,"
                                "\"p90_wait_h\":%.6g,\"p99_wait_h\":%.6g}\n",
                                head, of, Quoted(name), waits.jobs, absl::ToDoubleHours(waits.mean),
                                absl::ToDoubleHours(waits.p50), absl::ToDoubleHours(waits.p90),
                                absl::ToDoubleHours(waits.p99));
        }
      };
      add_waits("queue", outcome.by_queue);
      add_waits("gpus", outcome.by_size);
    }
  }
  return lines;
}

}  // namespace capstan::fleet_simulator
