#include "tools/fleet_simulator/mig_simulation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>

#include "absl/time/time.h"
#include "libs/mig/profiles.h"

namespace capstan::fleet_simulator {
namespace {

using mig::Choice;
using mig::State;
using mig::StateTable;

// Memory slices from which on a Task counts as large.
constexpr int kLarge = 4;

struct Running {
  absl::Duration until;
  size_t task = 0;
  Choice place;

  friend bool operator>(const Running& a, const Running& b) {
    return std::tie(a.until, a.task) > std::tie(b.until, b.task);
  }
};

struct Mean {
  double sum = 0;
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    ++count;
  }
  double Value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

class Simulation {
 public:
  Simulation(const StateTable& table, const std::vector<MigTask>& tasks,
             const MigWorkloadOptions& options, const MigPolicy& policy)
      : table_(table),
        tasks_(tasks),
        options_(options),
        policy_(policy),
        gpus_(static_cast<size_t>(options.gpus)),
        waiting_(table.model().profiles.size()) {}

  MigOutcome Run() {
    size_t next = 0;
    while (next < tasks_.size() || !running_.empty()) {
      if (running_.empty() || (next < tasks_.size() && tasks_[next].at < running_.top().until)) {
        Come(next++);
      } else {
        End();
      }
    }
    const absl::Duration capacity = options_.span * options_.gpus * table_.model().memory_slices;
    return {100 * absl::FDivDuration(slice_time_, capacity), 100 * at_once_.Value(), wait_.Value(),
            wait_large_.Value(), wait_whole_.Value()};
  }

 private:
  int Slices(size_t task) const {
    return table_.model().profiles[static_cast<size_t>(tasks_[task].profile)].memory_slices;
  }

  // Nobody that waits fits: all were tried when the last Task ended.
  void Come(size_t task) {
    const bool starts = Start(task, tasks_[task].at);
    at_once_.Add(starts ? 1 : 0);
    if (!starts) waiting_[static_cast<size_t>(tasks_[task].profile)].push_back(task);
  }

  void End() {
    const absl::Duration now = running_.top().until;
    while (!running_.empty() && running_.top().until == now) {
      const Choice place = running_.top().place;
      running_.pop();
      gpus_[place.gpu] = table_.Remove(gpus_[place.gpu], place.position);
    }
    std::vector<bool> refused(waiting_.size());
    while (true) {
      size_t first = waiting_.size();
      for (size_t p = 0; p < waiting_.size(); ++p) {
        if (refused[p] || waiting_[p].empty()) continue;
        if (first == waiting_.size() || waiting_[p].front() < waiting_[first].front()) first = p;
      }
      if (first == waiting_.size()) return;
      if (Start(waiting_[first].front(), now)) {
        waiting_[first].pop_front();
      } else {
        refused[first] = true;
      }
    }
  }

  bool Start(size_t task, absl::Duration now) {
    const absl::optional<Choice> place = policy_(gpus_, tasks_[task].profile);
    if (!place.has_value()) return false;
    gpus_[place->gpu] = table_.Add(gpus_[place->gpu], place->position).value();
    const absl::Duration until = now + tasks_[task].runtime;
    running_.push({until, task, *place});
    const double wait = absl::ToDoubleHours(now - tasks_[task].at);
    wait_.Add(wait);
    if (Slices(task) >= kLarge) wait_large_.Add(wait);
    if (Slices(task) == table_.model().memory_slices) wait_whole_.Add(wait);
    const absl::Duration counted = std::min(until, options_.span) - std::min(now, options_.span);
    slice_time_ += counted * Slices(task);
    return true;
  }

  const StateTable& table_;
  const std::vector<MigTask>& tasks_;
  const MigWorkloadOptions& options_;
  const MigPolicy& policy_;
  std::vector<State> gpus_;
  // By profile, the earliest first.
  std::vector<std::deque<size_t>> waiting_;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  absl::Duration slice_time_;
  Mean at_once_;
  Mean wait_;
  Mean wait_large_;
  Mean wait_whole_;
};

}  // namespace

MigOutcome RunMigTasks(const StateTable& table, const std::vector<MigTask>& tasks,
                       const MigWorkloadOptions& options, const MigPolicy& policy) {
  return Simulation(table, tasks, options, policy).Run();
}

}  // namespace capstan::fleet_simulator
