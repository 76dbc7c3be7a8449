// Measures how a scheduler comes back over etcd: ./dev bench scheduler.
#include <cstdlib>

#include "integration/scheduler/restart_bench.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/scheduler/core/bench_figure.h"

// `restart_bench [WAITING [NODES [RUNS]]]`.
int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  SetOneCoreApart();
  RestartBenchSizes sizes;
  if (argc > 1) sizes.waiting = std::atoi(argv[1]);
  if (argc > 2) sizes.nodes = std::atoi(argv[2]);
  if (argc > 3) sizes.runs = std::atoi(argv[3]);
  const capstan::TemporaryFolder folder;
  return ReportFigures(BenchRestartOverEtcd(sizes, folder.path()));
}
