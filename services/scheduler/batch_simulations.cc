#include "services/scheduler/batch_simulations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {

namespace {

constexpr absl::Duration kTryAgainAfter = absl::Seconds(10);

absl::Status Leads(size_t judged, size_t alternatives) {
  const std::string left = judged == 0 ? "none of the alternatives was judged"
                                       : absl::StrCat("alternatives[", judged, "] to [",
                                                      alternatives - 1, "] were not judged");
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "LEADS",
      absl::StrCat("this replica leads, and leaves batches of simulations to those that follow; ",
                   left, ": ask another replica, or set `allow_leader`"),
      {{"judged", absl::StrCat(judged)}});
}

}  // namespace

BatchSimulations::BatchSimulations(const CoreConfig& config, const Options& options,
                                   CommittedView* view, Strand* strand, Strand* beside,
                                   const CpuClock* cpu, metrics::Registry* metrics)
    : config_(config),
      options_(options),
      view_(view),
      strand_(strand),
      beside_(beside),
      cpu_(cpu),
      cpu_seconds_(metrics->AddCounter("batch_simulations_cpu_seconds_total",
                                       "Time of processors that batches of simulations took.")),
      alternatives_(metrics->AddCounter("batch_simulations_alternatives_total",
                                        "Alternatives of batches that were judged.")),
      budget_(options.max_core_percent) {
  view_->AddListener(this);
}

BatchSimulations::~BatchSimulations() {
  view_->RemoveListener(this);
  FailAll(absl::UnavailableError("the scheduler is stopping"));
  CancelTimer(&budget_timer_);
}

void BatchSimulations::Simulate(Batch batch, std::shared_ptr<Asker> asker) {
  if (IsRefused(batch)) return asker->Failed(Leads(0, batch.alternatives.size()));
  if (running_.has_value() && waiting_.size() >= options_.max_waiting) {
    return asker->Failed(status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_SIMULATIONS",
                      absl::StrCat("a batch of simulations is under way, and ", waiting_.size(),
                                   " wait for it; try again later")),
        kTryAgainAfter));
  }
  waiting_.push_back({std::move(batch), std::move(asker)});
  GoOn();
}

void BatchSimulations::CallOff(const Asker* asker) {
  std::erase_if(waiting_, [asker](const Waiting& one) { return one.asker.get() == asker; });
  if (!running_.has_value() || running_->asker.get() != asker) return;
  running_->asker = nullptr;
  CancelTimer(&unread_timer_);
  GoOn();
}

void BatchSimulations::SetLeading(bool leading) {
  leading_ = leading;
  std::deque<Waiting> refused;
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (!IsRefused(one->batch)) {
      ++one;
      continue;
    }
    refused.push_back(std::move(*one));
    one = waiting_.erase(one);
  }
  for (const Waiting& one : refused) one.asker->Failed(Leads(0, one.batch.alternatives.size()));
  GoOn();
}

void BatchSimulations::JobsChanged(const std::set<std::string>& uids) {
  if (running_.has_value() && running_->copy.has_value()) running_->copy->JobsChanged(uids);
}

void BatchSimulations::Closing() { FailAll(absl::UnavailableError("The server is stopping.")); }

void BatchSimulations::GoOn() {
  while (!is_working_) {
    if (running_.has_value() && running_->asker == nullptr) DropRunning();
    if (!running_.has_value()) {
      if (waiting_.empty()) return;
      running_.emplace();
      running_->batch = std::move(waiting_.front().batch);
      running_->asker = std::move(waiting_.front().asker);
      waiting_.pop_front();
      ++batches_;
    }
    Running& running = *running_;
    const size_t alternatives = running.batch.alternatives.size();
    if (running.next == alternatives) {
      const std::shared_ptr<Asker> asker = std::move(running.asker);
      const Summary summary = running.summary;
      const Basis basis{running.copied.wall, running.revision};
      DropRunning();
      asker->Done(summary, basis);
      continue;
    }
    if (IsRefused(running.batch)) {
      FailRunning(Leads(running.next, alternatives));
      continue;
    }
    if (running.unread) return;
    const BootTime now = strand_->clock().Read().boot;
    if (now < budget_.free_at()) {
      if (budget_timer_ != 0) return;
      budget_timer_ =
          strand_->RunAt(budget_.free_at(), [this, alive = std::weak_ptr<char>(alive_)] {
            if (alive.expired()) return;
            budget_timer_ = 0;
            GoOn();
          });
      return;
    }
    is_working_ = true;
    if (running.state == nullptr) {
      CopyOn(now, absl::ZeroDuration());
    } else {
      Judge();
    }
  }
}

