// The records that the benchmarks over a real store begin with, and what must hold of them in the
// end.
#ifndef CAPSTAN_SERVICES_SCHEDULER_BENCH_STORE_RECORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_BENCH_STORE_RECORDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Name of the Job that waits, by its number.
std::string BenchJobName(int number);

// `scheduler.{metric}.queued1m`, as figures with so many Jobs are named.
std::string BenchMetric(absl::string_view metric, int waiting);
// What StoreBenchRecords stores, in words for the conditions of a figure.
std::string BenchRecordsInWords(int nodes, int waiting);

// Stores the fleet of bench_fleet::AddFull and so many Jobs that wait, of bench_fleet::LargeSpecOf
// and tried before. `store` calls back on `strand`; not to be called there.
absl::Status StoreBenchRecords(int nodes, int waiting, absl::Time submitted, store::Store* store,
                               Strand* strand);

// FAILED_PRECONDITION if nothing runs, or a rule of bench_checks.h is broken.
absl::Status CheckBenchRecords(const Model& model);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_BENCH_STORE_RECORDS_H_
