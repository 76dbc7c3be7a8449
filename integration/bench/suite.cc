#include "integration/bench/suite.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"
#include "integration/bench/bench.h"
#include "integration/bench/figure.h"
#include "integration/bench/identity_bench.h"
#include "integration/bench/job_bench.h"
#include "integration/bench/load_bench.h"
#include "integration/bench/person_bench.h"
#include "integration/bench/rpc_bench.h"
#include "integration/bench/store_bench.h"
#include "integration/bench/stream_bench.h"
#include "integration/bench/watch_bench.h"
#include "integration/platform/test_platform.h"

namespace capstan::bench {
namespace {

struct Measurement {
  const char* name;
  absl::Status (*run)(const Bench& bench);
};

// Those with bars first.
constexpr Measurement kMeasurements[] = {
    {"rpc", BenchRpc},           {"commands", BenchCommands},
    {"start", BenchStart},       {"creates", BenchJobCreates},
    {"streams", BenchStreams},   {"loads", BenchLoads},
    {"takeover", BenchTakeOver}, {"stores", BenchStores},
    {"watchers", BenchWatchers}, {"identities", BenchIdentities},
    {"idle", BenchIdle},
};

// Programs are named from the workspace's root, which is where Bazel starts a test and not where
// `./dev bench` starts this.
void EnterRunfiles() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  const std::string runfiles = absl::StrCat(program, ".runfiles/capstan");
  if (std::filesystem::is_directory(runfiles, error)) {
    std::filesystem::current_path(runfiles, error);
  }
}

}  // namespace

std::string SuiteNames() {
  return absl::StrJoin(kMeasurements, ",", [](std::string* out, const Measurement& measurement) {
    out->append(measurement.name);
  });
}

int RunSuite(const SuiteOptions& options, const Clock* clock) {
  if (const auto unable = integration::TestPlatform::Unable(); unable.has_value()) {
    std::fprintf(stderr, "not measured: %s\n", unable->c_str());
    return 0;
  }
  EnterRunfiles();
  // Standard output is for the figures alone; GoogleTest, with which platforms say what is wrong
  // with them, and programs that are started write there too.
  std::FILE* const figures = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (figures == nullptr) return 1;

  // gRPC 1.51 writes a line for each connection that is closed.
  gpr_set_log_function([](gpr_log_func_args*) {});

  Bench bench;
  bench.smoke = options.smoke;
  bench.clock = clock;
  bench.report = [&](const Figure& figure) {
    std::fputs(ToLine(figure).c_str(), figures);
    std::fflush(figures);
  };
  int failed = 0;
  for (const Measurement& measurement : kMeasurements) {
    const auto& only = options.only;
    if (!only.empty() && std::find(only.begin(), only.end(), measurement.name) == only.end()) {
      continue;
    }
    std::fprintf(stderr, "bench: %s\n", measurement.name);
    const absl::Status status = measurement.run(bench);
    if (status.ok()) continue;
    ++failed;
    std::fprintf(stderr, "bench: %s: %s\n", measurement.name, status.ToString().c_str());
  }
  std::fclose(figures);
  if (::testing::Test::HasFailure()) ++failed;
  return failed == 0 ? 0 : 1;
}

}  // namespace capstan::bench
