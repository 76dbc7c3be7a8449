#include "libs/kube/leader_election/leader_elector.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/synchronization/notification.h"
#include "libs/status/status_macros.h"
#include "libs/strand/notify_when_gone.h"
#include "libs/strand/strand.h"

namespace capstan::kube {
namespace {

struct Stopping {
  // Goes last: what waits may take all away that the loop uses.
  NotifyWhenGone once_gone;
  std::shared_ptr<ElectionLoop> loop;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeaderElector>> LeaderElector::Make(
    LeaderElectionOptions options, LeaderCallbacks callbacks, ElectionDependencies dependencies) {
  CAPSTAN_RETURN_IF_ERROR(CheckLeaderElection(options));
  return absl::WrapUnique(
      new LeaderElector(std::move(options), std::move(callbacks), std::move(dependencies)));
}

LeaderElector::LeaderElector(LeaderElectionOptions options, LeaderCallbacks callbacks,
                             ElectionDependencies dependencies)
    : strand_(dependencies.client->strand()),
      loop_(std::make_shared<ElectionLoop>(std::move(options), std::move(callbacks),
                                           std::move(dependencies))),
      belief_(loop_->belief()) {}

LeaderElector::~LeaderElector() { Stop(); }

void LeaderElector::Start() {
  strand_->Post([loop = std::weak_ptr<ElectionLoop>(loop_)] {
    if (const auto held = loop.lock()) held->Start();
  });
}

void LeaderElector::Stop() {
  if (loop_ == nullptr) return;
  absl::Notification stopped;
  Stopping stopping;
  stopping.once_gone.reset(&stopped);
  stopping.loop = std::move(loop_);
  // The task alone has the loop, so that it goes on the strand.
  strand_->Post([stopping = std::move(stopping)]() mutable {
    ElectionLoop* const loop = stopping.loop.get();
    loop->Stop([stopping = std::move(stopping)] {});
  });
  stopped.WaitForNotification();
}

}  // namespace capstan::kube
