// What recording costs at the load of core_bench.h. usage: recorder_bench [NODES QUEUED]
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
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
  absl::Duration beginning;
  int64_t loaded_bytes = 0;
  BenchObserver observer;
  observer.loaded = [&](const CoreConfig& config, const std::vector<store::KeyValue>& records,
                        Now now) {
    others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD);
    recorder.Begin(config, {}, now);
    recorder.AddRecords(records, /*last=*/true, nullptr);
    recorder.Flush(absl::Minutes(1));
    beginning = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD) - others;
    for (const RecordingFile& file : RecordingsIn(folder.path())) loaded_bytes = file.bytes;
    others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD);
  };
  observer.step = [&](const Event& event, Now now, const Step& step, bool round) {
    const absl::Duration begin = Used(RUSAGE_THREAD);
    recorder.Record(event, now, step, round);
    recording += Used(RUSAGE_THREAD) - begin;
    ++steps;
  };
  // What the steps take is core_bench's figure, and is another here, with the recorder beside them.
  const auto measured = BenchSteps(MakeStopwatch(), nodes, queued, observer);
  if (!measured.ok()) return ReportFigures(measured);
  recorder.End("measured");
  recorder.Flush(absl::Minutes(1));
  others = Used(RUSAGE_SELF) - Used(RUSAGE_THREAD) - others;
  int64_t bytes = 0;
  for (const RecordingFile& file : RecordingsIn(folder.path())) bytes = file.bytes;
  const auto report = [&](const char* name, double value, const char* unit) {
    return ReportFigure(
        Summarise(absl::StrCat("scheduler.", name, ".nodes", nodes, ".queued", queued), {value},
                  unit, "lower", 0, absl::StrCat(steps, " steps; CPU time by getrusage")));
  };
  const auto of_a_step = [&](double sum) { return sum / static_cast<double>(steps); };
  int failed = report("recording_begin_ms", absl::ToDoubleMilliseconds(beginning), "ms");
  failed |= report("recording_begin_bytes", static_cast<double>(loaded_bytes), "bytes");
  failed |= report("recording_step_us", of_a_step(absl::ToDoubleMicroseconds(recording)), "us");
  failed |= report("recording_step_beside_us", of_a_step(absl::ToDoubleMicroseconds(others)), "us");
  failed |=
      report("recording_step_bytes", of_a_step(static_cast<double>(bytes - loaded_bytes)), "bytes");
  return failed;
}

}  // namespace
}  // namespace capstan::scheduler

int main(int argc, char** argv) {
  if (argc == 1) return capstan::scheduler::Run(/*nodes=*/500, /*queued=*/1000);
  if (argc == 3) return capstan::scheduler::Run(std::atoi(argv[1]), std::atoi(argv[2]));
  std::fprintf(stderr, "usage: recorder_bench [NODES QUEUED]\n");
  return 2;
}
