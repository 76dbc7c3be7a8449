#include "integration/scheduler/restart_bench.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "libs/status/status_macros.h"
#include "libs/store/etcd_options.h"
#include "libs/store/etcd_store.h"
#include "services/scheduler/bench_process.h"
#include "services/scheduler/bench_store_records.h"
#include "services/scheduler/record_reader.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::scheduler {
namespace {

class RestartBench {
 public:
  RestartBench(const RestartBenchSizes& sizes, std::string recordings)
      : sizes_(sizes), recordings_(std::move(recordings)) {}

  absl::StatusOr<std::vector<Figure>> Run() {
    // A million Jobs are more than etcd keeps by default.
    CAPSTAN_ASSIGN_OR_RETURN(
        etcd_, testenv::EtcdServer::Start({.flags = {"--quota-backend-bytes=8589934592"}}));
    CAPSTAN_RETURN_IF_ERROR(Fill());
    Tell("filled");
    std::vector<double> restarts;
    std::vector<double> reads;
    for (int run = 0; run < sizes_.runs; ++run) {
      CAPSTAN_RETURN_IF_ERROR(
          Measure(&reads, [this](BenchProcess* process) { return Read(process); }));
      CAPSTAN_RETURN_IF_ERROR(Measure(&restarts, [this](BenchProcess* process) {
        return process->Begin({.recordings = recordings_}, &submissions_);
      }));
    }
    return std::vector<Figure>{
        Summarise(absl::StrCat(Name("restart_s"), ".etcd"), std::move(restarts), "s", "lower", 0,
                  absl::StrCat("from opening the store to the first submission answered and seen ",
                               "by readers, its step with a round; ", Conditions())),
        Summarise(absl::StrCat(Name("restart_read_s"), ".etcd"), std::move(reads), "s", "lower", 0,
                  absl::StrCat("its bound: as much is read, ", records_,
                               " records, and nothing done with it; ", Conditions()))};
  }

 private:
  BenchProcess::OpenStore Etcd() const {
    return [this](Strand* strand) {
      store::EtcdOptions options;
      options.endpoints = etcd_->endpoints();
      options.ca_file = etcd_->ca_file();
      options.certificate_file = etcd_->certificate_file();
      options.key_file = etcd_->key_file();
      options.server_name = etcd_->server_name();
      options.prefix = "/capstan/scheduler/";
      absl::StatusOr<std::unique_ptr<store::Store>> store;
      absl::Notification done;
      store::EtcdStore::Open(std::move(options), strand,
                             [&](absl::StatusOr<std::unique_ptr<store::EtcdStore>> opened) {
                               store = std::move(opened);
                               done.Notify();
                             });
      done.WaitForNotification();
      return store;
    };
  }
  std::string Name(absl::string_view metric) const { return BenchMetric(metric, sizes_.waiting); }
  std::string Conditions() const {
    return absl::StrCat(BenchRecordsInWords(sizes_.nodes, sizes_.waiting),
                        "; etcd of one member on the same machine, over mTLS, which runs on; "
                        "flight recorder on; one "
                        "core is the scheduler's strand's");
  }
  // What takes minutes says how far it is.
  void Tell(absl::string_view words) const {
    std::fprintf(stderr, "restart_bench: %s after %.1f s\n", std::string(words).c_str(),
                 absl::ToDoubleSeconds(since_begin_()));
  }

  absl::Status Fill() {
    BenchProcess process(Etcd());
    CAPSTAN_RETURN_IF_ERROR(process.status);
    return StoreBenchRecords(sizes_.nodes, sizes_.waiting, process.clock.Read().wall,
                             process.store.get(), &process.strand);
  }

  // From before the store is opened.
  absl::Status Measure(std::vector<double>* times,
                       const std::function<absl::Status(BenchProcess*)>& what) {
    const absl::Duration begun = since_begin_();
    BenchProcess process(Etcd());
    CAPSTAN_RETURN_IF_ERROR(process.status);
    CAPSTAN_RETURN_IF_ERROR(what(&process));
    times->push_back(absl::ToDoubleSeconds(since_begin_() - begun));
    Tell(absl::StrCat("a run of ", times->back(), " s"));
    return absl::OkStatus();
  }

  absl::Status Read(BenchProcess* process) {
    absl::Status status;
    absl::Notification done;
    RecordReader reader(process->store.get(), /*revision=*/0);
    records_ = 0;
    const std::function<void(absl::StatusOr<RecordReader::Page>)> take =
        [&](absl::StatusOr<RecordReader::Page> page) {
          status = page.status();
          if (page.ok()) records_ += static_cast<int64_t>(page->kvs.size());
          if (!page.ok() || page->last) return done.Notify();
          reader.Next(take);
        };
    process->strand.Post([&] { reader.Next(take); });
    done.WaitForNotification();
    return status;
  }

  const RestartBenchSizes sizes_;
  const std::string recordings_;
  const Stopwatch since_begin_ = MakeStopwatch();
  std::unique_ptr<testenv::EtcdServer> etcd_;
  BenchSubmissions submissions_{2};
  int64_t records_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchRestartOverEtcd(const RestartBenchSizes& sizes,
                                                         const std::string& recordings) {
  return RestartBench(sizes, recordings).Run();
}

}  // namespace capstan::scheduler
