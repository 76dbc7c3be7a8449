#include "integration/simulation/disk_subscriptions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::simulation {
namespace {

constexpr char kPrefix[] = "subscription/";

}  // namespace

std::string DiskSubscriptions::Key(const std::string& name) { return absl::StrCat(kPrefix, name); }

absl::StatusOr<std::vector<telemetry::core::SubscriptionRecord>> DiskSubscriptions::Load() {
  std::vector<telemetry::core::SubscriptionRecord> all;
  for (auto it = disk_->records.lower_bound(kPrefix);
       it != disk_->records.end() && absl::StartsWith(it->first, kPrefix); ++it) {
    if (!all.emplace_back().ParseFromString(it->second)) {
      return absl::DataLossError(absl::StrCat("can't be read: ", it->first));
    }
  }
  return all;
}

void DiskSubscriptions::Put(telemetry::core::SubscriptionRecord record, Done done) {
  Take({Key(record.name()), record.SerializeAsString(), std::move(done)});
}

void DiskSubscriptions::Remove(std::string name, Done done) {
  Take({Key(name), absl::nullopt, std::move(done)});
}

void DiskSubscriptions::Take(Write write) {
  if (mutants_->cursor_acts_first) {
    std::exchange(write.done, [](const absl::Status&) {})(absl::OkStatus());
  }
  queue_.push_back(std::move(write));
  if (queue_.size() == 1) Next();
}

void DiskSubscriptions::Next() {
  const absl::Duration usual =
      mutants_->cursor_acts_first ? absl::Seconds(5) : absl::Milliseconds(20);
  process_->Later(
      process_->world().random().Between(absl::Milliseconds(1), std::max(usual, disk_->slowest)),
      [this, alive = std::weak_ptr<char>(alive_)] {
        if (alive.expired()) return;
        Write write = std::move(queue_.front());
        queue_.pop_front();
        absl::Status written;
        if (disk_->full && !disk_->lies) {
          written = status::Error(absl::StatusCode::kResourceExhausted, "NO_SPACE",
                                  "simulated: the disk is full");
        } else if (disk_->failing && !disk_->lies) {
          written = Fail(write);
        } else {
          in_log_ = nullptr;
          Apply(write);
        }
        if (!queue_.empty()) Next();
        write.done(written);
      });
}

absl::Status DiskSubscriptions::Fail(const Write& write) {
  in_log_ = nullptr;
  if (FailedCommitIsThere(&process_->world())) {
    in_log_ = [this, key = write.key, value = write.value] { Apply({key, value, nullptr}); };
  }
  return status::Error(absl::StatusCode::kInternal, "STORE_IO_ERROR",
                       "simulated: the disk can't be written");
}

void DiskSubscriptions::Apply(const Write& write) {
  if (disk_->full) return;
  if (write.value.has_value()) {
    disk_->Apply({{.key = write.key, .value = *write.value}}, {});
  } else {
    disk_->Apply({}, {{.key = write.key, .end = ""}});
  }
  stored_();
}

void DiskSubscriptions::Crash() {
  if (in_log_ != nullptr) in_log_();
  if (!queue_.empty() && process_->world().random().OneIn(2)) Apply(queue_.front());
  queue_.clear();
}

}  // namespace capstan::simulation