void BatchSimulations::CopyOn(BootTime begun, absl::Duration taken) {
  Running& running = *running_;
  if (running.asker == nullptr || IsRefused(running.batch)) {
    running.copy.reset();
    return Worked(begun, taken);
  }
  const absl::Duration before = cpu_->Read();
  if (!running.copy.has_value()) running.copy.emplace();
  if (running.copy->Copy(view_->model(), options_.jobs_per_piece)) {
    running.copied = strand_->clock().Read();
    running.revision = view_->revision();
    running.state = std::make_shared<SharedState>(running.copy->Take(), view_->model(),
                                                  running.batch.alternatives);
    running.copy.reset();
  }
  taken += cpu_->Read() - before;
  if (running.state != nullptr) return Worked(begun, taken);
  strand_->Post([this, alive = std::weak_ptr<char>(alive_), begun, taken] {
    if (!alive.expired()) CopyOn(begun, taken);
  });
}

void BatchSimulations::Judge() {
  Running& running = *running_;
  Request request = std::move(running.batch.alternatives[running.next]);
  const bool is_last = running.next + 1 == running.batch.alternatives.size();
  std::shared_ptr<SharedState> state = is_last ? std::move(running.state) : running.state;
  beside_->Post([this, alive = std::weak_ptr<char>(alive_), strand = strand_, cpu = cpu_,
                 config = config_, begun = strand_->clock().Read().boot, copied = running.copied,
                 request = std::move(request), submitter = running.batch.submitter, is_last,
                 state = std::move(state)]() mutable {
    const absl::Duration before = cpu->Read();
    {
      Simulation simulation(config, is_last ? state->TakeFor(request) : state->For(request),
                            copied);
      absl::StatusOr<Response> response = simulation.Run(request, submitter);
      if (response.ok()) *response->mutable_state_time() = ToProto(copied.wall);
      strand->Post([this, alive, response = std::move(response)]() mutable {
        if (!alive.expired()) Answered(std::move(response));
      });
    }
    // To take all of it apart takes its time too.
    state = nullptr;
    strand->Post([this, alive, begun, taken = cpu->Read() - before] {
      if (!alive.expired()) Worked(begun, taken);
    });
  });
}

void BatchSimulations::Answered(absl::StatusOr<Response> response) {
  Running& running = *running_;
  const int index = static_cast<int>(running.next++);
  ++(response.ok() ? running.summary.simulated : running.summary.refused);
  alternatives_.Increment();
  const std::shared_ptr<Asker> asker = running.asker;
  if (asker == nullptr) return;
  Strand::Task read = [this, alive = std::weak_ptr<char>(alive_), batch = batches_] {
    if (alive.expired() || !running_.has_value() || batch != batches_) return;
    running_->unread = false;
    CancelTimer(&unread_timer_);
    GoOn();
  };
  if (running.next < running.batch.alternatives.size()) {
    running.unread = true;
    unread_timer_ =
        strand_->RunAfter(options_.max_unread, [this, alive = std::weak_ptr<char>(alive_)] {
          if (alive.expired()) return;
          unread_timer_ = 0;
          FailRunning(status::Error(
              absl::StatusCode::kAborted, "READS_TOO_SLOWLY",
              absl::StrCat("an answer was not read for ", absl::FormatDuration(options_.max_unread),
                           ", and others wait; read answers as they come")));
          GoOn();
        });
  }
  asker->Take(index, std::move(response), {running.copied.wall, running.revision}, std::move(read));
}

void BatchSimulations::Worked(BootTime begun, absl::Duration cpu) {
  is_working_ = false;
  budget_.Took(begun, cpu);
  running_->summary.cpu += cpu;
  cpu_seconds_.Increment(absl::ToDoubleSeconds(cpu));
  GoOn();
}

void BatchSimulations::FailRunning(const absl::Status& why) {
  const std::shared_ptr<Asker> asker = std::move(running_->asker);
  running_->asker = nullptr;
  CancelTimer(&unread_timer_);
  if (!is_working_) DropRunning();
  if (asker != nullptr) asker->Failed(why);
}

void BatchSimulations::FailAll(const absl::Status& why) {
  const std::deque<Waiting> waiting = std::exchange(waiting_, {});
  if (running_.has_value()) FailRunning(why);
  for (const Waiting& one : waiting) one.asker->Failed(why);
}

void BatchSimulations::DropRunning() {
  // To take the state apart is too much for the strand.
  if (running_->state != nullptr) beside_->Post([state = std::move(running_->state)] {});
  running_.reset();
}

void BatchSimulations::CancelTimer(Strand::TimerId* timer) {
  if (*timer != 0) strand_->Cancel(*timer);
  *timer = 0;
}

}  // namespace capstan::scheduler
