#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_FLIGHT_RECORDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_FLIGHT_RECORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/recorder/recording.pb.h"
#include "services/scheduler/recorder/redaction.h"

namespace capstan::scheduler {

namespace recording = ::capstan::scheduler::recordings::v1;

// Keeps what goes into a leader's core and what comes out, a file for each term of leadership, so
// that the term can be replayed (replay.h). README.md says what is kept and what is not.
//
// It never disturbs the scheduler: writing is done on a strand of its own, and whatever goes wrong
// (disk, too much waiting, an event that is too large, the bound) ends the recording of this term,
// with a word in the log. A recording has no holes.
//
// Begin, Record and End on the engine's strand.
class FlightRecorder {
 public:
  struct Options {
    // Made (0700) if it is not there; the one above must be.
    std::string folder;
    // Of all files together. A term gets half of it, so that the one before is still there.
    int64_t max_bytes = int64_t{256} << 20;
    // What may wait to be written, beside the records of the beginning.
    size_t max_waiting_bytes = size_t{32} << 20;
    // How long a step may wait to be written.
    absl::Duration write_after = absl::Seconds(1);
    // Of this program; empty: its own file's SHA-256.
    std::string build_id;
  };
  // Of a term.
  struct Origin {
    int64_t leader_epoch = 0;
    int64_t store_incarnation = 0;
    int64_t revision = 0;
  };

  // Calls run on `writer` may go on until that stops; the others must outlive it.
  FlightRecorder(Options options, Strand* writer, const log::Logger* logger,
                 metrics::Registry* metrics);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // A core is about to take its first event. Steps wait until the records are there that it was
  // loaded from.
  void Begin(const CoreConfig& config, const Origin& origin, Now now);
  // Some of those records, to the last of them. `taken`, which may be null, runs on `writer` once
  // they are written, or not wanted any more.
  void AddRecords(std::vector<store::KeyValue> records, bool last,
                  absl::AnyInvocable<void()> taken);
  // The core made `step` of `event`. `round`: a round of placement was part of it.
  void Record(const Event& event, Now now, const Step& step, bool round);
  // Whether it has use for more in this term.
  bool takes() const;
  // What it would need of this term is not to be had.
  void GiveUp(absl::string_view why);
  // The term is over. Nothing if none has begun.
  void End(absl::string_view why);
  // Waits until all that was recorded is written, at most so long. Not on `writer`, which must be a
  // thread's.
  void Flush(absl::Duration at_most);

 private:
  class Term;
  struct Metrics {
    explicit Metrics(metrics::Registry* registry);
    metrics::Gauge recording;
    metrics::Counter bytes;
    metrics::Counter lost_steps;
    metrics::Counter ended_early;
  };
  // What Terms share with this object, and may outlive it with.
  struct Shared {
    Shared(Options options, Strand* writer, const log::Logger* logger, metrics::Registry* registry);
    const Options options;
    Strand* const writer;
    const log::Logger* const logger;
    Metrics metrics;
  };

  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<Term> term_;
  Redaction redaction_ = Redaction::OfRedacted();
  // The step before.
  Now last_;
  // Kept for their memory.
  recording::Block block_;
  recording::Decision decision_;
  std::string bytes_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_FLIGHT_RECORDER_H_
