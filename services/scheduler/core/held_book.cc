#include "services/scheduler/core/held_book.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/retry.h"

namespace capstan::scheduler {
namespace {

// Of a list, what is in the place of the elements [first, last).
template <typename T>
struct Change {
  size_t first = 0;
  size_t last = 0;
  std::vector<T> now;

  size_t kept() const { return std::min(last - first, now.size()); }
};

// Makes these changes, which are in order and apart; `take` gives the list's element of one of
// `now`. Moves each element of the list at most once in either direction.
template <typename T, typename Part, typename Take>
void Splice(std::vector<Change<Part>>* changes, Take take, std::vector<T>* list) {
  const auto at = [list](size_t position) {
    return list->begin() + static_cast<ptrdiff_t>(position);
  };
  // Those that get shorter first, from the front on.
  std::vector<size_t> firsts;
  size_t read = 0;
  size_t written = 0;
  size_t more = 0;
  const auto keep_until = [&](size_t end) {
    if (read != written) std::move(at(read), at(end), at(written));
    written += end - read;
    read = end;
  };
  for (const Change<Part>& change : *changes) {
    keep_until(change.first);
    firsts.push_back(written);
    written += change.kept();
    read = change.last;
    more += change.now.size() - change.kept();
  }
  keep_until(list->size());
  list->resize(written + more);
  // Then, from the back on, what gets longer.
  size_t end = written;
  size_t to = list->size();
  for (size_t c = changes->size(); c-- > 0;) {
    Change<Part>& change = (*changes)[c];
    const size_t rest = firsts[c] + change.kept();
    if (to != end) std::move_backward(at(rest), at(end), at(to));
    to -= end - rest;
    for (size_t i = change.now.size(); i-- > 0;) (*list)[--to] = take(&change.now[i]);
    end = firsts[c];
  }
}

}  // namespace

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
  SetSpares(0);
}

void HeldBook::Append(std::vector<Part> parts) {
  for (Part& part : parts) {
    entries_.push_back(part.entry);
    held_.push_back(std::move(part.gang));
    victims_.push_back(part.victim);
  }
}

void HeldBook::LookAtChanged(const Scene& scene, const NodesSeen& nodes) {
  for (Entry& entry : entries_) entry.is_new = false;
  if (changed_.empty()) return;
  std::vector<Change<Part>> changes;
  auto at = held_.begin();
  for (const std::string& uid : changed_) {
    const auto begin = std::lower_bound(
        at, held_.end(), uid,
        [](const HeldGang& gang, const std::string& wanted) { return gang.uid < wanted; });
    at = std::find_if(begin, held_.end(), [&uid](const HeldGang& gang) { return gang.uid != uid; });
    Change<Part> change;
    change.first = static_cast<size_t>(begin - held_.begin());
    change.last = static_cast<size_t>(at - held_.begin());
    const JobEntry* const job = scene.model.FindJob(uid);
    if (job != nullptr && job->live()) {
      const auto used = scene.usage.shares().find(uid);
      const auto started = scene.started_at.find(uid);
      change.now =
          LookAt(scene, nodes, *job, used != scene.usage.shares().end() ? &used->second : nullptr,
                 started != scene.started_at.end() ? &started->second : nullptr);
    }
    if (begin != at || !change.now.empty()) changes.push_back(std::move(change));
  }
  if (changes.empty()) return;
  Splice(&changes, [](const Part* part) { return part->entry; }, &entries_);
  Splice(&changes, [](const Part* part) { return part->victim; }, &victims_);
  Splice(&changes, [](Part* part) { return std::move(part->gang); }, &held_);
  SetSpares(changes.front().first);
}

void HeldBook::SetSpares(size_t from) {
  for (size_t i = from; i < victims_.size(); ++i) {
    if (victims_[i].spare >= 0) victims_[i].spare = static_cast<int>(i) + 1;
  }
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
