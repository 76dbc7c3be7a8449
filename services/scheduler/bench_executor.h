#ifndef CAPSTAN_SERVICES_SCHEDULER_BENCH_EXECUTOR_H_
#define CAPSTAN_SERVICES_SCHEDULER_BENCH_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/random/random.h"
#include "libs/strand/strand.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "services/scheduler/core/bench_checks.h"
#include "services/scheduler/engine.h"

namespace capstan::scheduler {

// The executor of bench_fleet's Cluster, for benchmarks: carries out at once whatever it is told,
// and reports it. On the engine's strand only; it outlives the engine's session.
class BenchExecutor {
 public:
  // `strand` and `engine`, which leads, must outlive it.
  BenchExecutor(Strand* strand, Engine* engine);
  ~BenchExecutor();
  BenchExecutor(const BenchExecutor&) = delete;
  BenchExecutor& operator=(const BenchExecutor&) = delete;

  // Begins the session and reports so many Nodes, and that each runs the only Task of its Job:
  // `uid-N` on the Nth, as bench_fleet::AddFull has it.
  void Join(int nodes);
  // All Tasks of a Job that runs end; false if none runs.
  bool EndOne(Random* random);
  size_t running() const { return running_.size(); }
  // It was refused, the session was ended, or two generations of a Job were to be here at once.
  const absl::Status& status() const {
    return shared_->status.ok() ? generations_.status() : shared_->status;
  }

 private:
  // What the engine's side of the session holds too.
  struct Shared {
    BenchExecutor* executor = nullptr;
    absl::Status status;
  };
  class Sink;
  struct Held {
    std::vector<capstan::type::v1::TaskObservation> tasks;
    int tasks_running = 0;
  };

  void Take(const capstan::type::v1::DesiredTasks& desired);
  void Renew();
  void Report(capstan::type::v1::SessionUp message);

  Strand* const strand_;
  Engine* const engine_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  SessionId session_ = 0;
  int64_t journal_ = 0;
  int64_t renewals_ = 0;
  Strand::TimerId timer_ = 0;
  // By uid.
  std::map<std::string, Held> held_;
  std::vector<std::string> running_;
  GenerationCheck generations_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_BENCH_EXECUTOR_H_
