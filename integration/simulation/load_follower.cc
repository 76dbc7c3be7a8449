#include "integration/simulation/load_follower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"

namespace capstan::simulation {

namespace pb = ::capstan::dataloader::v1;

namespace {

constexpr absl::Duration kFirstBackOff = absl::Milliseconds(200);
constexpr absl::Duration kLongestBackOff = absl::Seconds(10);
constexpr absl::Duration kLookAgain = absl::Seconds(1);

// Whether asking again could end differently without anyone having changed the Job.
bool MayPass(const absl::Status& status) {
  return !absl::IsNotFound(status) && !absl::IsInvalidArgument(status) &&
         !absl::IsFailedPrecondition(status);
}

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
  pb::EnsureDataLoadRequest request;
  request.set_dataset(wanted->data.dataset);
  request.set_version(wanted->data.version);
  request.set_cluster(wanted->data.cluster);
  // A Job that is new to a load which failed before it came tries once more.
  request.set_retry_failed(std::exchange(wanted->is_first, false));
  network_->Call<pb::DataLoad>(
      scheduler_, loader_,
      [loader = loader_, request](const auto& reply) { loader->EnsureLoad(request, reply); },
      Alive([this, key, order](const absl::StatusOr<pb::DataLoad>& load) {
        Wanted* const wanted = Find(key, order);
        if (wanted == nullptr) return;
        if (!load.ok()) {
          if (MayPass(load.status())) return AskLater(key, order);
          return Fail(key, absl::IsNotFound(load.status()) ? "DATA_NOT_FOUND" : "DATA_LOAD_FAILED",
                      std::string(load.status().message()));
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
  if (load.state() == pb::DataLoad::STATE_SUCCEEDED) {
    End(key, scheduler::DataReady{key.first, key.second,
                                  load.version().substr(load.version().rfind('/') + 1)});
    return false;
  }
  if (load.state() == pb::DataLoad::STATE_FAILED && !mutants_->failed_load_awaited) {
    Fail(key, load.reason() == "OBJECT_NOT_FOUND" ? "DATA_NOT_FOUND" : "DATA_LOAD_FAILED",
         absl::StrCat(wanted.data.dataset, ": ", load.message()));
    return false;
  }
  scheduler::DataProgressed progress;
  progress.job_uid = key.first;
  progress.dataset = key.second;
  progress.data_load = load.name();
  progress.loaded_bytes = load.loaded_bytes();
  progress.total_bytes = load.total_bytes();
  progress.bytes_per_second = load.bytes_per_second();
  if (load.has_eta()) progress.eta = ToDuration(load.eta());
  const std::weak_ptr<char> alive = alive_;
  report_(progress);
  return !alive.expired();
}

void LoadFollower::Fail(const Key& key, const std::string& reason, const std::string& message) {
  End(key, scheduler::DataFailed{key.first, key.second, reason, message});
}

void LoadFollower::End(const Key& key, const scheduler::Event& event) {
  wanted_.erase(key);
  const Report report = report_;
  report(event);
}

}  // namespace capstan::simulation
