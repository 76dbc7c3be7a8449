// A load by the real worker and real files, in turns with `cp -r` and a sync of each file of the
// same bytes: what verification, resumption and publishing cost beside the plain copy. What is
// copied lies in the page cache, so that both wait for the same disk.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "services/data_loader/adapters/load_worker.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {
namespace {

absl::Status WriteObject(const std::string& path, int64_t size, Random& random) {
  std::string piece(static_cast<size_t>(std::min<int64_t>(size, 1 << 16)), '\0');
  for (char& c : piece) c = static_cast<char>(random.Next());
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, path);
  for (int64_t done = 0; done < size; done += static_cast<int64_t>(piece.size())) {
    const absl::Status written = WriteAll(fd.get(), piece, path);
    if (!written.ok()) return written;
  }
  // What is left to write is not to be in the way of what is measured.
  return ::fdatasync(fd.get()) == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, path);
}

// As whoever wants to rely on a copy does it.
absl::Status CopyAndSync(std::string from, std::string to) {
  std::string shell = "/bin/sh";
  std::string flag = "-c";
  std::string script = "cp -r \"$0\" \"$1\" && find \"$1\" -type f -exec sync {} +";
  std::string path = "PATH=/usr/bin:/bin";
  char* argv[] = {shell.data(), flag.data(), script.data(), from.data(), to.data(), nullptr};
  char* environment[] = {path.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  const int spawned = ::posix_spawn(&child, shell.c_str(), nullptr, nullptr, argv, environment);
  if (spawned != 0) return absl::ErrnoToStatus(spawned, "posix_spawn");
  if (::waitpid(child, &status, 0) != child || status != 0) {
    return absl::InternalError("cp or sync failed");
  }
  return absl::OkStatus();
}

// Loads and copies, each into folders that were not there.
class Bench {
 public:
  absl::Status Make(int64_t objects, int64_t bytes_each) {
    for (const char* made : {"/bucket", "/site", "/copies"}) {
      std::filesystem::create_directory(folder_.path() + made);
    }
    Random random(1);
    for (int64_t i = 0; i < objects; ++i) {
      const absl::Status written =
          WriteObject(absl::StrCat(folder_.path(), "/bucket/", i), bytes_each, random);
      if (!written.ok()) return written;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::Duration> Load() {
    const absl::StatusOr<SafeRoot> site = SafeRoot::Open(folder_.path() + "/site");
    if (!site.ok()) return site.status();
    for (const char* made : {"versions", "staging/loads"}) {
      const absl::Status status = site->MakeDirectories(made);
      if (!status.ok()) return status;
    }
    LoadOptions options;
    options.allowed_source_roots = {folder_.path() + "/bucket"};
    StartLoad load;
    load.load = "projects/p/dataLoads/l";
    load.source_uri = absl::StrCat("file://", folder_.path(), "/bucket/");
    const auto planned = [](int64_t) { return absl::OkStatus(); };
    const auto progressed = [](int64_t, int64_t) {};
    const auto publishing = [] {};
    const std::atomic<bool> stop = false;
    const BootTime begun = clock_.Read().boot;
    const absl::StatusOr<Published> published =
        RunLoad(*site, load, options, LoadListener{planned, progressed, publishing}, stop);
    const absl::Duration took = clock_.Read().boot - begun;
    if (!published.ok()) return published.status();
    return Emptied("/site", took);
  }

  absl::StatusOr<absl::Duration> Copy() {
    const BootTime begun = clock_.Read().boot;
    const absl::Status copied =
        CopyAndSync(folder_.path() + "/bucket", folder_.path() + "/copies/copy");
    const absl::Duration took = clock_.Read().boot - begun;
    if (!copied.ok()) return copied;
    return Emptied("/copies", took);
  }

 private:
  absl::StatusOr<absl::Duration> Emptied(const std::string& name, absl::Duration took) {
    std::error_code error;
    std::filesystem::remove_all(folder_.path() + name, error);
    std::filesystem::create_directory(folder_.path() + name, error);
    if (error) return absl::InternalError(error.message());
    return took;
  }

  const TemporaryFolder folder_;
  const SystemClock clock_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Objects, and bytes of each. The time is the load's; `ratio_to_cp` is above 1 where it is faster
// than the copy.
void BM_Load(benchmark::State& state) {
  Bench bench;
  const absl::Status made = bench.Make(state.range(0), state.range(1));
  if (!made.ok()) return state.SkipWithError(made.ToString().c_str());
  // Once without a clock: memory that nobody has touched yet costs whoever comes first.
  const absl::StatusOr<absl::Duration> warm = bench.Load();
  if (!warm.ok()) return state.SkipWithError(warm.status().ToString().c_str());
  std::vector<double> loads;
  std::vector<double> copies;
  std::vector<double> ratios;
  bool load_first = false;
  for (auto _ : state) {
    // Each comes first in its turn: what the one before has freed is there for the next to take.
    load_first = !load_first;
    absl::StatusOr<absl::Duration> load;
    if (load_first) load = bench.Load();
    const absl::StatusOr<absl::Duration> copy = bench.Copy();
    if (!load_first) load = bench.Load();
    if (!load.ok()) return state.SkipWithError(load.status().ToString().c_str());
    if (!copy.ok()) return state.SkipWithError(copy.status().ToString().c_str());
    state.SetIterationTime(absl::ToDoubleSeconds(*load));
    loads.push_back(absl::ToDoubleMilliseconds(*load));
    copies.push_back(absl::ToDoubleMilliseconds(*copy));
    ratios.push_back(copies.back() / loads.back());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
  state.counters["load_ms"] = Median(loads);
  state.counters["cp_ms"] = Median(copies);
  state.counters["ratio_to_cp"] = Median(ratios);
}
BENCHMARK(BM_Load)
    ->Args({4, 32 << 20})
    ->Args({1, 128 << 20})
    ->Args({200, 4096})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace capstan::data_loader

BENCHMARK_MAIN();
