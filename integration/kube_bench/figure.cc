#include "integration/kube_bench/figure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "nlohmann/json.hpp"

namespace capstan::kube::bench {

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t at = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return values[std::min(at, values.size() - 1)];
}

std::string ToLine(const Figure& figure) {
  const auto [least, greatest] = std::minmax_element(figure.values.begin(), figure.values.end());
  nlohmann::ordered_json line = {
      {"name", figure.name},           {"value", Percentile(figure.values, 0.5)},
      {"unit", figure.unit},           {"better", figure.lower_is_better ? "lower" : "higher"},
      {"spread", {*least, *greatest}}, {"runs", figure.values.size()}};
  if (figure.bar > 0) line["limit"] = figure.bar;
  line["conditions"] = figure.conditions;
  return line.dump() + "\n";
}

}  // namespace capstan::kube::bench
