#include "tools/fleet_simulator/svg_plot.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace capstan::fleet_simulator {
namespace {

constexpr double kLeft = 70;
constexpr double kRight = 780;
constexpr double kTop = 40;
constexpr double kBottom = 360;
constexpr int kTicks = 5;
constexpr std::array<const char*, 6> kColours = {"#1b4965", "#d1495b", "#3a9d5d",
                                                 "#edae49", "#7a5195", "#4d4d4d"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Of what lies in the range, 0 to 1.
  double Part(double value) const { return high > low ? (value - low) / (high - low) : 0; }
};

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         Escaped(text));
}

}  // namespace

std::string RenderSvg(const Plot& plot) {
  Range x_range;
  Range y_range;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      x_range.Include(x);
      y_range.Include(y);
    }
  }
  const auto x_of = [&](double x) { return kLeft + (kRight - kLeft) * x_range.Part(x); };
  const auto y_of = [&](double y) { return kBottom - (kBottom - kTop) * y_range.Part(y); };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 420\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"800\" height=\"420\" fill=\"#ffffff\"/>\n";
  absl::StrAppend(&svg, Text(400, 20, "middle", plot.title), Text(425, 410, "middle", plot.x_label),
                  Text(kLeft - 60, kTop - 12, "start", plot.y_label));
  for (int t = 0; t <= kTicks && x_range.low <= x_range.high; ++t) {
    const double x = x_range.low + (x_range.high - x_range.low) * t / kTicks;
    const double y = y_range.low + (y_range.high - y_range.low) * t / kTicks;
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                          "stroke=\"#dddddd\"/>\n",
                          kLeft, y_of(y), kRight, y_of(y));
    absl::StrAppend(&svg, Text(x_of(x), kBottom + 18, "middle", absl::StrFormat("%.4g", x)),
                    Text(kLeft - 6, y_of(y) + 4, "end", absl::StrFormat("%.4g", y)));
  }
  for (size_t l = 0; l < plot.lines.size(); ++l) {
    const char* colour = kColours[l % kColours.size()];
    absl::StrAppend(&svg, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", colour,
                    "\" points=\"");
    for (const auto& [x, y] : plot.lines[l].points) {
      absl::StrAppendFormat(&svg, "%.1f,%.1f ", x_of(x), y_of(y));
    }
    const double row = kTop + 16 + 16 * static_cast<double>(l);
    absl::StrAppend(&svg, "\"/>\n");
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n",
                          kRight - 140, row - 9, colour);
    absl::StrAppend(&svg, Text(kRight - 124, row, "start", plot.lines[l].label));
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace capstan::fleet_simulator
