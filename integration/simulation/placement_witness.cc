#include "integration/simulation/placement_witness.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "integration/simulation/section_check.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/closure_check.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/label_check.h"

namespace capstan::simulation {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::NodeRequirement;
using capstan::type::v1::Stop;
using scheduler::JobEntry;
using scheduler::NodeId;
using scheduler::rec::CapacityOrderRecord;
using scheduler::rec::GangHeadRecord;
using scheduler::rec::NodeRecord;

namespace {

bool Lasts(const capstan::scheduler::v1::MaintenanceWindow& window, absl::Time now) {
  return ToTime(window.start_time()) <= now && now < ToTime(window.end_time());
}

// The order that the Node says it is of, if there is one, for its Cluster; else nobody.
std::string OrderOf(const scheduler::Model& model, const NodeId& id, const NodeRecord& node) {
  const auto label = node.observation().labels().find(scheduler::kOrderLabel);
  if (label == node.observation().labels().end()) return "";
  const auto order = model.capacity_orders.find(label->second);
  const bool is_of = order != model.capacity_orders.end() &&
                     order->second.order().cluster() == absl::StrCat("clusters/", id.cluster);
  return is_of ? order->first : "";
}

}  // namespace

void PlacementWitness::SawStep(const SchedulerActor& who, const scheduler::Event& event, Now now,
                               const scheduler::Step& step) {
  if (std::holds_alternative<scheduler::LeadershipGained>(event)) Begin(who.name(), now);
  const auto found = terms_.find(who.name());
  if (found == terms_.end()) return;
  Term& term = *found->second;
  const Windows windows = term.model().maintenance_windows;
  const Orders orders = term.model().capacity_orders;
  Apply(step, &term);
  JudgeRemovals(windows, orders, event, now, term);
  for (const auto& [id, record] : term.model().capacity_orders) {
    if (orders.count(id) == 0) {
      term.void_at[id] = now.boot + (ToTime(record.order().expire_time()) - now.wall);
    }
    if (record.used() && used_.insert(id).second) world_->Fault("order used");
  }
  const Kept before = std::exchange(term.kept, KeptBy(term.model()));
  const std::set<std::string> touched = term.builder.TakeTouchedJobs();
  queues_.SawStep(who.name(), term.model(), touched);
  for (const std::string& uid : touched) {
    const JobEntry* job = term.model().FindJob(uid);
    if (job == nullptr || !job->gang.has_value()) continue;
    int64_t& generation = term.generations[uid];
    const bool is_new = std::exchange(generation, job->gang->head.generation()) < generation;
    if (is_new && job->live()) {
      JudgePlacement(*job, now, before, term);
      queues_.Placed(who.name(), term.model(), *job);
    }
    JudgeStop(*job, now, term);
  }
  JudgeNominees(term);
  // What did not fit the step is done in the next, at once.
  if (who.core() != nullptr && who.core()->NextDeadline() != BootTime::InfinitePast()) {
    JudgeWindowsThatLast(now, term);
  }
  CheckStored();
}

void PlacementWitness::Begin(const std::string& who, Now now) {
  auto term = std::make_unique<Term>();
  for (const store::KeyValue& kv : store_->CoreRecords()) {
    term->keys.insert(kv.key);
    const absl::Status read = term->builder.Apply(kv.key, absl::string_view(kv.value));
    if (!read.ok()) Violate(absl::StrCat("not to be read: ", read.ToString()));
  }
  Resolve(term.get());
  term->builder.TakeTouchedJobs();
  for (const auto& [uid, job] : term->model().jobs) {
    if (job.gang.has_value()) term->generations[uid] = job.gang->head.generation();
  }
  for (const auto& [id, record] : term->model().capacity_orders) {
    term->void_at[id] = now.boot + (ToTime(record.order().expire_time()) - now.wall);
  }
  term->kept = KeptBy(term->model());
  queues_.Begin(who, term->model());
  terms_[who] = std::move(term);
}

void PlacementWitness::Resolve(Term* term) {
  const absl::Status whole = term->builder.Resolve();
  if (!whole.ok()) Violate(absl::StrCat("not whole: ", whole.ToString()));
}

void PlacementWitness::Apply(const scheduler::Step& step, Term* term) {
  const auto apply = [&](const std::string& key, absl::optional<absl::string_view> value) {
    const absl::Status read = term->builder.Apply(key, value);
    if (!read.ok()) Violate(absl::StrCat("not to be read: ", read.ToString()));
  };
  for (const scheduler::Write& write : step.persist) {
    for (const store::Delete& gone : write.deletes) {
      const auto first = term->keys.lower_bound(gone.key);
      const auto last =
          gone.end.empty() ? term->keys.upper_bound(gone.key) : term->keys.lower_bound(gone.end);
      for (auto key = first; key != last; ++key) apply(*key, absl::nullopt);
      term->keys.erase(first, last);
    }
    for (const store::Put& put : write.puts) {
      term->keys.insert(put.key);
      apply(put.key, absl::string_view(put.value));
    }
  }
  Resolve(term);
}

void PlacementWitness::JudgeRemovals(const Windows& windows, const Orders& orders,
                                     const scheduler::Event& event, Now now, const Term& term) {
  const auto* unmake = std::get_if<scheduler::DeleteMaintenanceWindow>(&event);
  for (const auto& [id, record] : windows) {
    if (term.model().maintenance_windows.count(id) > 0) continue;
    const bool asked =
        unmake != nullptr && id == std::make_pair(unmake->cluster, unmake->window_id);
    if (!asked && now.wall < ToTime(record.window().end_time())) {
      Violate(absl::StrCat(record.window().name(), " is removed before it is over"));
    }
    may_be_gone_.insert(scheduler::MaintenanceWindowKey(id.first, id.second));
  }
  const auto* cancel = std::get_if<scheduler::DeleteCapacityOrder>(&event);
  for (const auto& [id, record] : orders) {
    if (term.model().capacity_orders.count(id) > 0) continue;
    const bool asked = cancel != nullptr && id == cancel->order_id;
    if (!asked && now.boot < term.void_at.at(id)) {
      Violate(absl::StrCat(record.order().name(), " is removed before it is void"));
    }
    may_be_gone_.insert(scheduler::CapacityOrderKey(id));
  }
}

void PlacementWitness::JudgePlacement(const JobEntry& job, Now now, const Kept& before,
                                      const Term& term) {
  const SectionCheck sections = CheckSections(job);
  if (!sections.wrong.empty()) {
    Violate(absl::StrCat("job ", job.uid(), " is placed and ", sections.wrong));
  }
  sections_there_ += sections.there;
  sections_left_out_ += sections.left_out;
  JudgeLabels(job, term);
  const absl::Duration stay = scheduler::LongestStay(job.spec.spec());
  bool is_before = false;
  std::set<std::string> on_orders;
  for (const std::string& name :
       std::set<std::string>(job.gang->nodes.begin(), job.gang->nodes.end())) {
    const NodeId id{job.gang->head.cluster(), name};
    const NodeRecord& node = term.model().nodes.at(id);
    const std::vector<scheduler::Closure> closures =
        scheduler::ClosuresBy(term.model().maintenance_windows, id, node, now.wall);
    const absl::Status good = scheduler::CheckStay(closures, absl::ZeroDuration(), stay);
    if (!good.ok()) {
      Violate(absl::StrCat("job ", job.uid(), " is placed on ", id.Name(),
                           ", where a maintenance window does not let it be: ", good.message()));
    }
    is_before = is_before || !closures.empty();
    on_orders.insert(OrderOf(term.model(), id, node));
    const auto kept = before.find(id);
    const auto still = term.kept.find(id);
    if (kept == before.end() || still == term.kept.end() || kept->second != still->second) continue;
    const auto& [nominee, order] = kept->second;
    const CapacityOrderRecord& record = term.model().capacity_orders.at(order);
    const bool in_time = record.order().has_expected_time() &&
                         now.wall + stay <= ToTime(record.order().expected_time());
    if (nominee != job.uid() && !in_time) {
      Violate(absl::StrCat("job ", job.uid(), " is placed on ", id.Name(), ", which is kept for ",
                           nominee, " by order ", order));
    }
  }
  placed_before_ += is_before ? 1 : 0;
  for (const std::string& order : on_orders) {
    if (order.empty()) continue;
    const CapacityOrderRecord& record = term.model().capacity_orders.at(order);
    if (record.nominee_uid() == job.uid() && !record.used()) {
      Violate(absl::StrCat("job ", job.uid(), " is placed on Nodes of order ", order,
                           ", which is not used"));
    }
  }
}

void PlacementWitness::JudgeLabels(const JobEntry& job, const Term& term) {
  bool has_any = false;
  for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
    const NodeId id = job.gang->node(rank);
    const std::vector<NodeRequirement> requirements = scheduler::RequirementsOf(job, rank);
    has_any = has_any || !requirements.empty();
    const absl::Status good =
        scheduler::CheckLabels(requirements, term.model().nodes.at(id).observation());
    if (good.ok()) continue;
    Violate(absl::StrCat("rank ", rank, " of job ", job.uid(), " is placed on ", id.Name(), ": ",
                         good.message()));
  }
  placed_by_labels_ += has_any ? 1 : 0;
}

