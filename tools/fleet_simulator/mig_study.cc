#include "tools/fleet_simulator/mig_study.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "libs/mig/packing.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "tools/fleet_simulator/comparison.h"
#include "tools/fleet_simulator/mig_simulation.h"

namespace capstan::fleet_simulator {
namespace {

struct MigMeasure {
  const char* name;
  bool higher_is_better;
  double MigOutcome::* of;
};

constexpr MigMeasure kMeasures[] = {
    {"memory slices used, %", true, &MigOutcome::used},
    {"started at once, %", true, &MigOutcome::at_once},
    {"mean wait, h", false, &MigOutcome::wait},
    {"mean wait, 3g and more, h", false, &MigOutcome::wait_large},
    {"mean wait, 7g, h", false, &MigOutcome::wait_whole},
};

// First fit, packing, packing that knows the mix; each by seed.
using Outcomes = std::array<std::vector<MigOutcome>, 3>;

Outcomes Run(const mig::StateTable& table, const MigMix& mix, const MigStudyOptions& options,
             int load) {
  const mig::Packing even(&table, mig::EvenDemand(table.model()));
  const mig::Packing told(&table, mig::DemandMix{mix.percent});
  MigWorkloadOptions workload = options.workload;
  workload.load_percent = load;
  Outcomes outcomes;
  for (int seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    workload.seed = static_cast<uint64_t>(seed);
    const std::vector<MigTask> tasks = GenerateMigTasks(table.model(), mix, workload);
    const MigPolicy policies[] = {
        [&table](absl::Span<const mig::State> gpus, int profile) {
          return mig::FirstFit(table, gpus, profile);
        },
        [&even](absl::Span<const mig::State> gpus, int profile) {
          return even.Choose(gpus, profile);
        },
        [&told](absl::Span<const mig::State> gpus, int profile) {
          return told.Choose(gpus, profile);
        },
    };
    for (size_t p = 0; p < outcomes.size(); ++p) {
      outcomes[p].push_back(RunMigTasks(table, tasks, workload, policies[p]));
    }
  }
  return outcomes;
}

std::string Against(const std::vector<MigOutcome>& first, const std::vector<MigOutcome>& other,
                    const MigMeasure& measure) {
  std::vector<double> values;
  std::vector<double> differences;
  for (size_t i = 0; i < first.size(); ++i) {
    values.push_back(other[i].*measure.of);
    differences.push_back(other[i].*measure.of - first[i].*measure.of);
  }
  const Difference difference = MeanDifference(differences);
  const char* verdict = !difference.clear()                                 ? ""
                        : (difference.mean > 0) == measure.higher_is_better ? " better"
                                                                            : " worse";
  return absl::StrFormat("%9.3f (%+.3f ± %.3f%s)", MeanDifference(values).mean, difference.mean,
                         difference.margin, verdict);
}

}  // namespace

std::string MigStudyTables(const MigStudyOptions& options) {
  const mig::StateTable table(mig::FindDeviceModel("H100-80GB").value());
  std::string text;
  for (const MigMix& mix : MigMixes()) {
    for (const int load : options.loads) {
      const Outcomes outcomes = Run(table, mix, options, load);
      absl::StrAppendFormat(&text, "mix %s, load %d %%: first fit, packing, packing told the mix\n",
                            mix.name, load);
      for (const MigMeasure& measure : kMeasures) {
        std::vector<double> first;
        for (const MigOutcome& outcome : outcomes[0]) first.push_back(outcome.*measure.of);
        absl::StrAppendFormat(
            &text, "  %-27s%9.3f %s %s\n", measure.name, MeanDifference(first).mean,
            Against(outcomes[0], outcomes[1], measure), Against(outcomes[0], outcomes[2], measure));
      }
    }
  }
  return text;
}

}  // namespace capstan::fleet_simulator
