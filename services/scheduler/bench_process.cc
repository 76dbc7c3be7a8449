#include "services/scheduler/bench_process.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/random/timed_uuid.h"
#include "libs/status/error.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kQueues;
using bench_fleet::kShapes;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;

constexpr absl::Duration kProbeEvery = absl::Milliseconds(100);
constexpr double kLate = 0.5;

}  // namespace

std::shared_ptr<const CreateJob> BenchSubmissions::Next(const BenchProcess& process) {
  auto create = std::make_shared<CreateJob>();
  create->project = kBenchProject;
  create->uid = TimedUuid4(&random_, process.clock.Read().wall);
  create->job_id = absl::StrCat("new-", ++created_);
  create->submitter = kBenchPerson;
  create->spec = NextSpec(process.replica->core_config());
  return create;
}

JobSpec BenchSubmissions::NextSpec(const CoreConfig& config) {
  const int shape = static_cast<int>(random_.Below(kShapes));
  JobSpec spec =
      bench_fleet::LargeSpecOf(shape, static_cast<int>(random_.Below(kQueues)), &random_);
  spec.set_priority(
      bench_fleet::PriorityOf(static_cast<int>(random_.Below(bench_fleet::kPriorities))));
  ApplyDefaults(kBenchProject, config, &spec);
  return spec;
}

BenchProcess::BenchProcess(const OpenStore& open) {
  RunOn(&strand, &MoveToCoreApart);
  auto opened = open(&strand);
  status = opened.status();
  if (opened.ok()) store = *std::move(opened);
  RunOn(&strand, [this] { Probe(); });
}

BenchProcess::~BenchProcess() {
  RunOn(&strand, [this] { strand.Cancel(probe_); });
  replica.reset();
  RunOn(&strand, [this] { store.reset(); });
  strand.Stop();
}

void BenchProcess::Probe() {
  const BootTime due = clock.Read().boot + kProbeEvery;
  probe_ = strand.RunAt(due, [this, due] {
    const double late = absl::ToDoubleSeconds(clock.Read().boot - due);
    if (late > kLate) std::fprintf(stderr, "the strand was busy for %.2f s\n", late);
    Probe();
  });
}

absl::Status BenchProcess::Begin(BenchReplica::Options options, BenchSubmissions* submissions) {
  if (!status.ok()) return status;
  absl::Notification leads;
  options.on_leading = [&leads, begun = false]() mutable {
    if (!std::exchange(begun, true)) leads.Notify();
  };
  replica = std::make_unique<BenchReplica>(&strand, store.get(), std::move(options));
  leads.WaitForNotification();
  return FirstAnswer(submissions);
}

absl::Status BenchProcess::FirstAnswer(BenchSubmissions* submissions) {
  absl::Notification seen;
  absl::Status answered;
  strand.Post([&] {
    Submit(submissions->Next(*this), [&](const absl::Status& answer) {
      answered = answer;
      replica->view()->WhenAtLeast(replica->engine()->committed_revision(), [&] { seen.Notify(); });
    });
  });
  seen.WaitForNotification();
  return answered;
}

void BenchProcess::Submit(std::shared_ptr<const CreateJob> create,
                          const std::function<void(const absl::Status&)>& done) {
  replica->engine()->Call(*create, [=, this](const absl::StatusOr<Job>& job) {
    const absl::optional<absl::Duration> delay = status::GetRetryDelay(job.status());
    if (job.status().code() != absl::StatusCode::kResourceExhausted || !delay.has_value()) {
      return done(job.status());
    }
    ++shed;
    strand.RunAfter(*delay, [=, this] { Submit(create, done); });
  });
}

}  // namespace capstan::scheduler
