#include "integration/bench/store_bench.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "integration/bench/figure.h"
#include "integration/bench/machine_limits.h"
#include "integration/etcd/open_store.h"
#include "integration/etcd/test_store.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::bench {
namespace {

constexpr int kKeys = 10'000;
constexpr size_t kRecord = 1024;

// Keeps so many transactions under way for some time. All but Run on the strand.
class Transactions {
 public:
  Transactions(const Clock* clock, store::Store* store, Strand* strand)
      : clock_(clock), store_(store), strand_(strand) {}

  absl::StatusOr<double> PerSecond(int in_flight, absl::Duration time) {
    absl::Notification over;
    const BootTime begun = clock_->Read().boot;
    strand_->Post([&] {
      until_ = begun + time;
      over_ = &over;
      done_ = 0;
      open_ = in_flight;
      for (int i = 0; i < in_flight; ++i) Begin();
    });
    over.WaitForNotification();
    if (!status_.ok()) return status_;
    return static_cast<double>(done_) / absl::ToDoubleSeconds(clock_->Read().boot - begun);
  }

 private:
  void Begin() {
    store_->Txn({.then = {store::Put{absl::StrCat("/bench/", next_++ % kKeys), value_}}},
                [this](const absl::StatusOr<store::TxnResult>& result) {
                  if (!result.ok()) status_ = result.status();
                  ++done_;
                  if (status_.ok() && clock_->Read().boot < until_) return Begin();
                  if (--open_ == 0) over_->Notify();
                });
  }

  const Clock* const clock_;
  store::Store* const store_;
  Strand* const strand_;
  const std::string value_ = std::string(kRecord, 'v');
  BootTime until_;
  absl::Notification* over_ = nullptr;
  int64_t next_ = 0;
  int64_t done_ = 0;
  int open_ = 0;
  absl::Status status_;
};

absl::Status Measure(const Bench& bench, const std::string& name, const std::string& folder,
                     Transactions& transactions) {
  std::map<int, std::vector<double>> rates;
  std::vector<double> syncs;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double rate,
                             SyncsPerSecond(bench.clock, folder, bench.Time(absl::Seconds(1))));
    syncs.push_back(rate);
    for (const int in_flight : {1, 64, 1000}) {
      CAPSTAN_ASSIGN_OR_RETURN(const double commits,
                               transactions.PerSecond(in_flight, bench.Time(absl::Seconds(2))));
      rates[in_flight].push_back(commits);
    }
  }
  for (const auto& [in_flight, values] : rates) {
    bench.report({.name = absl::StrCat("store_txn_per_s.", name, ".in_flight", in_flight),
                  .values = values,
                  .unit = "1/s",
                  .better = Better::kHigher,
                  .limit = Median(syncs) * in_flight,
                  .limit_name = absl::StrCat(in_flight, " in each fdatasync of 4 KiB, 1/s"),
                  .conditions = absl::StrCat("one record of 1 KiB each, durable, in turns with ",
                                             "the disk's syncs")});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchStores(const Bench& bench) {
  const TemporaryFolder folder;
  {
    ThreadStrand strand("bench", bench.clock);
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto sqlite,
        store::SqliteStore::Open(absl::StrCat(folder.path(), "/store.sqlite"), &strand));
    Transactions transactions(bench.clock, sqlite.get(), &strand);
    const absl::Status measured = Measure(bench, "sqlite", folder.path(), transactions);
    strand.Stop();
    CAPSTAN_RETURN_IF_ERROR(measured);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto etcd, testenv::EtcdServer::Start({.members = 1}));
  store::OpenStore opened(store::OptionsFor(*etcd));
  if (opened.get() == nullptr) return absl::UnavailableError("etcd's store does not open");
  Transactions transactions(bench.clock, opened.get(), opened.strand());
  return Measure(bench, "etcd", folder.path(), transactions);
}

}  // namespace capstan::bench
