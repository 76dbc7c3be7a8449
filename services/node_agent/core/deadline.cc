#include "services/node_agent/core/deadline.h"

#include <algorithm>

#include "libs/session/lower_side.h"

namespace capstan::node_agent {

absl::Duration FenceAfter(const capstan::type::v1::TaskLaunch& launch) {
  const absl::Duration fence = session::FromProto(launch.fence_after());
  return fence > absl::ZeroDuration() ? fence : absl::Minutes(15);
}

absl::Duration FenceGrace(const capstan::type::v1::TaskLaunch& launch) {
  return std::min(session::FromProto(launch.stop_grace()), FenceAfter(launch) / 4);
}

absl::Duration KillMargin(const capstan::type::v1::TaskLaunch& launch) {
  return std::min(FenceAfter(launch) / 10, absl::Seconds(1));
}

absl::optional<BootTime> FenceDeadline(const capstan::type::v1::TaskLaunch& launch,
                                       absl::optional<BootTime> confirmed_at) {
  if (!confirmed_at.has_value()) return absl::nullopt;
  return *confirmed_at + (FenceAfter(launch) - KillMargin(launch));
}

absl::optional<BootTime> StopDeadline(const capstan::nodeagent::record::v1::Task& task) {
  if (!task.has_stop()) return absl::nullopt;
  return BootTime::FromNanoseconds(task.stop_boottime_ns()) +
         session::FromProto(task.stop().grace());
}

}  // namespace capstan::node_agent
