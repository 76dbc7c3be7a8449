#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_SVG_PLOT_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_SVG_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace capstan::fleet_simulator {

struct Line {
  std::string label;
  // Ascending x.
  std::vector<std::pair<double, double>> points;
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

// A picture of its own, 800 by 420, with axes from the smallest to the greatest values and a
// legend. Labels are escaped. Colours differ in lightness too; of more than six lines some repeat.
std::string RenderSvg(const Plot& plot);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_SVG_PLOT_H_
