#include "tools/fleet_simulator/study.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/fleet_simulator/comparison.h"
#include "tools/fleet_simulator/simulation.h"
#include "tools/fleet_simulator/svg_plot.h"
#include "tools/fleet_simulator/trace_reader.h"

namespace capstan::fleet_simulator {
namespace {

constexpr size_t kPlottedPoints = 400;
constexpr size_t kMostTraceBytes = size_t{1} << 30;

absl::StatusOr<std::vector<Policy>> Chosen(const std::vector<std::string>& names) {
  std::vector<Policy> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(Policies().begin(), Policies().end(),
                                    [&name](const Policy& policy) { return policy.name == name; });
    if (found == Policies().end()) {
      std::string known;
      for (const Policy& policy : Policies()) absl::StrAppend(&known, " ", policy.name);
      return status::Error(absl::StatusCode::kInvalidArgument, "UNKNOWN_POLICY",
                           absl::StrCat("--policies: found '", name, "', expected some of", known));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

absl::StatusOr<std::string> ReadTraceFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  absl::StatusOr<std::string> text =
      fd.valid() ? ReadAll(fd.get(), kMostTraceBytes, path) : ErrnoStatus(errno, "open", path);
  if (text.ok()) return text;
  return status::Error(
      absl::StatusCode::kInvalidArgument, "CANNOT_READ",
      absl::StrCat("--trace: cannot read ", path, "; expected a CSV file of at most 1 GiB: ",
                   absl::string_view(text.status().message())));
}

absl::StatusOr<std::vector<Workload>> Workloads(const StudyOptions& options) {
  std::vector<Workload> workloads;
  if (!options.trace_file.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string csv, ReadTraceFile(options.trace_file));
    CAPSTAN_ASSIGN_OR_RETURN(Workload workload, ReadTrace(csv, options.generator.fleet));
    workloads.push_back(std::move(workload));
    return workloads;
  }
  for (int seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    GeneratorOptions generator = options.generator;
    generator.seed = static_cast<uint64_t>(seed);
    workloads.push_back(Generate(generator));
  }
  return workloads;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return absl::OkStatus();
  return status::Error(absl::StatusCode::kInvalidArgument, "CANNOT_WRITE",
                       absl::StrCat("--plots: cannot write ", path));
}

// Of the first workload.
absl::Status WritePlots(const std::string& folder, const std::vector<PolicyOutcomes>& policies) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return status::Error(absl::StatusCode::kInvalidArgument, "CANNOT_WRITE",
                         absl::StrCat("--plots: cannot make ", folder, ": ", error.message()));
  }
  Plot used{"GPUs in use", "days", "%", {}};
  Plot waiting{"Jobs that wait", "days", "Jobs", {}};
  Plot waits{"Jobs that start within a time", "hours", "% of Jobs", {}};
  for (const PolicyOutcomes& policy : policies) {
    const Outcome& outcome = policy.outcomes.front();
    Line used_line{policy.policy, {}};
    Line waiting_line{policy.policy, {}};
    for (const Sample& sample : outcome.samples) {
      const double days = absl::ToDoubleHours(sample.at) / 24;
      used_line.points.emplace_back(days, 100 * sample.used);
      waiting_line.points.emplace_back(days, static_cast<double>(sample.waiting_jobs));
    }
    Line waits_line{policy.policy, {}};
    const size_t jobs = outcome.sorted_waits.size();
    for (size_t p = 1; p <= kPlottedPoints && jobs > 0; ++p) {
      const size_t rank = std::max<size_t>(jobs * p / kPlottedPoints, 1);
      waits_line.points.emplace_back(absl::ToDoubleHours(outcome.sorted_waits[rank - 1]),
                                     100 * static_cast<double>(p) / kPlottedPoints);
    }
    used.lines.push_back(std::move(used_line));
    waiting.lines.push_back(std::move(waiting_line));
    waits.lines.push_back(std::move(waits_line));
  }
  CAPSTAN_RETURN_IF_ERROR(WriteFile(folder + "/used.svg", RenderSvg(used)));
  CAPSTAN_RETURN_IF_ERROR(WriteFile(folder + "/waiting.svg", RenderSvg(waiting)));
  return WriteFile(folder + "/waits.svg", RenderSvg(waits));
}

}  // namespace

absl::Status RunStudy(const StudyOptions& options, std::FILE* out, std::FILE* err) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Policy> policies, Chosen(options.policies));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Workload> workloads, Workloads(options));
  // Lines that are drawn over are for people only.
  const bool on_terminal = isatty(fileno(err)) != 0;
  std::vector<PolicyOutcomes> results;
  for (const Policy& policy : policies) {
    PolicyOutcomes result{policy.name, {}};
    for (size_t w = 0; w < workloads.size(); ++w) {
      const std::string what =
          absl::StrCat(policy.name, ", workload ", w + 1, " of ", workloads.size(), ", ",
                       workloads[w].jobs.size(), " Jobs");
      SimulationOptions simulation;
      simulation.policy = policy;
      if (on_terminal) {
        simulation.progress = [&](double part) {
          std::fprintf(err, "\r%s: %.0f %%\033[K", what.c_str(), 100 * part);
        };
      } else {
        std::fprintf(err, "%s\n", what.c_str());
      }
      CAPSTAN_ASSIGN_OR_RETURN(Outcome outcome, Simulate(workloads[w], simulation));
      result.outcomes.push_back(std::move(outcome));
    }
    results.push_back(std::move(result));
  }
  if (on_terminal) std::fprintf(err, "\r\033[K");
  std::string text;
  if (options.json) {
    text = ComparisonJsonLines(results, options.first_seed);
  } else {
    text = absl::StrCat(ComparisonTable(results), "\n");
    for (const PolicyOutcomes& result : results) absl::StrAppend(&text, WaitTable(result), "\n");
  }
  std::fputs(text.c_str(), out);
  if (!options.plots_folder.empty()) return WritePlots(options.plots_folder, results);
  return absl::OkStatus();
}

}  // namespace capstan::fleet_simulator
