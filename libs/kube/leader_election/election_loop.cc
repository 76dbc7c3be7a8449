#include "libs/kube/leader_election/election_loop.h"

#include <utility>

#include "absl/status/status.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::kube {

class ElectionLoop::State : public std::enable_shared_from_this<State> {
 public:
  State(const LeaderElectionOptions& options, LeaderCallbacks callbacks,
        ElectionDependencies dependencies, std::shared_ptr<LeaderBelief> belief)
      : ns_(options.ns),
        name_(options.name),
        callbacks_(std::move(callbacks)),
        client_(dependencies.client),
        strand_(client_->strand()),
        log_(std::move(dependencies.log)),
        belief_(std::move(belief)),
        codec_(MakeCodec<coordination_v1::Lease>(kLeases.type())),
        random_(dependencies.seed),
        core_(options, &random_) {}

  void Start() { CarryOut(core_.Start(ReadClock())); }

  void Stop(absl::AnyInvocable<void()> done) {
    done_ = std::move(done);
    CarryOut(core_.Stop(ReadClock()));
  }

  // Ends it without a word.
  void End() {
    ended_ = true;
    belief_->SetTerm(BootTime::InfinitePast(), LeaseTerm());
    call_.reset();
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = 0;
  }

 private:
  Now ReadClock() const { return strand_->clock().Read(); }

  void CarryOut(const LeaseStep& step) {
    // A callback may destroy the loop.
    const std::shared_ptr<State> self = shared_from_this();
    // The call first: its belief counts from the time that the core was told.
    if (step.call.has_value()) Send(*step.call);
    if (step.finished) call_.reset();
    belief_->SetTerm(core_.leader_until(), core_.term());
    if (step.new_leader.has_value()) belief_->SetLeader(*step.new_leader);
    SetTimer();
    Log(step);
    if (step.stopped.has_value() && callbacks_.on_stopped) callbacks_.on_stopped(*step.stopped);
    if (ended_) return;
    if (step.new_leader.has_value() && callbacks_.on_new_leader) {
      callbacks_.on_new_leader(*step.new_leader);
    }
    if (ended_) return;
    if (step.started.has_value() && callbacks_.on_started) callbacks_.on_started(*step.started);
    if (ended_) return;
    if (step.finished && done_) std::exchange(done_, nullptr)();
  }

  ApiRequest RequestOf(const LeaseCall& call) const {
    switch (call.kind) {
      case LeaseCall::Kind::kGet:
        break;
      case LeaseCall::Kind::kCreate:
        return CreateRequest(kLeases.type(), ns_, codec_->Write(call.lease), WriteOptions(),
                             codec_->encoding());
      case LeaseCall::Kind::kUpdate:
        return UpdateRequest(kLeases.type(), ns_, name_, "", codec_->Write(call.lease),
                             /*conditional=*/true, WriteOptions(), codec_->encoding());
    }
    return GetRequest(kLeases.type(), ns_, name_, codec_->encoding());
  }

  void Send(const LeaseCall& call) {
    ApiRequest request = RequestOf(call);
    request.timeout = call.timeout;
    call_ = StartObject<coordination_v1::Lease>(
        client_, std::move(request), codec_,
        [weak = weak_from_this(),
         attempt = call.attempt](absl::StatusOr<ObjectPtr<coordination_v1::Lease>> answer) {
          const std::shared_ptr<State> self = weak.lock();
          if (self == nullptr || self->ended_) return;
          self->CarryOut(self->core_.OnAnswer(attempt, answer, self->ReadClock()));
        });
  }

  void SetTimer() {
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = 0;
    const BootTime when = core_.NextWake();
    if (when == BootTime::InfiniteFuture()) return;
    timer_ = strand_->RunAt(when, [weak = weak_from_this()] {
      const std::shared_ptr<State> self = weak.lock();
      if (self == nullptr || self->ended_) return;
      self->timer_ = 0;
      self->CarryOut(self->core_.OnTimer(self->ReadClock()));
    });
  }

  void Log(const LeaseStep& step) {
    const bool is_new =
        !step.failure.ok() && (step.failure.code() != failure_.code() ||
                               status::Reason(step.failure) != status::Reason(failure_));
    if (!step.failure.ok()) failure_ = step.failure;
    if (step.started.has_value()) failure_ = absl::OkStatus();
    if (!log_.has_value()) return;
    if (step.stopped.has_value()) {
      log_->Warning("leads no more", {{"lease", name_}, {"why", *step.stopped}});
    }
    if (is_new)
      log_->Warning("leader election failed", {{"lease", name_}, {"error", step.failure}});
    if (step.new_leader.has_value()) {
      log_->Info("new leader", {{"lease", name_}, {"leader", *step.new_leader}});
    }
    if (step.started.has_value()) log_->Info("leads", {{"lease", name_}});
  }

  const std::string ns_;
  const std::string name_;
  const LeaderCallbacks callbacks_;
  Client* const client_;
  Strand* const strand_;
  const absl::optional<log::Logger> log_;
  const std::shared_ptr<LeaderBelief> belief_;
  const std::shared_ptr<const Codec<coordination_v1::Lease>> codec_;
  Random random_;
  LeaseCore core_;
  // Of calls; the last that was not OK.
  absl::Status failure_;
  std::unique_ptr<PendingCall> call_;
  Strand::TimerId timer_ = 0;
  absl::AnyInvocable<void()> done_;
  bool ended_ = false;
};

ElectionLoop::ElectionLoop(LeaderElectionOptions options, LeaderCallbacks callbacks,
                           ElectionDependencies dependencies)
    : state_([&] {
        auto belief = std::make_shared<LeaderBelief>(&dependencies.client->strand()->clock());
        belief_ = belief;
        return std::make_shared<State>(options, std::move(callbacks), std::move(dependencies),
                                       std::move(belief));
      }()) {}

ElectionLoop::~ElectionLoop() { state_->End(); }

void ElectionLoop::Start() { state_->Start(); }
void ElectionLoop::Stop(absl::AnyInvocable<void()> done) { state_->Stop(std::move(done)); }

}  // namespace capstan::kube
