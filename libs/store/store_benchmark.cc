// Commits per second, one caller waiting for each (latency) and many at once (group commit).
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "benchmark/benchmark.h"
#include "libs/store/memory_store.h"
#include "libs/store/sqlite_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

// Commits `in_flight` transactions of one 1 KiB record an iteration.
void CommitMany(benchmark::State& state, Store* store) {
  const int64_t in_flight = state.range(0);
  const std::string value(1024, 'v');
  int64_t next = 0;
  for (auto _ : state) {
    absl::Notification done;
    int64_t answered = 0;
    for (int64_t i = 0; i < in_flight; ++i) {
      store->Txn({.then = {Put{absl::StrCat("/bench/", next++ % 10000), value}}},
                 [&](absl::StatusOr<TxnResult> result) {
                   if (!result.ok()) state.SkipWithError(result.status().ToString().c_str());
                   if (++answered == in_flight) done.Notify();
                 });
    }
    done.WaitForNotification();
  }
  state.SetItemsProcessed(state.iterations() * in_flight);
}

void BM_MemoryCommit(benchmark::State& state) {
  SystemClock clock;
  ThreadStrand strand("bench", &clock);
  MemoryStore store(&strand);
  CommitMany(state, &store);
}
BENCHMARK(BM_MemoryCommit)->Arg(1)->Arg(1000)->UseRealTime();

void BM_SqliteCommit(benchmark::State& state) {
  char folder[] = "/tmp/store_benchmark.XXXXXX";
  if (::mkdtemp(folder) == nullptr) return state.SkipWithError("mkdtemp");
  {
    SystemClock clock;
    ThreadStrand strand("bench", &clock);
    auto store = SqliteStore::Open(absl::StrCat(folder, "/store.db"), &strand);
    if (!store.ok()) return state.SkipWithError(store.status().ToString().c_str());
    CommitMany(state, store->get());
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_SqliteCommit)->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();

}  // namespace
}  // namespace capstan::store

BENCHMARK_MAIN();
