#include "libs/rpc/call.h"

#include "grpc/support/time.h"

namespace capstan::rpc {

void SetDeadline(grpc::ClientContext& context, absl::Duration from_now) {
  if (from_now == absl::InfiniteDuration()) return;
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN)));
}

void Apply(const CallOptions& options, grpc::ClientContext& context) {
  SetDeadline(context, options.deadline);
  context.set_wait_for_ready(options.wait_for_ready);
  for (const auto& [key, value] : options.metadata) context.AddMetadata(key, value);
}

}  // namespace capstan::rpc
