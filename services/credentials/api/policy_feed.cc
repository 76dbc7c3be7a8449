#include "services/credentials/api/policy_feed.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace capstan::credentials {

PolicyFeed::~PolicyFeed() {
  if (timer_ != 0) strand_->Cancel(timer_);
}

void PolicyFeed::Publish(std::shared_ptr<const v1::PolicySnapshot> snapshot) {
  snapshot_ = std::move(snapshot);
  if (snapshot_ == nullptr) {
    if (timer_ != 0) strand_->Cancel(std::exchange(timer_, 0));
    // They find another replica, or this one when it can say again.
    EndAll(absl::UnavailableError("This replica cannot say now what the policy is."));
    return;
  }
  holder_->Set(std::make_shared<const auth::Policy>(*snapshot_, strand_->clock().Read().boot));
  SendToAll();
}

void PolicyFeed::AddWatcher(std::shared_ptr<Writer> writer) {
  const int64_t id = next_watcher_++;
  writer->NotifyClosed(strand_, [this, alive = std::weak_ptr<char>(alive_), id] {
    if (!alive.expired()) watchers_.erase(id);
  });
  Watcher& watcher = watchers_[id];
  watcher.writer = std::move(writer);
  Send(id, &watcher);
}

void PolicyFeed::EndAll(const absl::Status& status) {
  for (auto& [id, watcher] : watchers_) watcher.writer->Finish(status);
}

void PolicyFeed::SendToAll() {
  for (auto& [id, watcher] : watchers_) Send(id, &watcher);
  ArmTimer();
}

void PolicyFeed::Send(int64_t id, Watcher* watcher) {
  if (snapshot_ == nullptr) return;
  const absl::Status sent = watcher->writer->Write(*snapshot_);
  if (sent.code() != absl::StatusCode::kResourceExhausted || watcher->behind) return;
  watcher->behind = true;
  watcher->writer->NotifyDrained(strand_, [this, alive = std::weak_ptr<char>(alive_), id] {
    if (alive.expired()) return;
    const auto it = watchers_.find(id);
    if (it == watchers_.end()) return;
    it->second.behind = false;
    Send(id, &it->second);
  });
}

void PolicyFeed::ArmTimer() {
  if (timer_ != 0) strand_->Cancel(timer_);
  timer_ = strand_->RunAfter(absl::Seconds(snapshot_->valid_seconds()) / 3,
                             [this, alive = std::weak_ptr<char>(alive_)] {
                               if (alive.expired()) return;
                               timer_ = 0;
                               // It counts from its receipt here as well.
                               Publish(snapshot_);
                             });
}

}  // namespace capstan::credentials
