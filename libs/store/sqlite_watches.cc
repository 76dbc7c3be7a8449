#include "libs/store/sqlite_watches.h"

#include <algorithm>
#include <utility>

#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

size_t Bytes(const WatchBatch& batch) {
  size_t bytes = 64;
  for (const WatchEvent& event : batch.events) {
    bytes += sizeof(WatchEvent) + event.kv.key.size() + event.kv.value.size();
  }
  return bytes;
}

}  // namespace

bool SqliteWatches::Send(const std::shared_ptr<Watcher>& watcher, WatchBatch batch) {
  if (watcher->ended || watcher->cancelled) return false;
  const size_t bytes = Bytes(batch);
  // What one catch-up read or one commit holds is always sent: the bound is on what piles up.
  if (watcher->waiting_bytes.fetch_add(bytes) > bound_bytes_) {
    End(watcher, SlowWatchError());
    return false;
  }
  strand_->Post([watcher, bytes, batch = std::move(batch)]() mutable {
    watcher->waiting_bytes.fetch_sub(bytes);
    if (!watcher->cancelled) watcher->on_batch(std::move(batch));
  });
  return true;
}

void SqliteWatches::End(const std::shared_ptr<Watcher>& watcher, absl::Status why) {
  if (watcher->ended.exchange(true)) return;
  strand_->Post([watcher, why = std::move(why)] {
    if (!watcher->cancelled.exchange(true)) watcher->on_batch(why);
  });
}

void SqliteWatches::Committed(int64_t revision, const std::vector<WatchEvent>& events) {
  absl::MutexLock lock(&mutex_);
  revision_ = revision;
  watchers_.erase(std::remove_if(watchers_.begin(), watchers_.end(),
                                 [](const std::shared_ptr<Watcher>& watcher) {
                                   return watcher->cancelled || watcher->ended;
                                 }),
                  watchers_.end());
  for (const std::shared_ptr<Watcher>& watcher : watchers_) {
    if (!watcher->live) continue;
    WatchBatch batch;
    batch.revision = revision;
    for (const WatchEvent& event : events) {
      if (event.kv.mod_revision >= watcher->next &&
          InRange(watcher->request.key, watcher->request.end, event.kv.key)) {
        batch.events.push_back(event);
      }
    }
    watcher->next = std::max(watcher->next, revision + 1);
    if (!batch.events.empty()) Send(watcher, std::move(batch));
  }
}

bool SqliteWatches::GoLive(const std::shared_ptr<Watcher>& watcher) {
  absl::MutexLock lock(&mutex_);
  if (watcher->next <= revision_) return false;
  watcher->live = true;
  return true;
}

int64_t SqliteWatches::revision() const {
  absl::MutexLock lock(&mutex_);
  return revision_;
}

void SqliteWatches::Add(const std::shared_ptr<Watcher>& watcher) {
  absl::MutexLock lock(&mutex_);
  if (watcher->next == 0) watcher->next = revision_ + 1;
  watchers_.push_back(watcher);
}

void SqliteWatches::EndAll(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Watcher>& watcher : watchers_) End(watcher, why);
  watchers_.clear();
}

}  // namespace capstan::store
