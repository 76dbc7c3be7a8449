#include "integration/simulation/load_follower.h"

#include <algorithm>

#include "services/scheduler/adapters/load_events.h"

namespace capstan::simulation {

namespace pb = ::capstan::dataloader::v1;

namespace {

constexpr absl::Duration kFirstBackOff = absl::Milliseconds(200);
constexpr absl::Duration kLongestBackOff = absl::Seconds(10);
constexpr absl::Duration kLookAgain = absl::Seconds(1);

}  // namespace

LoadFollower::Wanted* LoadFollower::Find(const Key& key, int64_t order) {
  const auto wanted = wanted_.find(key);
  return wanted == wanted_.end() || wanted->second.order != order ? nullptr : &wanted->second;
}

void LoadFollower::Ensure(const scheduler::EnsureData& data) {
  const Key key{data.job_uid, data.dataset_position};
  const int64_t order = ++orders_;
  wanted_[key] = {.data = data, .order = order, .is_first = true, .back_off = kFirstBackOff};
  Ask(key, order);
}

void LoadFollower::Stop(const std::string& job_uid) {
  wanted_.erase(wanted_.lower_bound({job_uid, 0}), wanted_.lower_bound({job_uid + " ", 0}));
}

void LoadFollower::Ask(const Key& key, int64_t order) {
  Wanted* const wanted = Find(key, order);
  if (wanted == nullptr) return;
  const pb::EnsureDataLoadRequest request =
      scheduler::RequestFor(wanted->data, std::exchange(wanted->is_first, false));
  network_->Call<pb::DataLoad>(
      scheduler_, loader_,
      [loader = loader_, request](const auto& reply) { loader->EnsureLoad(request, reply); },
      Alive([this, key, order](const absl::StatusOr<pb::DataLoad>& load) {
        Wanted* const wanted = Find(key, order);
        if (wanted == nullptr) return;
        if (!load.ok()) {
          if (scheduler::MayPass(load.status())) return AskLater(key, order);
          return End(key, scheduler::FailureOf(wanted->data, load.status()));
        }
        wanted->back_off = kFirstBackOff;
        if (Show(key, *wanted, *load)) Look(key, order, load->name());
      }));
}

void LoadFollower::AskLater(const Key& key, int64_t order) {
  Wanted* const wanted = Find(key, order);
  if (wanted == nullptr) return;
  const absl::Duration most = wanted->back_off;
  wanted->back_off = std::min(most * 2, kLongestBackOff);
  scheduler_->Later(scheduler_->world().random().Between(most / 2, most),
                    Alive([this, key, order] { Ask(key, order); }));
}

void LoadFollower::Look(const Key& key, int64_t order, const std::string& load) {
  scheduler_->Later(
      kLookAgain, Alive([this, key, order, load] {
        if (Find(key, order) == nullptr) return;
        network_->Call<pb::DataLoad>(
            scheduler_, loader_,
            [loader = loader_, load](const auto& reply) { loader->GetLoad(load, reply); },
            Alive([this, key, order](const absl::StatusOr<pb::DataLoad>& load) {
              const Wanted* const wanted = Find(key, order);
              if (wanted == nullptr) return;
              // Not final yet: ask anew.
              if (!load.ok()) return AskLater(key, order);
              if (Show(key, *wanted, *load)) Look(key, order, load->name());
            }));
      }));
}

bool LoadFollower::Show(const Key& key, const Wanted& wanted, const pb::DataLoad& load) {
  const bool is_awaited =
      mutants_->failed_load_awaited && load.state() == pb::DataLoad::STATE_FAILED;
  if (is_awaited) return true;
  const scheduler::Event event = scheduler::EventOf(wanted.data, load);
  if (scheduler::IsFinal(load)) {
    End(key, event);
    return false;
  }
  const std::weak_ptr<char> alive = alive_;
  report_(event);
  return !alive.expired();
}

void LoadFollower::End(const Key& key, const scheduler::Event& event) {
  wanted_.erase(key);
  const Report report = report_;
  report(event);
}

}  // namespace capstan::simulation
