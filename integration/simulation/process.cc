#include "integration/simulation/process.h"

#include <algorithm>
#include <utility>

namespace capstan::simulation {

void Process::Start() {
  if (up_) return;
  up_ = true;
  stopped_ = false;
  ++life_;
  world_->Log(name_, "starts");
  OnStart();
}

void Process::Crash() {
  if (!up_) return;
  world_->Log(name_, "is killed");
  up_ = false;
  stopped_ = false;
  waiting_.clear();
  alarm_time_.reset();
  ++alarm_;
  OnCrash();
}

void Process::Stop() {
  if (!up_ || stopped_) return;
  world_->Log(name_, "is stopped");
  stopped_ = true;
}

void Process::Continue() {
  if (!stopped_) return;
  world_->Log(name_, "continues");
  stopped_ = false;
  const int64_t life = life_;
  while (!waiting_.empty() && life == life_ && up_ && !stopped_) {
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    work();
  }
}

void Process::DropState() {
  world_->Log(name_, "drops its state: a commit found no room");
  Crash();
  world_->After(absl::Seconds(1), [this, life = life_] {
    if (life == life_) Start();
  });
}

void Process::LoseStore() {
  world_->Log(name_, "has lost its store: a commit failed");
  Crash();
}

void Process::Run(int64_t life, std::function<void()> work) {
  if (!up_ || life != life_) return;
  if (stopped_) {
    waiting_.push_back(std::move(work));
    return;
  }
  work();
}

void Process::Later(absl::Duration delay, std::function<void()> work) {
  world_->After(delay, [this, life = life_, work = std::move(work)]() mutable {
    Run(life, std::move(work));
  });
}

void Process::SetAlarm(absl::optional<BootTime> when) {
  if (when == alarm_time_) return;
  alarm_time_ = when;
  const int64_t alarm = ++alarm_;
  if (!when.has_value()) return;
  Later(clock_->Until(*when), [this, alarm] {
    if (alarm != alarm_) return;
    alarm_time_.reset();
    OnAlarm();
  });
}

std::vector<store::KeyValue> Disk::Read() const {
  std::vector<store::KeyValue> all;
  for (const auto& [key, value] : records) {
    store::KeyValue kv;
    kv.key = key;
    kv.value = value;
    all.push_back(std::move(kv));
  }
  return all;
}

void Disk::Apply(const std::vector<store::Put>& puts, const std::vector<store::Delete>& deletes) {
  if (puts.empty() && deletes.empty()) return;
  ++revision;
  for (const store::Delete& gone : deletes) {
    if (gone.end.empty()) {
      records.erase(gone.key);
    } else {
      records.erase(records.lower_bound(gone.key), records.lower_bound(gone.end));
    }
  }
  for (const store::Put& put : puts) records[put.key] = put.value;
}

bool FailedCommitIsThere(World* world) {
  const bool is_there = world->random().OneIn(2);
  world->Fault("failing disk");
  world->Fault(is_there ? "failed commit that is there" : "failed commit that is lost");
  return is_there;
}

void CommitPipe::Submit(std::vector<store::Put> puts, std::vector<store::Delete> deletes,
                        std::function<void(int64_t)> after, std::function<void()> written) {
  if (dead_) return;
  if (options_.act_first) {
    after(disk_->revision + 1);
    after = [](int64_t) {};
    if (dead_) return;
  }
  queue_.push_back({std::move(puts), std::move(deletes), std::move(after), std::move(written)});
  if (!busy_) Next();
}

void CommitPipe::Write(Disk* disk, const Commit& commit) {
  disk->Apply(commit.puts, commit.deletes);
  if (commit.written != nullptr) commit.written();
}

void CommitPipe::Next() {
  // What has nothing to write waits only for its turn.
  while (!queue_.empty() && queue_.front().puts.empty() && queue_.front().deletes.empty()) {
    busy_ = true;
    Commit commit = std::move(queue_.front());
    queue_.pop_front();
    const std::weak_ptr<char> alive = alive_;
    commit.after(disk_->revision);
    // The life may have ended in there, and this with it.
    if (alive.expired() || dead_ || !process_->up() || process_->life() != life_) return;
  }
  busy_ = !queue_.empty();
  if (!busy_) return;
  Random& random = process_->world().random();
  TryLater(random.Between(absl::Milliseconds(1), std::max(options_.slowest, disk_->slowest)));
}

void CommitPipe::TryLater(absl::Duration delay) {
  process_->Later(delay, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) Try();
  });
}

void CommitPipe::Try() {
  if (dead_) return;
  if (!options_.reachable()) {
    return TryLater(absl::Milliseconds(200));
  }
  if (!options_.compare()) {
    dead_ = true;
    options_.on_dead();
    return;
  }
  const bool fails = disk_->full || disk_->failing;
  const bool is_there =
      !disk_->full && (!disk_->failing || FailedCommitIsThere(&process_->world()));
  if (fails && !disk_->lies) {
    if (is_there) Write(disk_, queue_.front());
    dead_ = true;
    // Nothing of it arrives later either.
    queue_.clear();
    // Ends this object.
    const std::function<void()> on_failed = options_.on_failed;
    if (on_failed != nullptr) return on_failed();
    return disk_->full ? process_->DropState() : process_->LoseStore();
  }
  Commit commit = std::move(queue_.front());
  queue_.pop_front();
  if (is_there) Write(disk_, commit);
  const std::weak_ptr<char> alive = alive_;
  commit.after(disk_->revision);
  if (!alive.expired() && !dead_ && process_->up() && process_->life() == life_) Next();
}

void CommitPipe::Crash() {
  dead_ = true;
  if (queue_.empty() || !process_->world().random().OneIn(2) || disk_->full) return;
  if (options_.latest == absl::ZeroDuration()) {
    if (options_.compare()) Write(disk_, queue_.front());
    return;
  }
  World* world = &process_->world();
  world->After(world->random().Between(absl::ZeroDuration(), options_.latest),
               [world, disk = disk_, options = options_, commit = queue_.front()] {
                 ArriveLate(world, disk, options, commit, /*tries=*/300);
               });
}

// The machine sends what the process has left behind until it gets through or gives up.
void CommitPipe::ArriveLate(World* world, Disk* disk, const Options& options, const Commit& commit,
                            int tries) {
  if (options.reachable()) {
    if (options.compare() && !disk->full) Write(disk, commit);
    return;
  }
  if (tries == 0) return;
  world->After(absl::Seconds(1), [world, disk, options, commit, tries] {
    ArriveLate(world, disk, options, commit, tries - 1);
  });
}

}  // namespace capstan::simulation
