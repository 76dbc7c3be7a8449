#include "services/scheduler/recorder/replay.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/recorder/decision_record.h"
#include "services/scheduler/recorder/difference.h"
#include "services/scheduler/recorder/event_record.h"
#include "services/scheduler/recorder/redaction.h"

namespace capstan::scheduler {
namespace {

// Any number may come out of a file.
int64_t Add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

absl::StatusOr<Replayed> Replay(RecordingReader* reader, const ReplayOptions& options) {
  recording::Block block;
  std::vector<store::KeyValue> records;
  bool loaded = false;
  while (!loaded && reader->Next(&block)) {
    for (recording::RecordRecord& record : *block.mutable_records()) {
      store::KeyValue& kv = records.emplace_back();
      kv.key = std::move(*record.mutable_key());
      kv.value = std::move(*record.mutable_value());
    }
    loaded = block.loaded();
  }
  if (!loaded) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, kReasonNotReadable,
        absl::StrCat("the recording ends before all that the scheduler was loaded from: ",
                     reader->end()));
  }
  const CoreConfig config =
      options.config ? *options.config : RecordedConfig(reader->header().config());
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerCore> core,
                           SchedulerCore::Load(config, records));
  records = {};

  const Redaction redaction = Redaction::OfRedacted();
  recording::Decision decision;
  std::string bytes;
  Replayed replayed;
  int64_t wall = reader->header().wall_ns();
  int64_t boot = reader->header().boot_ns();
  do {
    for (const recording::StepRecord& step : block.steps()) {
      if (replayed.steps >= options.until) return replayed;
      ++replayed.steps;
      if (options.on_step) options.on_step(replayed.steps, step);
      wall = Add(wall, step.wall_delta_ns());
      boot = Add(boot, step.boot_delta_ns());
      CAPSTAN_ASSIGN_OR_RETURN(const Event event, RecordedEvent(step.event()));
      const int64_t rounds = core->rounds();
      const Step now =
          core->Apply(event, {absl::FromUnixNanos(wall), BootTime::FromNanoseconds(boot)});
      const bool round = core->rounds() > rounds;
      if (round) ++replayed.rounds;
      RecordDecision(now, redaction, &decision);
      SerializeDecision(decision, &bytes);
      if (DigestOf(bytes) == step.digest() && round == step.round()) continue;
      replayed.different_step = replayed.steps;
      replayed.event = EventInWords(step.event());
      if (round != step.round()) {
        absl::StrAppend(&replayed.difference, "a round of placement: ", step.round() ? "yes" : "no",
                        " recorded, ", round ? "yes" : "no", " now\n");
      }
      absl::StrAppend(&replayed.difference, DifferenceInWords(step.decision(), decision));
      return replayed;
    }
  } while (reader->Next(&block));
  return replayed;
}

}  // namespace capstan::scheduler
