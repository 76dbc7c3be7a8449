#include "integration/simulation/confirmations.h"

#include <algorithm>
#include <iterator>

namespace capstan::simulation {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;

absl::optional<absl::Duration> Confirmations::LatestBy(const std::string& name,
                                                       absl::Duration time) const {
  const auto history = taken_.find(name);
  if (history == taken_.end()) return absl::nullopt;
  auto after = history->second.upper_bound(time);
  if (after == history->second.begin()) return absl::nullopt;
  return std::prev(after)->second;
}

void Confirmations::SentUp(const Pipe& pipe, const SessionUp& message) {
  if (message.has_renewal()) renewals_[{&pipe, message.renewal().sequence()}] = world_->now();
}

void Confirmations::SentDown(const Pipe& pipe, const SessionDown& message) {
  if (!message.has_renewal_answer()) return;
  const Renewal renewal{&pipe, message.renewal_answer().sequence()};
  const auto sent = renewals_.find(renewal);
  if (sent == renewals_.end()) return;
  // A scheduler is sure of itself as of then; an executor only as of what it was told.
  const absl::optional<absl::Duration> told = LatestBy(pipe.upper(), world_->now());
  const bool by_scheduler = pipe.upper().find("scheduler") == 0;
  if (by_scheduler || told.has_value()) answers_[renewal] = by_scheduler ? sent->second : *told;
  renewals_.erase(sent);
}

void Confirmations::TakenDown(const Pipe& pipe, const SessionDown& message) {
  if (!message.has_renewal_answer()) return;
  const auto answer = answers_.find({&pipe, message.renewal_answer().sequence()});
  if (answer == answers_.end()) return;
  History& history = taken_[pipe.lower()];
  const absl::Duration newest = history.empty() ? answer->second : history.rbegin()->second;
  history[world_->now()] = std::max(newest, answer->second);
  answers_.erase(answer);
}

}  // namespace capstan::simulation