void PlacementWitness::JudgeStop(const JobEntry& job, Now now, const Term& term) {
  const GangHeadRecord& head = job.gang->head;
  if (head.phase() != GangHeadRecord::PHASE_STOPPING ||
      head.stop_reason() != Stop::REASON_MAINTENANCE ||
      !evicted_.emplace(job.uid(), head.generation()).second) {
    return;
  }
  world_->Fault("eviction");
  for (const auto& [of, record] : term.model().maintenance_windows) {
    if (!record.window().evict() || !Lasts(record.window(), now.wall)) continue;
    for (const std::string& name : job.gang->nodes) {
      const NodeId id{head.cluster(), name};
      if (scheduler::IsOf(record.window(), id, term.model().nodes.at(id))) return;
    }
  }
  Violate(absl::StrCat("job ", job.uid(), " is stopped for maintenance, and no window stops it"));
}

void PlacementWitness::JudgeWindowsThatLast(Now now, const Term& term) {
  for (const auto& [of, record] : term.model().maintenance_windows) {
    const auto& window = record.window();
    if (!window.evict() || !Lasts(window, now.wall)) continue;
    term.model().jobs.ForEachLive([&](absl::string_view uid, const JobEntry& job) {
      if (job.gang->head.phase() == GangHeadRecord::PHASE_STOPPING) return;
      for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
        const NodeId id = job.gang->node(rank);
        if (job.gang->ended(rank) || !scheduler::IsOf(window, id, term.model().nodes.at(id))) {
          continue;
        }
        Violate(absl::StrCat("job ", uid, " stays on ", id.Name(), " in ", window.name(),
                             ", which stops what is there"));
      }
    });
  }
}

