#include "libs/store/testing/linearizability.h"

#include <limits>
#include <set>
#include <utility>

namespace capstan::store {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool IsUnknown(const RegisterOperation& op) {
  return op.returned_at == kNever || op.settled_unknown;
}

// Whether the register may answer so in `state`; sets the state that follows.
bool Step(const RegisterOperation& op, const std::string& state, std::string* next) {
  const bool unknown = IsUnknown(op);
  *next = state;
  switch (op.kind) {
    case RegisterOperation::Kind::kRead:
      return unknown || op.value == state;
    case RegisterOperation::Kind::kWrite:
      *next = op.value;
      return true;
    case RegisterOperation::Kind::kCompareAndSet: {
      const bool holds = op.value == state;
      if (!unknown && holds != op.succeeded) return false;
      if (holds) *next = op.desired;
      return true;
    }
  }
  return false;
}

class Search {
 public:
  explicit Search(const std::vector<RegisterOperation>& history)
      : history_(history), done_(history.size(), false) {}

  bool Run(const std::string& state) {
    if (!visited_.insert({done_, state}).second) return false;
    // What must take effect next is among those called before the first return that is pending.
    int64_t first_return = kNever;
    bool all_known_done = true;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (done_[i] || IsUnknown(history_[i])) continue;
      all_known_done = false;
      first_return = std::min(first_return, history_[i].returned_at);
    }
    if (all_known_done) return true;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (done_[i] || history_[i].called_at > first_return || IsTooLate(history_[i])) continue;
      std::string next;
      if (!Step(history_[i], state, &next)) continue;
      done_[i] = true;
      if (Run(next)) return true;
      done_[i] = false;
    }
    return false;
  }

 private:
  // Whether something took effect already that was called after it had returned.
  bool IsTooLate(const RegisterOperation& op) const {
    if (!op.settled_unknown) return false;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (done_[i] && history_[i].called_at > op.returned_at) return true;
    }
    return false;
  }

  const std::vector<RegisterOperation>& history_;
  std::vector<bool> done_;
  std::set<std::pair<std::vector<bool>, std::string>> visited_;
};

}  // namespace

bool IsLinearizable(const std::vector<RegisterOperation>& history) {
  return Search(history).Run("");
}

}  // namespace capstan::store
