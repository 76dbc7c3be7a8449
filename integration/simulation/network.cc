#include "integration/simulation/network.h"

#include <algorithm>
#include <utility>

namespace capstan::simulation {
namespace {

constexpr absl::Duration kProbe = absl::Seconds(5);
constexpr absl::Duration kSilence = absl::Seconds(30);
constexpr absl::Duration kRetry = absl::Milliseconds(300);

}  // namespace

absl::Duration Network::Delay(const std::string& from, const std::string& to) {
  absl::Duration slowest = slowest_;
  for (const std::string& end : {from, to}) {
    const auto slow = slow_peers_.find(end);
    if (slow != slow_peers_.end()) slowest = std::max(slowest, slow->second);
  }
  return world_->random().Between(absl::Microseconds(200), slowest);
}

void Network::SetSlowest(const std::string& peer, absl::Duration slowest) {
  if (slowest == absl::ZeroDuration()) {
    slow_peers_.erase(peer);
  } else {
    slow_peers_[peer] = slowest;
  }
}

void Network::Calm() {
  slowest_ = kSlowest;
  slow_peers_.clear();
  doubling_ = false;
  reordering_ = false;
}

void Network::Bring(const std::string& from, const std::string& to, std::function<void()> arrive) {
  absl::Duration delay = Delay(from, to);
  const bool held = reordering_ && world_->random().OneIn(3);
  if (held) delay += world_->random().Between(absl::Milliseconds(500), absl::Seconds(8));
  Traffic* const traffic = &traffic_[{from, to}];
  world_->After(delay, [this, traffic, held, number = ++traffic->sent, arrive = std::move(arrive)] {
    if (held && traffic->newest > number) world_->Fault("reorder");
    traffic->newest = std::max(traffic->newest, number);
    arrive();
  });
}

void Network::Dial(Process* lower, Process* upper, const LowerEnd& lower_end,
                   const std::function<UpperEnd(std::shared_ptr<Pipe>)>& accept,
                   const std::function<void(std::shared_ptr<Pipe>)>& done) {
  const int64_t lower_life = lower->life();
  const bool reached = Passes(lower->name(), upper->name()) && Passes(upper->name(), lower->name());
  if (!reached) {
    world_->After(absl::Seconds(2),
                  [lower, lower_life, done] { lower->Run(lower_life, [done] { done(nullptr); }); });
    return;
  }
  world_->After(Delay(lower->name(), upper->name()),
                [this, lower, lower_life, upper, lower_end, accept, done] {
                  if (!lower->up() || lower->life() != lower_life) return;
                  if (!upper->up() || upper->stopped()) {
                    lower->Run(lower_life, [done] { done(nullptr); });
                    return;
                  }
                  std::shared_ptr<Pipe> pipe(new Pipe(this, lower, upper));
                  pipe->lower_end_ = lower_end;
                  pipe->upper_end_ = accept(pipe);
                  if (pipe->upper_end_.received == nullptr) {
                    lower->Run(lower_life, [done] { done(nullptr); });
                    return;
                  }
                  pipe->heard_ = world_->now();
                  pipe->Watch();
                  lower->Run(lower_life, [done, pipe] { done(pipe); });
                });
}

Pipe::Pipe(Network* network, Process* lower, Process* upper)
    : network_(network),
      lower_(lower),
      upper_(upper),
      lower_life_(lower->life()),
      upper_life_(upper->life()) {}

void Pipe::Watch() {
  World& world = network_->world();
  const bool passes = network_->Passes(lower_->name(), upper_->name()) &&
                      network_->Passes(upper_->name(), lower_->name());
  const bool both = LowerAlive() && UpperAlive() && lower_open_ && upper_open_ &&
                    !lower_->stopped() && !upper_->stopped();
  if (passes && both) heard_ = world.now();
  // A dead process's machine answers with a reset, if it is reached.
  if (passes && !LowerAlive()) UpperGone();
  if (passes && !UpperAlive()) LowerGone();
  if (world.now() - heard_ >= kSilence) {
    LowerGone();
    UpperGone();
  }
  if (!lower_open_ && !upper_open_) return;
  world.After(kProbe, [self = shared_from_this()] { self->Watch(); });
}

void Pipe::LowerGone() {
  if (!std::exchange(lower_open_, false)) return;
  lower_->Run(lower_life_, [self = shared_from_this()] { self->lower_end_.closed(); });
}

void Pipe::UpperGone() {
  if (!std::exchange(upper_open_, false)) return;
  upper_->Run(upper_life_, [self = shared_from_this()] { self->upper_end_.closed(); });
}

void Pipe::SendUp(capstan::type::v1::SessionUp message) {
  if (!lower_open_) return;
  if (network_->tap() != nullptr) network_->tap()->SentUp(*this, message);
  up_.items.push_back(
      {network_->world().now() + network_->Delay(lower(), upper()), false, std::move(message)});
  PumpUp();
}

void Pipe::SendDown(capstan::type::v1::SessionDown message) {
  if (!upper_open_) return;
  if (network_->tap() != nullptr) network_->tap()->SentDown(*this, message);
  down_.items.push_back(
      {network_->world().now() + network_->Delay(upper(), lower()), false, std::move(message)});
  PumpDown();
}

void Pipe::CloseLower() {
  if (!std::exchange(lower_open_, false)) return;
  up_.items.push_back({network_->world().now() + network_->Delay(lower(), upper()), true, {}});
  PumpUp();
}

void Pipe::CloseUpper() {
  if (!std::exchange(upper_open_, false)) return;
  down_.items.push_back({network_->world().now() + network_->Delay(upper(), lower()), true, {}});
  PumpDown();
}

void Pipe::PumpUp() {
  if (up_.pumping || up_.items.empty()) return;
  up_.pumping = true;
  World& world = network_->world();
  world.After(up_.items.front().due - world.now(), [self = shared_from_this()] {
    self->up_.pumping = false;
    if (!self->upper_open_ || !self->UpperAlive()) return;
    if (!self->network_->Passes(self->lower_->name(), self->upper_->name())) {
      self->up_.items.front().due = self->network_->world().now() + kRetry;
      return self->PumpUp();
    }
    auto item = std::move(self->up_.items.front());
    self->up_.items.pop_front();
    if (item.close) return self->UpperGone();
    self->upper_->Run(self->upper_life_, [self, message = std::move(item.message)] {
      if (self->upper_open_) self->upper_end_.received(message);
    });
    self->PumpUp();
  });
}

void Pipe::PumpDown() {
  if (down_.pumping || down_.items.empty()) return;
  down_.pumping = true;
  World& world = network_->world();
  world.After(down_.items.front().due - world.now(), [self = shared_from_this()] {
    self->down_.pumping = false;
    if (!self->lower_open_ || !self->LowerAlive()) return;
    if (!self->network_->Passes(self->upper_->name(), self->lower_->name())) {
      self->down_.items.front().due = self->network_->world().now() + kRetry;
      return self->PumpDown();
    }
    auto item = std::move(self->down_.items.front());
    self->down_.items.pop_front();
    if (item.close) return self->LowerGone();
    self->lower_->Run(self->lower_life_, [self, message = std::move(item.message)] {
      if (!self->lower_open_) return;
      if (self->network_->tap() != nullptr) self->network_->tap()->TakenDown(*self, message);
      self->lower_end_.received(message);
    });
    self->PumpDown();
  });
}

}  // namespace capstan::simulation
