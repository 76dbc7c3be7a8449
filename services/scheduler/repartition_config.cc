#include "services/scheduler/repartition_config.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/process/check.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_config.h"

namespace capstan::scheduler {
namespace {

constexpr absl::Duration kMostCost = absl::Hours(24 * 30);
constexpr absl::Duration kLeastActCost = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Hours(24);

}  // namespace

void CheckMigRepartition(absl::string_view field, const config::v1::MigRepartition& config,
                         status::FieldErrors* errors) {
  process::CheckDuration(absl::StrCat(field, ".act_cost"), config.has_act_cost(), config.act_cost(),
                         kLeastActCost, kMost, errors);
  process::CheckDuration(absl::StrCat(field, ".pause"), config.has_pause(), config.pause(),
                         absl::ZeroDuration(), kMost, errors);
  if (!config.has_max_cost()) return;
  const absl::Duration max_cost = ToDuration(config.max_cost());
  if (max_cost == absl::ZeroDuration()) return;
  const absl::Duration act_cost =
      config.has_act_cost() ? ToDuration(config.act_cost()) : CoreConfig().repartition_act_cost;
  if (max_cost >= act_cost && max_cost <= kMostCost) return;
  errors->Add(
      absl::StrCat(field, ".max_cost"),
      absl::StrCat("is ", absl::FormatDuration(max_cost), "; expected ",
                   absl::FormatDuration(act_cost), " (`act_cost`, which each move costs) to ",
                   absl::FormatDuration(kMostCost), ", or 0s to move nobody"));
}

}  // namespace capstan::scheduler
