#include "services/node_agent/identity_keeper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libs/auth/renewal_schedule.h"

namespace capstan::node_agent {

using session::TaskId;

namespace {

constexpr absl::Duration kLookEvery = absl::Minutes(10);
// Less than the clock can tell would wake it again and again at one moment.
constexpr absl::Duration kShortestWait = absl::Milliseconds(1);
// What an SVID that has run out is taken to have left: a Node must not ask for each of its Tasks
// once a second for as long as credentials is away.
constexpr absl::Duration kLeftOfExpired = absl::Minutes(10);

}  // namespace

IdentityKeeper::IdentityKeeper(Strand* strand, TaskIdentity* identity, Random* random,
                               const log::Logger* logger, metrics::Registry* registry,
                               std::function<void(const TaskId&)> renewed)
    : strand_(strand),
      identity_(identity),
      random_(random),
      logger_(logger),
      registry_(registry),
      renewed_(std::move(renewed)) {}

IdentityKeeper::~IdentityKeeper() { Clear(); }

void IdentityKeeper::Keep(const KeepIdentity& order) {
  if (identity_ == nullptr) return;
  const auto [it, added] = kept_.try_emplace(order.order.id);
  if (!added) return;
  it->second.order = order;
  it->second.number = ++last_number_;
  Inspect(it->second, false);
}

void IdentityKeeper::Drop(const TaskId& id) {
  const auto it = kept_.find(id);
  if (it == kept_.end()) return;
  if (it->second.timer != 0) strand_->Cancel(it->second.timer);
  kept_.erase(it);
}

void IdentityKeeper::Clear() {
  for (const auto& [id, kept] : kept_) {
    if (kept.timer != 0) strand_->Cancel(kept.timer);
  }
  kept_.clear();
}

IdentityKeeper::Kept* IdentityKeeper::Find(const TaskId& id, uint64_t number) {
  const auto it = kept_.find(id);
  return it == kept_.end() || it->second.number != number ? nullptr : &it->second;
}

void IdentityKeeper::Arm(Kept& kept, absl::Duration delay) {
  kept.timer = strand_->RunAfter(std::clamp(delay, kShortestWait, kLookEvery),
                                 [this, id = kept.order.order.id, number = kept.number] {
                                   Kept* const found = Find(id, number);
                                   if (found == nullptr) return;
                                   found->timer = 0;
                                   Look(*found);
                                 });
}

void IdentityKeeper::Look(Kept& kept) {
  const absl::Time now = strand_->clock().Read().wall;
  if (now < kept.due) return Arm(kept, kept.due - now);
  Renew(kept);
}

void IdentityKeeper::Inspect(Kept& kept, bool renewed) {
  identity_->Inspect(kept.order.directory, [this, alive = std::weak_ptr<char>(alive_),
                                            id = kept.order.order.id, number = kept.number,
                                            renewed](absl::StatusOr<SvidLife> life) {
    if (alive.expired()) return;
    Kept* const found = Find(id, number);
    if (found == nullptr) return;
    const absl::Time now = strand_->clock().Read().wall;
    if (!life.ok()) {
      if (renewed) return OnRenewed(*found, life.status());
      // A Task that has lost its identity is due for one.
      found->due = found->not_after = now;
      return Look(*found);
    }
    found->not_after = life->not_after;
    found->due =
        auth::RenewalTime(life->not_before, life->not_after) +
        random_->Between(absl::ZeroDuration(),
                         std::max(absl::Nanoseconds(1), (life->not_after - life->not_before) / 10));
    if (renewed) {
      found->due = std::max(found->due,
                            now + auth::ShortestRenewalInterval(life->not_before, life->not_after));
    }
    Look(*found);
  });
}

void IdentityKeeper::Renew(Kept& kept) {
  identity_->Issue(kept.order.order,
                   [this, alive = std::weak_ptr<char>(alive_), id = kept.order.order.id,
                    number = kept.number](const absl::StatusOr<std::string>& directory) {
                     if (alive.expired()) return;
                     Kept* const found = Find(id, number);
                     if (found != nullptr) OnRenewed(*found, directory.status());
                   });
}

void IdentityKeeper::OnRenewed(Kept& kept, const absl::Status& status) {
  const std::string task = kept.order.order.id.Path();
  if (registry_ != nullptr) {
    registry_
        ->AddCounter("svid_renewals_total", "Tries to renew a running Task's SVID",
                     {{"outcome", status.ok() ? "renewed" : "failed"}})
        .Increment();
  }
  if (status.ok()) {
    if (kept.failures > 0) logger_->Info("Task's SVID renewed", {{"task", task}});
    kept.failures = 0;
    if (renewed_) renewed_(kept.order.order.id);
    return Inspect(kept, true);
  }
  const absl::Duration left = kept.not_after - strand_->clock().Read().wall;
  if (kept.failures == 0) {
    logger_->Warning("Task's SVID not renewed; it is tried again",
                     {{"task", task}, {"not_after", kept.not_after}, {"cause", status}});
  }
  const double jitter = static_cast<double>(random_->Below(1000)) / 1000;
  Arm(kept, auth::RenewalRetryDelay(kept.failures++,
                                    left > absl::ZeroDuration() ? left : kLeftOfExpired, jitter));
}

}  // namespace capstan::node_agent
