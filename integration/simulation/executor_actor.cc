#include "integration/simulation/executor_actor.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace capstan::simulation {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;

ExecutorActor::ExecutorActor(Network* network, const MachineClock* clock, std::string cluster,
                             std::vector<SchedulerActor*> schedulers, const Mutants* mutants)
    : Process(&network->world(), "executor-" + cluster, clock),
      network_(network),
      cluster_(std::move(cluster)),
      schedulers_(std::move(schedulers)),
      mutants_(mutants) {}

void ExecutorActor::OnStart() {
  executor::CoreConfig config;
  config.cluster = cluster_;
  config.first_uid = 100'000;
  config.last_uid = 100'999;
  auto core = executor::ExecutorCore::Load(config, disk_.Read(), Read());
  if (!core.ok()) return world().Violate(absl::StrCat(name(), ": ", core.status().ToString()));
  core_ = std::make_unique<executor::ExecutorCore>(*std::move(core));
  pipe_ = std::make_unique<CommitPipe>(this, &disk_,
                                       CommitPipe::BehindIf(mutants_->executor_acts_first));
  Apply(executor::Started{});
  Dial();
}

void ExecutorActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
  up_.reset();
  agents_.clear();
}

void ExecutorActor::OnAlarm() { Apply(executor::Tick{}); }

void ExecutorActor::Apply(const executor::Event& event) {
  executor::Step step = core_->Apply(event, Read());
  pipe_->Submit(std::move(step.puts), std::move(step.deletes),
                [this, after = std::move(step.after)](int64_t) {
                  for (const executor::Effect& effect : after) CarryOut(effect);
                });
  SetAlarm(core_->NextDeadline());
}

void ExecutorActor::CarryOut(const executor::Effect& effect) {
  if (const auto* send = std::get_if<executor::SendUp>(&effect)) {
    if (up_ != nullptr && send->session == up_session_) up_->SendUp(send->message);
  } else if (const auto* close = std::get_if<executor::CloseUp>(&effect)) {
    if (up_ == nullptr || close->session != up_session_) return;
    std::exchange(up_, nullptr)->CloseLower();
    // The core learns of it as of any other end, in a step of its own.
    Later(absl::ZeroDuration(), [this, session = close->session] {
      Apply(executor::UpDisconnected{session});
      Redial();
    });
  } else if (const auto* down = std::get_if<executor::SendAgent>(&effect)) {
    const auto agent = agents_.find(down->session);
    if (agent != agents_.end()) agent->second->SendDown(down->message);
  } else if (const auto* end = std::get_if<executor::CloseAgent>(&effect)) {
    const auto agent = agents_.find(end->session);
    if (agent == agents_.end()) return;
    agent->second->CloseUpper();
    agents_.erase(agent);
    Later(absl::ZeroDuration(),
          [this, session = end->session] { Apply(executor::AgentDisconnected{session}); });
  } else if (const auto* alarm = std::get_if<executor::Alarm>(&effect)) {
    world().Log(name(), absl::StrCat("alarm ", alarm->reason));
  }
}

void ExecutorActor::Dial() {
  SchedulerActor* scheduler = schedulers_[world().random().Below(schedulers_.size())];
  const executor::SessionId session = next_session_++;
  Network::LowerEnd end;
  end.received = [this, session](const SessionDown& message) {
    if (session != up_session_ || up_ == nullptr) return;
    for (const auto& task : message.desired().tasks()) {
      world().Log(name(),
                  absl::StrCat("is to ", capstan::type::v1::DesiredTask::Phase_Name(task.phase()),
                               " ", session::TaskId::Of(task.key()).Path()));
    }
    for (const auto& key : message.desired().forgotten()) {
      world().Log(name(), absl::StrCat("is to forget ", session::TaskId::Of(key).Path()));
    }
    if (message.desired().sync_complete()) world().Log(name(), "has its snapshot");
    for (const std::string& node : message.observations_ack().returned_nodes()) {
      world().Log(name(), absl::StrCat("may renew ", node));
    }
    Apply(executor::UpMessage{session, message});
  };
  end.closed = [this, session] {
    if (session != up_session_ || up_ == nullptr) return;
    up_.reset();
    Apply(executor::UpDisconnected{session});
    Redial();
  };
  network_->Dial(
      this, scheduler, end,
      [scheduler](std::shared_ptr<Pipe> pipe) { return scheduler->Accept(std::move(pipe)); },
      [this, session](std::shared_ptr<Pipe> pipe) {
        if (pipe == nullptr) return Redial();
        up_ = std::move(pipe);
        up_session_ = session;
        Apply(executor::UpConnected{session});
      });
}

void ExecutorActor::Redial() {
  Later(world().random().Between(absl::Milliseconds(200), absl::Seconds(3)), [this] { Dial(); });
}

Network::UpperEnd ExecutorActor::Accept(const std::string& node, std::shared_ptr<Pipe> pipe) {
  const executor::SessionId session = next_session_++;
  agents_[session] = std::move(pipe);
  Apply(executor::AgentConnected{session, node});
  Network::UpperEnd end;
  end.received = [this, session](const SessionUp& message) {
    if (agents_.count(session) != 0) Apply(executor::AgentMessage{session, message});
  };
  end.closed = [this, session] {
    if (agents_.erase(session) != 0) Apply(executor::AgentDisconnected{session});
  };
  return end;
}

}  // namespace capstan::simulation
