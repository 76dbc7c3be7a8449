// What recording costs at the load of core_bench.h. usage: recorder_bench NODES QUEUED
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/core_bench.h"
#include "services/scheduler/recorder/flight_recorder.h"
#include "services/scheduler/recorder/recording_folder.h"

namespace capstan::scheduler {
namespace {

// What `who` has used of processors.
absl::Duration Used(int who) {
  struct rusage usage = {};
  getrusage(who, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

int Run(int nodes, int queued) {
  const TemporaryFolder folder;
  SystemClock clock;
  log::TestingSink sink;
  const log::Logger logger("bench", &clock, &sink);
  metrics::Registry metrics("bench");
  ThreadStrand writer("recorder", &clock);
  FlightRecorder recorder({.folder = folder.path(), .build_id = "bench"}, &writer, &logger,
                          &metrics);
  int64_t steps = 0;
  absl::Duration recording;
  absl::Duration others;
  int64_t loaded_bytes = 0;
  BenchObserver observer;
  observer.loaded = [&](const CoreConfig& config, const std::vector<store::KeyValue>& records,
                        Now now) {
    others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD);
    recorder.Begin(config, {}, now);
    recorder.AddRecords(records, /*last=*/true, nullptr);
    recorder.Flush(absl::Minutes(1));
    others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD) - others;
    absl::PrintF("loading: %s of another core\n", absl::FormatDuration(others));
    for (const RecordingFile& file : RecordingsIn(folder.path())) loaded_bytes = file.bytes;
    others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD);
  };
  observer.step = [&](const Event& event, Now now, const Step& step, bool round) {
    const absl::Duration begin = Used(RUSAGE_THREAD);
    recorder.Record(event, now, step, round);
    recording += Used(RUSAGE_THREAD) - begin;
    ++steps;
  };
  const int code = ReportFigures(BenchSteps(MakeStopwatch(), nodes, queued, observer));
  recorder.End("measured");
  recorder.Flush(absl::Minutes(1));
  others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD) - others;
  int64_t bytes = 0;
  for (const RecordingFile& file : RecordingsIn(folder.path())) bytes = file.bytes;
  absl::PrintF("%d steps: %s each of the strand, %s of another core; %.1f bytes; loaded %d\n",
               steps, absl::FormatDuration(recording / steps), absl::FormatDuration(others / steps),
               static_cast<double>(bytes - loaded_bytes) / static_cast<double>(steps),
               loaded_bytes);
  return code;
}

}  // namespace
}  // namespace capstan::scheduler

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return capstan::scheduler::Run(std::atoi(argv[1]), std::atoi(argv[2]));
}
