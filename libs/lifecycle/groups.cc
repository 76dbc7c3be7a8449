#include "libs/lifecycle/groups.h"

#include <thread>
#include <utility>

#include "libs/status/error.h"

namespace capstan::lifecycle {

void Groups::Add(std::vector<Part> siblings) {
  groups_.push_back(std::move(siblings));
  started_.push_back(0);
}

absl::Status Groups::Start(absl::Duration drain) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (Part& part : groups_[group]) {
      const absl::Status started = part.start ? part.start() : absl::OkStatus();
      if (!started.ok()) {
        log_->Error("part did not start", {{"part", part.name}, {"error", started}});
        Stop(drain);
        return status::Annotate(started, part.name);
      }
      ++started_[group];
      log_->Debug("part started", {{"part", part.name}});
    }
  }
  return absl::OkStatus();
}

void Groups::RequestStop(absl::Status cause) {
  absl::MutexLock lock(&mutex_);
  if (stop_requested_) return;
  stop_requested_ = true;
  cause_ = std::move(cause);
}

absl::Status Groups::WaitForStopRequest() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&stop_requested_));
  return cause_;
}

void Groups::Stop(absl::Duration drain) {
  const BootTime deadline = clock_->Read().boot + drain;
  for (size_t group = groups_.size(); group-- > 0;) {
    std::vector<Part*> parts;
    for (size_t i = started_[group]; i-- > 0;) parts.push_back(&groups_[group][i]);
    started_[group] = 0;
    StopGroup(std::move(parts), deadline);
  }
}

// Siblings do not know of each other, so each gets a thread, else the slowest would use up the time
// of the others.
void Groups::StopGroup(std::vector<Part*> parts, BootTime deadline) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < parts.size(); ++i) {
    threads.emplace_back([this, part = parts[i], deadline] { StopPart(part, deadline); });
  }
  if (!parts.empty()) StopPart(parts[0], deadline);
  for (std::thread& thread : threads) thread.join();
}

void Groups::StopPart(Part* part, BootTime deadline) {
  if (part->stop) part->stop(deadline);
  const BootTime now = clock_->Read().boot;
  if (now > deadline) {
    log_->Warning("part overstayed the drain", {{"part", part->name}, {"by", now - deadline}});
  } else {
    log_->Debug("part stopped", {{"part", part->name}});
  }
}

}  // namespace capstan::lifecycle
