#include "services/scheduler/bench_store_records.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/random/timed_uuid.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/bench_checks.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/bench_queues.h"

namespace capstan::scheduler {
namespace {

constexpr size_t kRecordsAtOnce = 800;

// As of Jobs that were submitted one a millisecond.
std::string UidOf(int number) {
  Random random(static_cast<uint64_t>(number) + 1);
  return TimedUuid4(&random, absl::FromUnixSeconds(1'600'000'000) + absl::Milliseconds(number));
}

// Writes what it is given, many records in one transaction.
class Writer {
 public:
  Writer(store::Store* store, Strand* strand) : store_(store), strand_(strand) {}

  absl::Status Put(store::Put put) {
    txn_.then.emplace_back(std::move(put));
    return txn_.then.size() < kRecordsAtOnce ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    absl::Notification done;
    absl::Status stored;
    strand_->Post([&] {
      store_->Txn(std::exchange(txn_, {}), [&](const absl::StatusOr<store::TxnResult>& result) {
        stored = result.status();
        done.Notify();
      });
    });
    done.WaitForNotification();
    return stored;
  }

 private:
  store::Store* const store_;
  Strand* const strand_;
  store::TxnRequest txn_;
};

}  // namespace

std::string BenchJobName(int number) { return absl::StrCat("projects/p/jobs/", UidOf(number)); }

std::string BenchMetric(absl::string_view metric, int waiting) {
  constexpr int kMillion = 1'000'000;
  return absl::StrCat(
      "scheduler.", metric, ".queued",
      waiting % kMillion == 0 ? absl::StrCat(waiting / kMillion, "m") : absl::StrCat(waiting));
}

std::string BenchRecordsInWords(int nodes, int waiting) {
  return absl::StrCat(nodes, " full nodes of 8 GPUs, ", waiting, " Jobs of 1 to 128 GPUs wait in ",
                      bench_fleet::kShapes, " shapes, ", bench_fleet::InWords({}),
                      ", specs of 1 KiB, no two the same");
}

absl::Status StoreBenchRecords(int nodes, int waiting, absl::Time submitted, store::Store* store,
                               Strand* strand) {
  Writer writer(store, strand);
  Model fleet;
  bench_fleet::AddFull(nodes, submitted, &fleet);
  for (auto& [key, value] : AllRecords(fleet)) {
    CAPSTAN_RETURN_IF_ERROR(writer.Put({key, std::move(value)}));
  }
  Random random(1);
  for (int i = 0; i < waiting; ++i) {
    const int shape = static_cast<int>(random.Below(bench_fleet::kShapes));
    const int queue = static_cast<int>(random.Below(bench_fleet::kQueues));
    capstan::scheduler::v1::JobSpec spec = bench_fleet::LargeSpecOf(shape, queue, &random);
    spec.set_priority(
        bench_fleet::PriorityOf(static_cast<int>(random.Below(bench_fleet::kPriorities))));
    const JobEntry job = bench_fleet::Told(std::move(spec), submitted, UidOf(i), nodes + i + 1);
    CAPSTAN_RETURN_IF_ERROR(writer.Put(PutJobSpec(job)));
    CAPSTAN_RETURN_IF_ERROR(writer.Put(PutJobState(job)));
  }
  return writer.Flush();
}

absl::Status CheckBenchRecords(const Model& model) {
  bool runs = false;
  model.jobs.ForEachLive([&runs](absl::string_view, const JobEntry&) { runs = true; });
  if (!runs) return absl::FailedPreconditionError("nothing runs in the end");
  return CheckPlacements(model);
}

}  // namespace capstan::scheduler
