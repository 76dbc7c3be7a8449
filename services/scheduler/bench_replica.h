#ifndef CAPSTAN_SERVICES_SCHEDULER_BENCH_REPLICA_H_
#define CAPSTAN_SERVICES_SCHEDULER_BENCH_REPLICA_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/strand/thread_strand.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/engine.h"
#include "services/scheduler/ports/fake_data_source.h"
#include "services/scheduler/recorder/flight_recorder.h"
#include "services/scheduler/simulations.h"

namespace capstan::scheduler {

// A scheduler as server.cc wires it, recorder and all, but for gRPC, for benchmarks. Whoever takes
// its events takes them at once; ended Jobs stay. Not to be used on the strand, unless it is said.
class BenchReplica {
 public:
  struct Options {
    bool sole_owner = true;
    absl::Duration leadership_ttl = absl::Seconds(3);
    // Where recordings go: a folder, made if it is not there.
    std::string recordings;
    // As of EngineDeps; on the strand.
    std::function<void(const RoundTimes&)> on_round = nullptr;
    std::function<void()> on_leading = nullptr;
  };

  // `strand`, on which `store` calls back, and `store` must outlive it.
  BenchReplica(Strand* strand, store::Store* store, Options options);
  // Gives leadership up.
  ~BenchReplica();
  BenchReplica(const BenchReplica&) = delete;
  BenchReplica& operator=(const BenchReplica&) = delete;

  // On the strand.
  Engine* engine() const { return engine_.get(); }
  CommittedView* view() const { return view_.get(); }
  Simulations* simulations() const { return simulations_.get(); }
  const CoreConfig& core_config() const { return core_config_; }

 private:
  class Silent final : public log::Sink {
   public:
    void Write(const log::Record& record) override;
  };

  Strand* const strand_;
  CoreConfig core_config_;
  Silent sink_;
  const log::Logger logger_;
  metrics::Registry metrics_{"scheduler"};
  FakeDataSource data_;
  ThreadStrand recorder_strand_;
  std::unique_ptr<FlightRecorder> recorder_;
  ThreadStrand simulating_;
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<Simulations> simulations_;
  std::unique_ptr<Engine> engine_;
};

// Runs it on the strand and waits for it.
void RunOn(Strand* strand, absl::AnyInvocable<void()> task);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_BENCH_REPLICA_H_
