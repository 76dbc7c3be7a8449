#include "tools/fleet_simulator/study.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/fleet_simulator/svg_plot.h"

namespace capstan::fleet_simulator {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class StudyTest : public ::testing::Test {
 protected:
  StudyTest() : folder_(std::string(std::getenv("TEST_TMPDIR")) + "/study") {
    std::filesystem::create_directories(folder_);
    options_.generator.fleet.nodes = 4;
    options_.generator.fleet.nodes_per_rack = 2;
    options_.generator.span = absl::Hours(12);
    options_.seeds = 2;
  }

  // What was printed, or the status.
  std::string Printed() {
    std::FILE* out = std::fopen((folder_ + "/out").c_str(), "w");
    std::FILE* err = std::fopen((folder_ + "/err").c_str(), "w");
    const absl::Status status = RunStudy(options_, out, err);
    std::fclose(out);
    std::fclose(err);
    return status.ok() ? TextOf(folder_ + "/out") : status.ToString();
  }

  const std::string folder_;
  StudyOptions options_;
};

TEST_F(StudyTest, PrintsATableAndDrawsPlots) {
  options_.plots_folder = folder_ + "/plots/here";
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("no-backfill"));
  EXPECT_THAT(text, HasSubstr("utilisation, %"));
  EXPECT_THAT(text, HasSubstr("64+ GPUs"));
  EXPECT_THAT(TextOf(options_.plots_folder + "/waits.svg"), HasSubstr("<polyline"));
  EXPECT_THAT(TextOf(folder_ + "/err"), HasSubstr("all, workload 2 of 2"));
}

TEST_F(StudyTest, ReadsATraceAndPrintsJson) {
  options_.trace_file = folder_ + "/trace.csv";
  std::ofstream trace(options_.trace_file);
  trace << "submit_s,tasks,gpus_per_task,runtime_s\n0,1,8,600\n60,2,8,600\n";
  trace.close();
  options_.policies = {"all"};
  options_.json = true;
  EXPECT_THAT(Printed(), HasSubstr("{\"policy\":\"all\",\"seed\":1,\"measure\":\"utilisation\""));
}

TEST_F(StudyTest, NamesWhatIsWrong) {
  options_.policies = {"all", "fastest"};
  EXPECT_THAT(Printed(), HasSubstr("found 'fastest', expected some of all no-backfill"));
  options_.policies = {"all"};
  options_.trace_file = folder_ + "/bad.csv";
  std::ofstream trace(options_.trace_file);
  trace << "submit_s,tasks,gpus_per_task,runtime_s\n0,1,8,x\n";
  trace.close();
  EXPECT_THAT(Printed(), HasSubstr("line 2, runtime_s: found 'x'"));
}

TEST_F(StudyTest, SaysThatATraceIsNotThere) {
  options_.trace_file = folder_ + "/absent.csv";
  EXPECT_THAT(Printed(), HasSubstr("--trace: cannot read"));
  options_.trace_file = folder_;
  EXPECT_THAT(Printed(), HasSubstr("--trace: cannot read"));
}

TEST(SvgPlotTest, EscapesLabels) {
  Plot plot{"a < b & c", "x", "y", {{"\"line\"", {{0, 1}, {2, 3}}}}};
  const std::string svg = RenderSvg(plot);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("&quot;line&quot;"));
}

}  // namespace
}  // namespace capstan::fleet_simulator
