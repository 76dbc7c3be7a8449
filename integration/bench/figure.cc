#include "integration/bench/figure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace capstan::bench {
namespace {

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t at = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return values[std::min(at, values.size() - 1)];
}

std::vector<double> InUnit(const std::vector<absl::Duration>& durations, absl::Duration unit) {
  std::vector<double> values;
  values.reserve(durations.size());
  for (const absl::Duration duration : durations) {
    values.push_back(absl::FDivDuration(duration, unit));
  }
  return values;
}

std::string ToLine(const Figure& figure) {
  const auto [least, greatest] = std::minmax_element(figure.values.begin(), figure.values.end());
  std::string line = absl::StrCat(
      "{\"name\":", Quoted(absl::StrCat("platform.", figure.name)),
      ",\"value\":", Number(Median(figure.values)), ",\"unit\":", Quoted(figure.unit),
      ",\"better\":", figure.better == Better::kLower ? "\"lower\"" : "\"higher\"", ",\"spread\":[",
      Number(*least), ",", Number(*greatest), "],\"runs\":", figure.values.size());
  if (!figure.limit_name.empty()) {
    absl::StrAppend(&line, ",\"limit\":", Number(figure.limit),
                    ",\"limit_name\":", Quoted(figure.limit_name));
  }
  if (figure.bar > 0) absl::StrAppend(&line, ",\"bar\":", Number(figure.bar));
  absl::StrAppend(&line, ",\"conditions\":", Quoted(figure.conditions), "}\n");
  return line;
}

}  // namespace capstan::bench
