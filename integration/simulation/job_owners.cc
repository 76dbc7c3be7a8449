#include "integration/simulation/job_owners.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/keys.h"

namespace capstan::simulation {

using capstan::scheduler::v1::Job;

namespace {

constexpr absl::Duration kAgain = absl::Seconds(2);
// Of the Jobs that came last most have not ended yet.
constexpr size_t kLast = 6;

}  // namespace

JobOwners::JobOwners(Network* network, const MachineClock* clock,
                     std::vector<SchedulerActor*> schedulers, const SharedStore* store)
    : SchedulerCaller(network, "job-owners", clock, std::move(schedulers)), store_(store) {}

void JobOwners::Have(const Job& job) {
  // A request that is made again makes no other Job.
  const bool known = std::any_of(jobs_.begin(), jobs_.end(),
                                 [&job](const Owned& one) { return one.uid == job.uid(); });
  if (!known) jobs_.push_back({job.name(), job.uid()});
}

void JobOwners::Act(absl::Duration end) {
  Plan(end);
  Later(end + absl::Seconds(30), [this] {
    for (const Owned& job : jobs_) {
      if (job.was_held) Release(job);
    }
  });
}

void JobOwners::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(10), absl::Seconds(40)), [this, end] {
    if (world().now() >= end) return;
    Plan(end);
    if (jobs_.empty()) return;
    Random& random = world().random();
    Owned* job = &jobs_[jobs_.size() - 1 - random.Below(std::min(jobs_.size(), kLast))];
    Change change;
    switch (random.Below(4)) {
      case 0:
        change.set_priority(static_cast<int32_t>(random.Between(int64_t{-2}, int64_t{2})));
        break;
      case 1:
        // Long enough for each to end by itself; or none.
        *change.mutable_time_limit() =
            ToProto(random.OneIn(3) ? absl::ZeroDuration()
                                    : random.Between(absl::Minutes(40), absl::Minutes(80)));
        break;
      default:
        return Hold(job);
    }
    Update(job->name, change, [this](bool ok) {
      if (ok) world().Fault("job changed");
    });
  });
}

void JobOwners::Hold(Owned* job) {
  if (std::exchange(job->was_held, true)) return;
  Change change;
  change.set_hold(true);
  Update(job->name, change, [this, held = *job](bool ok) {
    if (!ok) return;
    world().Fault("job held");
    CheckHeld(held);
    Later(world().random().Between(absl::Seconds(10), absl::Seconds(90)), [this, held] {
      CheckHeld(held);
      Release(held);
    });
  });
}

void JobOwners::CheckHeld(const Owned& job) {
  if (released_.count(job.uid) > 0) return;
  const auto record = store_->disk.records.find(scheduler::JobStateKey(job.uid));
  scheduler::records::v1::JobStateRecord state;
  if (record == store_->disk.records.end() || !state.ParseFromString(record->second)) return;
  if (state.hold() || state.has_end_time()) return;
  world().Violate(absl::StrCat("the acknowledged hold of job ", job.uid,
                               " is not stored, and nobody has asked to release it"));
}

void JobOwners::Release(const Owned& job) {
  released_.insert(job.uid);
  Change change;
  change.set_hold(false);
  Update(job.name, change, [](bool) {});
}

void JobOwners::Update(const std::string& job, const Change& change,
                       absl::AnyInvocable<void(bool ok)> done) {
  Asked();
  SchedulerActor* const scheduler = AnyScheduler();
  auto told = std::make_shared<absl::AnyInvocable<void(bool ok)>>(std::move(done));
  network().Call<Job>(
      this, scheduler,
      [scheduler, job, change](auto reply) {
        scheduler::UpdateJob update;
        update.name = job;
        update.change = change;
        scheduler->UpdateJob(std::move(update), std::move(reply));
      },
      [this, job, change, told](const absl::StatusOr<Job>& changed) {
        if (!changed.ok() && Unknown(changed.status())) {
          Later(kAgain, [this, job, change, told] {
            Answered();
            Update(job, change, std::move(*told));
          });
          return;
        }
        Answered();
        (*told)(changed.ok());
      });
}

}  // namespace capstan::simulation
