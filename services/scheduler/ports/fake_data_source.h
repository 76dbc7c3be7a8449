#ifndef CAPSTAN_SERVICES_SCHEDULER_PORTS_FAKE_DATA_SOURCE_H_
#define CAPSTAN_SERVICES_SCHEDULER_PORTS_FAKE_DATA_SOURCE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libs/strand/strand.h"
#include "services/scheduler/ports/data_source.h"

namespace capstan::scheduler {

// Does nothing by itself: the test says what is ready.
class FakeDataSource final : public DataSource {
 public:
  using Key = std::pair<std::string, int>;

  explicit FakeDataSource(Strand* strand) : strand_(strand) {}

  void Ensure(const EnsureData& wanted, Report report) override {
    wanted_[{wanted.job_uid, wanted.dataset_position}] = {wanted, std::move(report)};
  }
  void Stop(const std::string& job_uid) override {
    wanted_.erase(wanted_.lower_bound({job_uid, 0}), wanted_.lower_bound({job_uid + '\0', 0}));
  }
  void ReleasePins(const std::string& job_uid, int64_t generation,
                   absl::AnyInvocable<void()> released) override {
    released_.push_back({job_uid, generation});
    strand_->Post([this, term = term_, released = std::move(released)]() mutable {
      if (term == term_) released();
    });
  }
  void StopAll() override {
    ++term_;
    wanted_.clear();
  }

  // Reports; `event` ends the request unless it is DataProgressed.
  void Tell(Event event) {
    Key key;
    if (const auto* progressed = std::get_if<DataProgressed>(&event)) {
      key = {progressed->job_uid, progressed->dataset};
    } else if (const auto* ready = std::get_if<DataReady>(&event)) {
      key = {ready->job_uid, ready->dataset};
    } else if (const auto* failed = std::get_if<DataFailed>(&event)) {
      key = {failed->job_uid, failed->dataset};
    }
    auto it = wanted_.find(key);
    if (it == wanted_.end()) return;
    if (std::holds_alternative<DataProgressed>(event)) {
      it->second.report(std::move(event));
      return;
    }
    Report report = std::move(it->second.report);
    wanted_.erase(it);
    report(std::move(event));
  }

  bool Wanted(const std::string& job_uid, int position) const {
    return wanted_.count({job_uid, position}) > 0;
  }
  const std::vector<std::pair<std::string, int64_t>>& released() const { return released_; }

 private:
  struct Request {
    EnsureData wanted;
    Report report;
  };

  Strand* const strand_;
  int term_ = 0;
  std::map<Key, Request> wanted_;
  std::vector<std::pair<std::string, int64_t>> released_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_PORTS_FAKE_DATA_SOURCE_H_
