#include "services/scheduler/core/held_book.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/retry.h"

namespace capstan::scheduler {

HeldBook::NodesSeen::NodesSeen(const std::vector<NodeStanding>& all) : standings(all) {
  any = std::any_of(all.begin(), all.end(), [](const NodeStanding& node) {
    return node.silent || node.evicts_in != absl::InfiniteDuration();
  });
}

void HeldBook::NodesSeen::AddTo(const HeldGang& gang, HeldFacts* facts) const {
  if (!any) return;
  for (const auto& [at, amounts] : gang.shares) {
    facts->any_silent = facts->any_silent || standings[at].silent;
    facts->evicted_in = std::min(facts->evicted_in, standings[at].evicts_in);
  }
}

void HeldBook::SetChanged(const JobEntry& job) {
  const std::string& uid = job.uid();
  changed_.insert(uid);
  if (IsShrinking(job) || IsGrowing(job) || ReturnsAtOnce(job)) {
    coming_back_.insert(uid);
  } else {
    coming_back_.erase(uid);
  }
  if (const auto known = keys_of_.find(uid); known != keys_of_.end()) {
    for (const std::string& key : known->second) {
      if (--label_keys_[key] == 0) label_keys_.erase(key);
    }
    keys_of_.erase(known);
  }
  if (!job.live()) return;
  std::set<std::string> keys;
  scheduler::AddLabelKeys(job.spec.spec(), &keys);
  if (keys.empty()) return;
  for (const std::string& key : keys) ++label_keys_[key];
  keys_of_.emplace(uid, std::move(keys));
}

void HeldBook::AddLabelKeys(std::set<std::string>* keys) const {
  for (const auto& [key, count] : label_keys_) keys->insert(key);
}

void HeldBook::Take(const Scene& scene, std::vector<HeldGang>* held,
                    std::vector<QueueVictims::Gang>* victims) {
  if (!HasSameNodes(scene.standings)) all_changed_ = true;
  const NodesSeen nodes(scene.standings);
  if (all_changed_) {
    LookAtAll(scene, nodes);
  } else {
    // What is kept for them may be another with each round.
    changed_.insert(coming_back_.begin(), coming_back_.end());
    LookAtChanged(scene, nodes);
    LookAtOthers(scene, nodes);
  }
  changed_.clear();
  all_changed_ = false;
  *held = std::move(held_);
  *victims = std::move(victims_);
}

void HeldBook::GiveBack(std::vector<HeldGang> held, std::vector<QueueVictims::Gang> victims) {
  held_ = std::move(held);
  victims_ = std::move(victims);
  held_.resize(entries_.size());
  victims_.resize(entries_.size());
}

bool HeldBook::HasSameNodes(const std::vector<NodeStanding>& standings) const {
  return std::equal(
      nodes_.begin(), nodes_.end(), standings.begin(), standings.end(),
      [](const NodeId& id, const NodeStanding& node) { return id == node.capacity.id; });
}

std::vector<HeldBook::Part> HeldBook::LookAt(const Scene& scene, const NodesSeen& nodes,
                                             const JobEntry& job,
                                             const std::map<NodeId, NodeUsage::Share>* used,
                                             const BootTime* started) {
  const std::string& uid = job.uid();
  Entry entry;
  entry.terms = HeldTerms::Of(job);
  entry.min_runtime = MinRuntimeOf(scene.model, job, scene.min_runtime);
  entry.was_disrupted = !job.state.disruptions().empty();
  if (started != nullptr) entry.started = *started;
  HeldGang gang;
  gang.uid = uid;
  if (used != nullptr) {
    for (const auto& [id, share] : *used) {
      const int at = PositionOf(scene.standings, id);
      if (at >= 0) gang.shares.emplace_back(at, share.amounts);
    }
  }
  HeldFacts facts;
  nodes.AddTo(gang, &facts);
  facts.ran = entry.started.has_value() ? scene.now.boot - *entry.started : absl::ZeroDuration();
  if (const auto kept = scene.kept.find(uid); kept != scene.kept.end()) {
    facts.comes_back = IsGrowing(job);
    std::map<int, Amounts> shares = kept->second;
    for (const auto& [at, amounts] : gang.shares) shares[at].Add(amounts);
    gang.shares.assign(shares.begin(), shares.end());
  }
  SetStanding(entry.terms, facts, &gang);
  SetPreemptible(scene, entry, facts.ran, &gang);
  std::vector<HeldGang> gangs;
  SplitHeld(
      job, std::move(gang), [&scene](const NodeId& id) { return PositionOf(scene.standings, id); },
      &gangs);
  const std::vector<QueueVictims::Gang> victims = scene.queues.GangsOf(gangs);
  std::vector<Part> parts;
  for (size_t i = 0; i < gangs.size(); ++i) {
    gangs[i].revision = ++revisions_;
    parts.push_back({entry, std::move(gangs[i]), victims[i]});
  }
  return parts;
}

void HeldBook::SetPreemptible(const Scene& scene, const Entry& entry, absl::Duration ran,
                              HeldGang* gang) {
  gang->preemptible =
      gang->preemptible && ran >= entry.min_runtime &&
      (!entry.was_disrupted || ProtectedByBudget(scene.model, *scene.model.FindJob(gang->uid),
                                                 scene.now.wall) == absl::ZeroDuration());
}

void HeldBook::LookAtAll(const Scene& scene, const NodesSeen& nodes) {
  entries_.clear();
  held_.clear();
  victims_.clear();
  nodes_.clear();
  for (const NodeStanding& node : scene.standings) nodes_.push_back(node.capacity.id);
  // All of these are in order of uid.
  auto used = scene.usage.shares().begin();
  auto started = scene.started_at.begin();
  scene.model.jobs.ForEachLive([&](absl::string_view uid, const JobEntry& job) {
    while (used != scene.usage.shares().end() && used->first < uid) ++used;
    while (started != scene.started_at.end() && started->first < uid) ++started;
    const bool has_used = used != scene.usage.shares().end() && used->first == uid;
    const bool has_started = started != scene.started_at.end() && started->first == uid;
    Append(LookAt(scene, nodes, job, has_used ? &used->second : nullptr,
                  has_started ? &started->second : nullptr));
  });
}

void HeldBook::Append(std::vector<Part> parts) {
  for (Part& part : parts) {
    if (part.victim.spare >= 0) part.victim.spare = static_cast<int>(victims_.size()) + 1;
    entries_.push_back(part.entry);
    held_.push_back(std::move(part.gang));
    victims_.push_back(part.victim);
  }
}

void HeldBook::LookAtChanged(const Scene& scene, const NodesSeen& nodes) {
  for (Entry& entry : entries_) entry.is_new = false;
  if (changed_.empty()) return;
  const auto first_not_before = [](auto begin, auto end, const std::string& uid) {
    return std::lower_bound(begin, end, uid, [](const HeldGang& gang, const std::string& wanted) {
      return gang.uid < wanted;
    });
  };
  // What goes before all of them stays where it is.
  const ptrdiff_t kept =
      first_not_before(held_.begin(), held_.end(), *changed_.begin()) - held_.begin();
  const std::vector<Entry> entries(entries_.begin() + kept, entries_.end());
  std::vector<HeldGang> held(std::make_move_iterator(held_.begin() + kept),
                             std::make_move_iterator(held_.end()));
  const std::vector<QueueVictims::Gang> victims(victims_.begin() + kept, victims_.end());
  entries_.erase(entries_.begin() + kept, entries_.end());
  held_.erase(held_.begin() + kept, held_.end());
  victims_.erase(victims_.begin() + kept, victims_.end());
  size_t at = 0;
  const auto keep_until = [&](size_t end) {
    for (; at < end; ++at) {
      entries_.push_back(entries[at]);
      held_.push_back(std::move(held[at]));
      victims_.push_back(victims[at]);
      if (held_.back().is_spare && victims_[victims_.size() - 2].spare >= 0) {
        victims_[victims_.size() - 2].spare = static_cast<int>(victims_.size()) - 1;
      }
    }
  };
  for (const std::string& uid : changed_) {
    const auto begin = first_not_before(held.begin() + static_cast<ptrdiff_t>(at), held.end(), uid);
    keep_until(static_cast<size_t>(begin - held.begin()));
    while (at < held.size() && held[at].uid == uid) ++at;
    const JobEntry* const job = scene.model.FindJob(uid);
    if (job == nullptr || !job->live()) continue;
    const auto used = scene.usage.shares().find(uid);
    const auto started = scene.started_at.find(uid);
    Append(LookAt(scene, nodes, *job, used != scene.usage.shares().end() ? &used->second : nullptr,
                  started != scene.started_at.end() ? &started->second : nullptr));
  }
  keep_until(held.size());
}

void HeldBook::LookAtOthers(const Scene& scene, const NodesSeen& nodes) {
  for (size_t i = 0; i < held_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.is_new) continue;
    HeldFacts facts;
    nodes.AddTo(held_[i], &facts);
    if (held_[i].is_spare) nodes.AddTo(held_[i - 1], &facts);
    if (i + 1 < held_.size() && held_[i + 1].is_spare) nodes.AddTo(held_[i + 1], &facts);
    facts.ran = entry.started.has_value() ? scene.now.boot - *entry.started : absl::ZeroDuration();
    SetStanding(entry.terms, facts, &held_[i]);
    SetPreemptible(scene, entry, facts.ran, &held_[i]);
  }
}

}  // namespace capstan::scheduler
