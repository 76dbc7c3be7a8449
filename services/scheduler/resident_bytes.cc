#include "services/scheduler/resident_bytes.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/engine.h"
#include "services/scheduler/ports/fake_data_source.h"

namespace capstan::scheduler {
namespace {

constexpr int kRecordsAtOnce = 100;

// Writes what it is given, some records in one transaction.
class Filler {
 public:
  Filler(store::Store* store, SimulatedStrand* strand) : store_(store), strand_(strand) {}

  void Put(store::Put put) {
    txn_.then.emplace_back(std::move(put));
    if (txn_.then.size() >= kRecordsAtOnce) Flush();
  }
  void Flush() {
    store_->Txn(std::exchange(txn_, {}), [](const absl::StatusOr<store::TxnResult>&) {});
    strand_->RunReady();
  }

 private:
  store::Store* const store_;
  SimulatedStrand* const strand_;
  store::TxnRequest txn_;
};

// Returns the bytes of their specs.
int64_t Fill(int jobs, WaitingSpecs specs, absl::Time submitted, Filler* filler) {
  Random random(1);
  Model queues;
  bench_fleet::AddFull(/*nodes=*/0, submitted, &queues);
  for (const auto& [id, queue] : queues.queues) filler->Put(PutQueue(id, queue));
  int64_t bytes = 0;
  for (int i = 0; i < jobs; ++i) {
    const int shape = static_cast<int>(random.Below(bench_fleet::kShapes));
    const int queue = static_cast<int>(random.Below(bench_fleet::kQueues));
    const JobEntry job = bench_fleet::Told(specs == WaitingSpecs::kLarge
                                               ? bench_fleet::LargeSpecOf(shape, queue, &random)
                                               : bench_fleet::SpecOf(shape, queue),
                                           submitted, random.Uuid4(), i + 1);
    bytes += static_cast<int64_t>(job.spec.spec().ByteSizeLong());
    filler->Put(PutJobSpec(job));
    filler->Put(PutJobState(job));
  }
  filler->Flush();
  return bytes;
}

}  // namespace

absl::StatusOr<ResidentBytes> MeasureResidentBytes(int jobs, WaitingSpecs specs) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  log::TestingSink sink;
  const log::Logger logger("scheduler", &clock, &sink);
  metrics::Registry metrics("scheduler");
  store::MemoryStore store(&strand);
  FakeDataSource data(&strand);
  Filler filler(&store, &strand);
  ResidentBytes resident;
  resident.spec_bytes = static_cast<double>(Fill(jobs, specs, clock.Read().wall, &filler)) / jobs;

  int64_t before = HeapBytes();
  const auto grown = [&before, jobs] {
    const int64_t now = HeapBytes();
    return static_cast<double>(now - std::exchange(before, now)) / jobs;
  };
  CommittedView view(&store, &strand, &logger);
  view.Start();
  strand.RunReady();
  if (view.model().jobs.size() != static_cast<size_t>(jobs)) {
    return absl::FailedPreconditionError("the view has not read all");
  }
  resident.view = grown();

  EngineConfig config;
  config.core.max_jobs = 10'000'000;
  EngineDeps deps;
  deps.strand = &strand;
  deps.store = &store;
  deps.data = &data;
  deps.logger = &logger;
  deps.metrics = &metrics;
  deps.view = &view;
  Engine engine(config, deps);
  engine.Start();
  for (int i = 0; i < 50 && !engine.leading(); ++i) strand.Advance(absl::Milliseconds(200));
  strand.RunReady();
  if (!engine.leading() || engine.core()->waiting_jobs() != static_cast<size_t>(jobs)) {
    return absl::FailedPreconditionError("the engine has not all waiting");
  }
  resident.engine = grown();

  DemandBook demand{DemandConfig()};
  Now now = clock.Read();
  demand.Reset(view.model().jobs, now);
  now.boot = now.boot + absl::Hours(1);
  now.wall += absl::Hours(1);
  demand.Advance(now);
  resident.demand = grown();
  return resident;
}

}  // namespace capstan::scheduler
