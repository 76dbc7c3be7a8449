// Measures what the engine holds for each Job that waits: ./dev bench scheduler.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/resident_bytes.h"

namespace capstan::scheduler {
namespace {

int Report(int jobs, WaitingSpecs specs, absl::string_view name) {
  const absl::StatusOr<ResidentBytes> resident = MeasureResidentBytes(jobs, specs);
  if (!resident.ok()) return ReportFigures(resident.status());
  const std::string suffix =
      absl::StrCat(jobs % 1'000'000 == 0 ? absl::StrCat(".queued", jobs / 1'000'000, "m")
                                         : absl::StrCat(".queued", jobs),
                   ".", name);
  const std::string conditions =
      absl::StrCat(jobs, " Jobs wait that were tried before, with specs of ",
                   static_cast<int>(resident->spec_bytes), " bytes, ",
                   specs == WaitingSpecs::kAlike ? "most as others have them" : "no two the same",
                   "; heap in use, of glibc");
  Figure all = Summarise(
      absl::StrCat("scheduler.resident_bytes_per_job", suffix), {resident->view + resident->engine},
      "bytes", "lower", 1024,
      absl::StrCat("core with its queues (", static_cast<int>(resident->engine),
                   ") and committed view (", static_cast<int>(resident->view), "); ", conditions));
  Figure demand =
      Summarise(absl::StrCat("scheduler.demand_bytes_per_job", suffix), {resident->demand}, "bytes",
                "lower", 0, absl::StrCat("what WatchDemand tells of; ", conditions));
  return ReportFigures(std::vector<Figure>{all, demand});
}

}  // namespace
}  // namespace capstan::scheduler

// `resident_bytes JOBS`: that many alone.
int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  PinToOneCore();
  int failed = 0;
  for (int jobs : {100'000, 1'000'000}) {
    if (argc == 2 && std::atoi(argv[1]) != jobs) continue;
    failed |= Report(jobs, WaitingSpecs::kAlike, "alike");
    failed |= Report(jobs, WaitingSpecs::kLarge, "large");
  }
  return failed;
}
