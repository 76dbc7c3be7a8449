#include "services/scheduler/core/random_queues.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ResourceQuota;

// Id, and that of the one above.
constexpr std::pair<const char*, const char*> kQueues[] = {
    {"top", ""}, {"left", "top"}, {"right", "top"}, {"flat", ""}};
constexpr const char* kLeaves[] = {"left", "right", "flat", "default"};

}  // namespace

RandomQueues::RandomQueues(uint64_t seed, CoreHarness* harness) : random_(seed), harness_(harness) {
  for (const auto& [id, parent] : kQueues) {
    CreateQueue create;
    create.call = harness_->next_call();
    create.queue_id = create.uid = id;
    create.queue.set_weight(random_.Between(1, 4));
    if (parent[0] != '\0') create.queue.set_parent(absl::StrCat("queues/", parent));
    // Those below have no more in all than the one above.
    if (random_.OneIn(2)) {
      *create.queue.add_quotas() = AnyQuota(create.queue_id == "top" ? 0 : 4000);
    }
    const auto replies = Of<ReplyQueue>(harness_->Apply(create));
    EXPECT_TRUE(replies.size() == 1 && replies[0].queue.ok()) << replies[0].queue.status();
  }
}

std::string RandomQueues::Any() { return absl::StrCat("queues/", kLeaves[random_.Below(4)]); }

// Of 24 cores.
ResourceQuota RandomQueues::AnyQuota(int64_t most_guaranteed) {
  ResourceQuota quota;
  quota.set_resource("cpu");
  if (most_guaranteed > 0 && random_.OneIn(2)) {
    quota.set_guarantee(random_.Between(0, most_guaranteed));
  }
  if (random_.OneIn(2)) quota.mutable_borrowing_limit()->set_amount(random_.Between(2000, 12'000));
  if (random_.OneIn(3)) quota.mutable_lending_limit()->set_amount(random_.Between(0, 2000));
  return quota;
}

UpdateQueue RandomQueues::Update(const std::string& id,
                                 const std::vector<std::string>& paths) const {
  UpdateQueue update;
  update.call = harness_->next_call();
  update.queue_id = id;
  for (const std::string& path : paths) update.update_mask.add_paths(path);
  return update;
}

std::vector<Effect> RandomQueues::MayChange() {
  if (!random_.OneIn(8)) return {};
  ++changes_;
  const std::string id = kQueues[random_.Below(4)].first;
  switch (random_.Below(5)) {
    case 0: {
      UpdateQueue update = Update(id, {"hold"});
      update.queue.set_hold(random_.OneIn(3));
      return harness_->Apply(update);
    }
    case 1: {
      UpdateQueue update = Update(id, {"drain", "cordon"});
      update.queue.set_drain(random_.OneIn(4));
      update.queue.set_cordon(random_.OneIn(4));
      return harness_->Apply(update);
    }
    case 2: {
      UpdateQueue update = Update(id, {"start_rate", "submit_rate"});
      if (random_.OneIn(2)) {
        auto& rate = *update.queue.mutable_start_rate();
        rate.set_count(random_.Between(1, 3));
        rate.set_burst(random_.Between(1, 2));
        *rate.mutable_period() = ToProto(absl::Seconds(random_.Between(5, 60)));
      }
      if (random_.OneIn(4)) {
        update.queue.mutable_submit_rate()->set_count(1);
        *update.queue.mutable_submit_rate()->mutable_period() = ToProto(absl::Seconds(5));
      }
      return harness_->Apply(update);
    }
    default: {
      UpdateQueue update = Update(id, {"quotas", "weight"});
      update.queue.set_weight(random_.Between(1, 4));
      if (!random_.OneIn(4)) *update.queue.add_quotas() = AnyQuota(id == "top" ? 0 : 4000);
      return harness_->Apply(update);
    }
  }
}

std::vector<Effect> RandomQueues::Heal() {
  std::vector<Effect> effects;
  for (const auto& [id, parent] : kQueues) {
    for (Effect& effect : harness_->Apply(
             Update(id, {"quotas", "hold", "drain", "cordon", "start_rate", "submit_rate"}))) {
      effects.push_back(std::move(effect));
    }
  }
  return effects;
}

}  // namespace capstan::scheduler
