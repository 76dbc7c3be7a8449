#include "services/scheduler/simulations.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {

namespace {

constexpr absl::Duration kSimulateAgainAfter = absl::Seconds(2);
// Principals remembered; beyond, all are taken to have changed something.
constexpr size_t kMaxPrincipals = 4096;

bool ComesAfterOthers(const Simulations::Request& request) {
  return std::any_of(request.jobs().begin(), request.jobs().end(),
                     [](const auto& spec) { return spec.after_size() > 0; });
}

}  // namespace

Simulations::Simulations(const CoreConfig& config, const Options& options, CommittedView* view,
                         Strand* strand, Strand* beside)
    : config_(config), options_(options), view_(view), strand_(strand), beside_(beside) {
  view_->AddListener(this);
}

Simulations::~Simulations() {
  view_->RemoveListener(this);
  if (timer_ != 0) strand_->Cancel(timer_);
  for (Asked& asked : waiting_) asked.done(absl::UnavailableError("the scheduler is stopping"));
}

void Simulations::Simulate(Request request, std::string submitter, Done done) {
  if (requests_ == options_.max_requests) {
    return done(status::WithRetryDelay(
        status::Error(
            absl::StatusCode::kResourceExhausted, "TOO_MANY_SIMULATIONS",
            absl::StrCat(options_.max_requests, " simulations are under way; try again later")),
        kSimulateAgainAfter));
  }
  ++requests_;
  Asked asked{std::move(request), std::move(submitter), std::move(done)};
  if (!IsLarge() || ComesAfterOthers(asked.request)) return RunAtOnce(std::move(asked));
  if (!ready_.has_value() || !IsGoodFor(*ready_, asked.submitter)) {
    waiting_.push_back(std::move(asked));
    if (!making_) Prepare();
    return;
  }
  ++found_ready_;
  Run(*std::exchange(ready_, absl::nullopt), std::move(asked));
  Arm();
}

void Simulations::ChangedBy(const std::string& principal, int64_t revision) {
  if (changed_by_.size() == kMaxPrincipals && changed_by_.count(principal) == 0) {
    changed_by_.clear();
    fleet_revision_ = std::max(fleet_revision_, revision);
  }
  int64_t& last = changed_by_[principal];
  last = std::max(last, revision);
}

void Simulations::JobsChanged(const std::set<std::string>& uids) {
  if (copy_.has_value()) copy_->JobsChanged(uids);
  Arm();
}

void Simulations::FleetChanged() {
  fleet_revision_ = view_->revision();
  Arm();
}

bool Simulations::IsLarge() const {
  const Model& model = view_->model();
  return model.nodes.size() + model.jobs.size() >= options_.worth_preparing;
}

bool Simulations::IsGoodFor(const Ready& ready, const std::string& submitter) const {
  if (ready.revision == view_->revision()) return true;
  if (ready.revision < fleet_revision_) return false;
  const auto own = changed_by_.find(submitter);
  if (own != changed_by_.end() && ready.revision < own->second) return false;
  return strand_->clock().Read().boot - ready.copied.boot <= options_.max_age;
}

void Simulations::RunAtOnce(Asked asked) {
  const Now now = strand_->clock().Read();
  // The copy is of no use to anybody else.
  auto state = std::make_shared<SimulatedState>(StateForSimulation(view_->model(), asked.request));
  beside_->Post([this, alive = std::weak_ptr<char>(alive_), strand = strand_, config = config_, now,
                 state = std::move(state), asked = std::move(asked)]() mutable {
    {
      Simulation simulation(config, std::move(*state), now);
      absl::StatusOr<Response> response = simulation.Run(asked.request, asked.submitter);
      if (response.ok()) *response->mutable_state_time() = ToProto(now.wall);
      asked.done(std::move(response));
    }
    strand->Post([this, alive] {
      if (!alive.expired()) --requests_;
    });
  });
}

void Simulations::Run(Ready ready, Asked asked) {
  beside_->Post([this, alive = std::weak_ptr<char>(alive_), strand = strand_,
                 ready = std::move(ready), asked = std::move(asked)]() mutable {
    absl::StatusOr<Response> response = ready.simulation->Run(asked.request, asked.submitter);
    if (response.ok()) *response->mutable_state_time() = ToProto(ready.copied.wall);
    asked.done(std::move(response));
    // After the answer: it takes its time.
    ready.simulation.reset();
    strand->Post([this, alive] {
      if (!alive.expired()) --requests_;
    });
  });
}

void Simulations::Prepare() {
  making_ = true;
  copying_ = absl::ZeroDuration();
  copy_.reset();
  CopyOn();
}

void Simulations::CopyOn() {
  if (!copy_.has_value()) copy_.emplace();
  const BootTime begun = strand_->clock().Read().boot;
  const bool is_whole = copy_->Copy(view_->model(), options_.jobs_per_piece);
  Ready ready;
  ready.copied = strand_->clock().Read();
  copying_ += ready.copied.boot - begun;
  if (!is_whole) {
    strand_->Post([this, alive = std::weak_ptr<char>(alive_)] {
      if (!alive.expired()) CopyOn();
    });
    return;
  }
  auto state = std::make_shared<SimulatedState>(copy_->Take());
  copy_.reset();
  ready.revision = view_->revision();
  beside_->Post([this, alive = std::weak_ptr<char>(alive_), strand = strand_, config = config_,
                 state = std::move(state), ready = std::move(ready)]() mutable {
    const BootTime begun = strand->clock().Read().boot;
    ready.simulation = std::make_shared<Simulation>(config, std::move(*state), ready.copied);
    const absl::Duration took = strand->clock().Read().boot - begun;
    strand->Post([this, alive, ready = std::move(ready), took]() mutable {
      if (!alive.expired()) Made(std::move(ready), took);
    });
  });
}

void Simulations::Made(Ready ready, absl::Duration took) {
  making_ = false;
  renew_at_ = strand_->clock().Read().boot +
              std::max(options_.renew_every, options_.pause_times_cost * (copying_ + took));
  // To take the one before apart is beside the strand too.
  if (ready_.has_value()) beside_->Post([old = std::move(*ready_)] {});
  ready_ = std::move(ready);
  for (auto asked = waiting_.begin(); asked != waiting_.end(); ++asked) {
    if (!IsGoodFor(*ready_, asked->submitter)) continue;
    Run(*std::exchange(ready_, absl::nullopt), std::move(*asked));
    waiting_.erase(asked);
    break;
  }
  if (!waiting_.empty()) return Prepare();
  Arm();
}

void Simulations::Arm() {
  if (timer_ != 0 || making_ || !view_->ready() || !IsLarge()) return;
  if (ready_.has_value() && ready_->revision == view_->revision()) return;
  timer_ = strand_->RunAt(renew_at_, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    timer_ = 0;
    if (!making_) Prepare();
  });
}

}  // namespace capstan::scheduler
