#include "services/scheduler/bench_replica.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "libs/store/outbox.h"

namespace capstan::scheduler {
namespace {

constexpr size_t kMaxJobs = 10'000'000;

}  // namespace

void RunOn(Strand* strand, absl::AnyInvocable<void()> task) {
  absl::Notification done;
  strand->Post([&] {
    task();
    done.Notify();
  });
  done.WaitForNotification();
}

void BenchReplica::Silent::Write(const log::Record& record) {
  if (record.level < log::Level::kError) return;
  std::fprintf(stderr, "bench: %s\n", std::string(record.message).c_str());
}

BenchReplica::BenchReplica(Strand* strand, store::Store* store, Options options)
    : strand_(strand),
      logger_("scheduler", &strand->clock(), &sink_),
      data_(strand),
      recorder_strand_("recorder", &strand->clock()),
      simulating_("simulations", &strand->clock()) {
  core_config_.max_jobs = kMaxJobs;
  RunOn(strand, [&] {
    FlightRecorder::Options recording;
    recording.folder = options.recordings;
    recorder_ = std::make_unique<FlightRecorder>(recording, &recorder_strand_, &logger_, &metrics_);
    view_ = std::make_unique<CommittedView>(store, strand, &logger_);
    Simulations::Options simulations;
    simulations.worth_preparing = 0;
    simulations_ =
        std::make_unique<Simulations>(core_config_, simulations, view_.get(), strand, &simulating_);
    EngineConfig config;
    config.core = core_config_;
    config.leadership_ttl = options.leadership_ttl;
    config.leadership_margin = options.leadership_ttl / 8;
    config.sole_owner = options.sole_owner;
    EngineDeps deps;
    deps.strand = strand;
    deps.store = store;
    deps.data = &data_;
    deps.ship = [](const std::vector<store::OutboxRecord>&, store::DoneCallback taken) {
      taken(absl::OkStatus());
    };
    deps.on_leading = [on_leading = std::move(options.on_leading)](bool leading) {
      if (leading && on_leading) on_leading();
    };
    deps.on_round = std::move(options.on_round);
    deps.logger = &logger_;
    deps.metrics = &metrics_;
    deps.view = view_.get();
    deps.recorder = recorder_.get();
    engine_ = std::make_unique<Engine>(std::move(config), std::move(deps));
    view_->Start();
    engine_->Start();
  });
}

BenchReplica::~BenchReplica() {
  absl::Notification resigned;
  strand_->Post([&] { engine_->Resign([&](const absl::Status&) { resigned.Notify(); }); });
  resigned.WaitForNotification();
  RunOn(strand_, [&] {
    engine_.reset();
    simulations_.reset();
    view_.reset();
  });
  recorder_strand_.Stop();
  simulating_.Stop();
}

}  // namespace capstan::scheduler
