// What a commit and a read cost with etcd on this machine's disk, one caller waiting for each: what
// EtcdStore sends is ordered, so records per second come from records per transaction.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "integration/etcd/open_store.h"
#include "integration/etcd/test_store.h"
#include "libs/store/store.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {
namespace {

constexpr int kKeys = 10000;

// Runs `once(store)` for each iteration on an etcd of so many members.
template <typename F>
void WithEtcd(benchmark::State& state, int64_t members, F once) {
  auto etcd = testenv::EtcdServer::Start({.members = static_cast<int>(members)});
  if (!etcd.ok()) return state.SkipWithError(etcd.status().ToString().c_str());
  OpenStore store(OptionsFor(**etcd));
  if (store.get() == nullptr) return state.SkipWithError("not opened");
  for (auto _ : state) {
    const absl::Status done = once(&store);
    if (!done.ok()) return state.SkipWithError(done.ToString().c_str());
  }
}

// members, records of 1 KiB a transaction.
void BM_EtcdCommit(benchmark::State& state) {
  const std::string value(1024, 'v');
  int64_t next = 0;
  WithEtcd(state, state.range(0), [&](OpenStore* store) {
    std::vector<Op> puts;
    for (int64_t i = 0; i < state.range(1); ++i) {
      puts.push_back(Put{absl::StrCat("/bench/", next++ % kKeys), value});
    }
    return store->Txn({.then = std::move(puts)}).status();
  });
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(BM_EtcdCommit)->ArgsProduct({{1, 3}, {1, 128}})->UseRealTime();

// members. One record.
void BM_EtcdRead(benchmark::State& state) {
  WithEtcd(state, state.range(0),
           [&](OpenStore* store) { return store->Range({.key = "/bench/0"}).status(); });
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_EtcdRead)->Arg(1)->Arg(3)->UseRealTime();

}  // namespace
}  // namespace capstan::store

BENCHMARK_MAIN();
