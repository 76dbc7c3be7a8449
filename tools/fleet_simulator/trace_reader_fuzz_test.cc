#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "tools/fleet_simulator/trace_reader.h"

// What is accepted keeps to the bounds that the simulation relies on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using capstan::fleet_simulator::WorkloadJob;
  const capstan::fleet_simulator::FleetSize fleet;
  const auto workload = capstan::fleet_simulator::ReadTrace(
      absl::string_view(reinterpret_cast<const char*>(bytes), size), fleet);
  if (!workload.ok()) return 0;
  absl::Duration last;
  for (const WorkloadJob& job : workload->jobs) {
    if (job.tasks < 1 || job.gpus_per_task < 1 || job.gpus_per_task > fleet.gpus_per_node ||
        job.runtime <= absl::ZeroDuration() || job.submitted < last || job.queue < 0 ||
        job.queue >= static_cast<int>(workload->queues.size())) {
      std::abort();
    }
    last = job.submitted;
  }
  return 0;
}