void PlacementWitness::JudgeNominees(const Term& term) {
  for (const auto& [id, record] : term.model().capacity_orders) {
    if (record.used() || record.nominee_uid().empty()) continue;
    const JobEntry* job = term.model().FindJob(record.nominee_uid());
    if (job != nullptr && job->state.state() == Job::STATE_QUEUED &&
        job->state.reason() == scheduler::kOrdered) {
      continue;
    }
    Violate(absl::StrCat("order ", id, " keeps Nodes for ", record.nominee_uid(),
                         ", which does not wait for them"));
  }
}

PlacementWitness::Kept PlacementWitness::KeptBy(const scheduler::Model& model) {
  Kept kept;
  if (model.capacity_orders.empty()) return kept;
  for (const auto& [id, node] : model.nodes) {
    const std::string order = OrderOf(model, id, node);
    if (order.empty()) continue;
    const CapacityOrderRecord& record = model.capacity_orders.at(order);
    if (!record.used() && !record.nominee_uid().empty()) {
      kept[id] = {record.nominee_uid(), order};
    }
  }
  return kept;
}

void PlacementWitness::Acknowledged(const std::string& key) {
  acknowledged_.insert(key);
  CheckStored();
}

void PlacementWitness::WindowAcknowledged(const std::string& cluster, const std::string& window) {
  Acknowledged(scheduler::MaintenanceWindowKey(cluster, window));
}

void PlacementWitness::WindowAskedBack(const std::string& cluster, const std::string& window) {
  may_be_gone_.insert(scheduler::MaintenanceWindowKey(cluster, window));
}

void PlacementWitness::OrderAcknowledged(const std::string& order) {
  Acknowledged(scheduler::CapacityOrderKey(order));
}

void PlacementWitness::OrderAskedBack(const std::string& order) {
  may_be_gone_.insert(scheduler::CapacityOrderKey(order));
}

void PlacementWitness::CheckStored() {
  for (auto key = acknowledged_.begin(); key != acknowledged_.end();) {
    if (may_be_gone_.count(*key) > 0) {
      key = acknowledged_.erase(key);
      continue;
    }
    if (store_->disk.records.count(*key) == 0) {
      Violate(absl::StrCat("acknowledged ", *key, " is not stored, and nobody has taken it back"));
    }
    ++key;
  }
}

}  // namespace capstan::simulation
