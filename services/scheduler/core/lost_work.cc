#include "services/scheduler/core/lost_work.h"

#include <algorithm>

#include "libs/mig/profiles.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

namespace {

constexpr absl::string_view kPreempted = "PREEMPTED";
constexpr absl::string_view kShrunk = "SHRUNK";
constexpr absl::string_view kGrown = "GROWN";
constexpr absl::string_view kRepartitioned = "REPARTITIONED";
constexpr absl::string_view kDrained = "QUEUE_DRAINED";
constexpr absl::string_view kMaintenance = "MAINTENANCE";
// A Node, or the way to it, is gone.
constexpr absl::string_view kNodeLost = "NODE_LOST";
// Any other end of a Task that is not good.
constexpr absl::string_view kTaskFailed = "TASK_FAILED";

}  // namespace

std::vector<absl::string_view> LostWorkReasons() {
  return {kPreempted, kShrunk,      kGrown,    kRepartitioned,
          kDrained,   kMaintenance, kNodeLost, kTaskFailed};
}

absl::string_view WhyWorkIsLost(const Gang& gang) {
  switch (gang.head.stop_reason()) {
    case Stop::REASON_PREEMPTED:
      return gang.head.has_move() ? kRepartitioned : kPreempted;
    case Stop::REASON_SHRUNK:
      return kShrunk;
    case Stop::REASON_GROWN:
      return kGrown;
    case Stop::REASON_DRAINED:
      return kDrained;
    case Stop::REASON_MAINTENANCE:
      return kMaintenance;
    case Stop::REASON_TIME_LIMIT:
    case Stop::REASON_CANCELLED:
      return "";
    default:
      break;
  }
  if (!gang.head.has_failure()) return kTaskFailed;
  switch (gang.head.failure().end().cause()) {
    case TaskEnd::CAUSE_LOST:
    case TaskEnd::CAUSE_FENCED:
    case TaskEnd::CAUSE_NODE_GIVEN_UP:
      return kNodeLost;
    default:
      return kTaskFailed;
  }
}

absl::Duration LostAcceleratorTime(const JobEntry& job, absl::Duration ran) {
  const capstan::scheduler::v1::JobSpec& spec = job.spec.spec();
  const absl::Duration lost =
      spec.has_checkpoint_period() ? std::min(ran, ToDuration(spec.checkpoint_period())) : ran;
  absl::Duration sum = absl::ZeroDuration();
  for (int group = 0; group < spec.task_groups_size(); ++group) {
    const capstan::type::v1::Resources& resources = spec.task_groups(group).resources();
    const int model = resources.has_mig() ? mig::ModelIndex(resources.mig().model()) : -1;
    for (const auto& [name, count] : Amounts::From(resources).accelerators) {
      const bool is_part = model >= 0 && mig::IsSliceResource(name);
      const int64_t parts = is_part ? mig::DeviceModels()[model].memory_slices : 1;
      sum += lost * count * SizeOf(job, group) / parts;
    }
  }
  return sum;
}

}  // namespace capstan::scheduler
