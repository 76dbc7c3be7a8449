// Files of cgroups in any form, as kernels of other versions may write them: figures are absent or
// not negative.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"
#include "libs/cgroup/usage.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"

namespace {

using capstan::fuzzing::Require;

void CheckFigure(const absl::optional<int64_t>& figure) {
  Require(!figure.has_value() || *figure >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::fuzzing::FuzzFolder folder;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* file : {"cpu.stat", "memory.current", "memory.stat", "memory.peak", "io.stat",
                           "cgroup.procs", "below/cgroup.procs", "cpuacct.usage",
                           "memory.usage_in_bytes", "memory.max_usage_in_bytes"}) {
    folder.Write(file, text);
  }
  for (const bool v2 : {true, false}) {
    capstan::cgroup::Paths paths;
    if (v2) {
      paths.v2 = folder.path();
    } else {
      paths.v1_freezer = paths.v1_cpu = paths.v1_memory = folder.path();
    }
    const capstan::cgroup::Usage usage = capstan::cgroup::ReadUsage(paths);
    Require(!usage.cpu_time.has_value() || *usage.cpu_time >= absl::ZeroDuration());
    CheckFigure(usage.memory_bytes);
    CheckFigure(usage.memory_peak_bytes);
    CheckFigure(usage.processes);
    CheckFigure(usage.io_read_bytes);
    CheckFigure(usage.io_write_bytes);
    Require(capstan::cgroup::ReadProcesses(paths).size() <= 2 * size);
  }
  return 0;
}
