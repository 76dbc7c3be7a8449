#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_HARNESS_RECORDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_HARNESS_RECORDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/recorder/flight_recorder.h"

namespace capstan::scheduler {

// For tests: records what a CoreHarness does into a folder. Not to be moved while its observer is
// in use.
class HarnessRecorder {
 public:
  explicit HarnessRecorder(FlightRecorder::Options options)
      : recorder_(WithId(std::move(options)), &strand_, &logger_, &metrics_) {}

  CoreHarness::Observer Observer() {
    return [this](const SchedulerCore& core, const Event& event, Now now, const Step* step,
                  const std::map<std::string, std::string>& records) {
      // What a name sorts by passes too.
      strand_.Advance(absl::Milliseconds(1));
      if (step == nullptr) {
        origin_.leader_epoch = std::get<LeadershipGained>(event).token.leader_epoch();
        std::vector<store::KeyValue> kvs;
        for (const auto& [key, value] : records) {
          store::KeyValue& kv = kvs.emplace_back();
          kv.key = key;
          kv.value = value;
        }
        rounds_ = core.rounds();
        recorder_.Begin(core_config_, origin_, now);
        recorder_.AddRecords(std::move(kvs), /*last=*/true, nullptr);
        return;
      }
      recorder_.Record(event, now, *step, core.rounds() > rounds_);
      rounds_ = core.rounds();
      ++steps_;
    };
  }
  // Of the core to come.
  void set_config(const CoreConfig& config) { core_config_ = config; }
  void End() {
    recorder_.End("the test is over");
    strand_.RunReady();
  }

  FlightRecorder& recorder() { return recorder_; }
  SimulatedStrand& strand() { return strand_; }
  int64_t steps() const { return steps_; }
  std::vector<log::Record> logged() const { return sink_.records(); }
  metrics::Registry& metrics() { return metrics_; }

 private:
  static FlightRecorder::Options WithId(FlightRecorder::Options options) {
    if (options.build_id.empty()) options.build_id = "test";
    return options;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  log::Logger logger_{"test", &clock_, &sink_};
  metrics::Registry metrics_{"test"};
  CoreConfig core_config_;
  FlightRecorder::Origin origin_;
  FlightRecorder recorder_;
  int64_t rounds_ = 0;
  int64_t steps_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_HARNESS_RECORDER_H_
