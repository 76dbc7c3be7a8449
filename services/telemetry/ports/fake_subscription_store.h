#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_FAKE_SUBSCRIPTION_STORE_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_FAKE_SUBSCRIPTION_STORE_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "services/telemetry/ports/subscription_store.h"

namespace capstan::telemetry {

// What outlives a FakeSubscriptionStore.
using FakeSubscriptionDisk = std::map<std::string, core::SubscriptionRecord>;

// A store in memory, for tests and simulations. Answers at once, or, when told to hold, by Step.
// For one thread.
class FakeSubscriptionStore final : public SubscriptionStore {
 public:
  // `disk` must outlive it.
  explicit FakeSubscriptionStore(FakeSubscriptionDisk* disk) : disk_(disk) {}

  absl::StatusOr<std::vector<core::SubscriptionRecord>> Load() override {
    std::vector<core::SubscriptionRecord> all;
    for (const auto& [name, record] : *disk_) all.push_back(record);
    return all;
  }
  void Put(core::SubscriptionRecord record, Done done) override {
    std::string name = record.name();
    Take({std::move(name), std::move(record), std::move(done)});
  }
  void Remove(std::string name, Done done) override {
    Take({std::move(name), absl::nullopt, std::move(done)});
  }

  // From now on calls wait for Step.
  void Hold() { holding_ = true; }
  // Carries the oldest waiting call out. False if none waits.
  bool Step() {
    if (waiting_.empty()) return false;
    Write write = std::move(waiting_.front());
    waiting_.pop_front();
    Carry(std::move(write));
    return true;
  }
  // What the next calls come to, until OK is given: nothing is written then.
  void Fail(absl::Status failure) { failure_ = std::move(failure); }
  // As kill -9: the first so many waiting calls have reached the disk, and none is answered.
  void Crash(Random& random) {
    const size_t written = random.Below(waiting_.size() + 1);
    for (size_t i = 0; i < written; ++i) Apply(waiting_[i]);
    waiting_.clear();
  }

 private:
  struct Write {
    std::string name;
    // Absent: it is removed.
    absl::optional<core::SubscriptionRecord> record;
    Done done;
  };

  void Take(Write write) {
    if (!holding_) return Carry(std::move(write));
    waiting_.push_back(std::move(write));
  }
  void Carry(Write write) {
    if (!failure_.ok()) return write.done(failure_);
    Apply(write);
    write.done(absl::OkStatus());
  }
  void Apply(const Write& write) {
    if (write.record.has_value()) {
      (*disk_)[write.name] = *write.record;
    } else {
      disk_->erase(write.name);
    }
  }

  FakeSubscriptionDisk* const disk_;
  bool holding_ = false;
  absl::Status failure_;
  std::deque<Write> waiting_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_FAKE_SUBSCRIPTION_STORE_H_
