// Measures the scheduler over a real store: ./dev bench scheduler.
#include <cstdlib>

#include "libs/safe_path/testing/temporary_folder.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/store_bench.h"

// `store_bench WAITING [NODES [ARRIVALS [RUNS [FOLDER]]]]`: that case alone; with the store in that
// folder, filled if it is empty, which is left there.
int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  SetOneCoreApart();
  StoreBenchSizes sizes;
  if (argc > 1) sizes.waiting = std::atoi(argv[1]);
  if (argc > 2) sizes.nodes = std::atoi(argv[2]);
  if (argc > 3) sizes.arrivals = std::atoi(argv[3]);
  if (argc > 4) sizes.runs = std::atoi(argv[4]);
  const capstan::TemporaryFolder folder;
  return ReportFigures(BenchOverSqlite(sizes, argc > 5 ? argv[5] : folder.path()));
}
