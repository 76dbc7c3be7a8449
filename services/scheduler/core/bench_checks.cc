#include "services/scheduler/core/bench_checks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/session/lower_side.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::QuotaLimit;
using capstan::scheduler::v1::ResourceQuota;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::DesiredTasks;
using capstan::type::v1::Observations;
using capstan::type::v1::Resources;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;
using ByResource = std::map<std::string, int64_t>;

template <typename... Words>
absl::Status Violation(const Words&... words) {
  return absl::FailedPreconditionError(absl::StrCat(words...));
}

ByResource Of(const Resources& resources) {
  ByResource amounts = {{"cpu", resources.cpu_millis()}, {"memory", resources.memory_bytes()}};
  for (const auto& [name, count] : resources.accelerators()) amounts[name] += count;
  return amounts;
}

void Add(const ByResource& amounts, ByResource* sum) {
  for (const auto& [resource, amount] : amounts) (*sum)[resource] += amount;
}

int64_t AmountOf(const ByResource& amounts, const std::string& resource) {
  const auto amount = amounts.find(resource);
  return amount == amounts.end() ? 0 : amount->second;
}

std::string IdOf(absl::string_view queue) {
  return std::string(absl::StripPrefix(queue, "queues/"));
}

// Equal for Jobs of a Queue that are alike but for their priority and what they run.
std::string KindOf(JobSpec spec) {
  spec.clear_priority();
  spec.clear_labels();
  spec.clear_service_account();
  for (auto& group : *spec.mutable_task_groups()) {
    group.clear_argv();
    group.clear_env();
  }
  return session::SerializeDeterministic(spec);
}

// Queues, and what is used in each and below it.
class QueueUse {
 public:
  explicit QueueUse(const Model& model) : model_(model) {
    for (const auto& [id, record] : model.queues) below_[ParentOf(id)].push_back(id);
  }

  // Itself and those above it, upwards.
  std::vector<std::string> WayUp(std::string id) const {
    std::vector<std::string> way;
    for (; !id.empty(); id = ParentOf(id)) way.push_back(id);
    return way;
  }
  void Use(const std::string& leaf, const ByResource& amounts) {
    for (const std::string& id : WayUp(leaf)) Add(amounts, &used_[id]);
  }
  // Given up by a Job of a Queue for one of another.
  void GiveUp(const std::string& leaf, const std::string& other, const ByResource& amounts) {
    const std::vector<std::string> others = WayUp(other);
    for (const std::string& id : WayUp(leaf)) {
      if (std::find(others.begin(), others.end(), id) != others.end()) return;
      Add(amounts, &given_up_[id]);
    }
  }

  absl::Status Check() const {
    for (const auto& [id, used] : used_) {
      for (const auto& [resource, amount] : used) {
        const absl::optional<int64_t> borrowing = BorrowingOf(id, resource);
        if (!borrowing.has_value()) continue;
        const int64_t limit = GuaranteeOf(id, resource) + *borrowing;
        if (amount > limit) {
          return Violation("queue ", id, " uses ", amount, " of ", resource, " and may ", limit);
        }
      }
    }
    for (const auto& [id, given_up] : given_up_) {
      for (const auto& [resource, amount] : given_up) {
        const int64_t left = AmountOf(used_.at(id), resource) - amount;
        if (amount > 0 && left < GuaranteeOf(id, resource)) {
          return Violation("queue ", id, " is left ", left, " of ", resource, " and is guaranteed ",
                           GuaranteeOf(id, resource));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const Queue& QueueOf(const std::string& id) const { return model_.queues.at(id).queue(); }
  std::string ParentOf(const std::string& id) const { return IdOf(QueueOf(id).parent()); }

  static const ResourceQuota* QuotaOf(const Queue& queue, const std::string& resource) {
    for (const ResourceQuota& quota : queue.quotas()) {
      if (quota.resource() == resource) return &quota;
    }
    return nullptr;
  }

  // Of one that says nothing, that of the Queues below it.
  int64_t GuaranteeOf(const std::string& id, const std::string& resource) const {
    const ResourceQuota* const quota = QuotaOf(QueueOf(id), resource);
    if (quota != nullptr && quota->has_guarantee()) return quota->guarantee();
    int64_t sum = 0;
    const auto below = below_.find(id);
    if (below == below_.end()) return 0;
    for (const std::string& child : below->second) sum += GuaranteeOf(child, resource);
    return sum;
  }

  // Of one that says nothing, that of the next above it that does; none: without bound.
  absl::optional<int64_t> BorrowingOf(const std::string& id, const std::string& resource) const {
    for (const std::string& at : WayUp(id)) {
      const ResourceQuota* const quota = QuotaOf(QueueOf(at), resource);
      if (quota == nullptr) continue;
      const QuotaLimit& limit = quota->borrowing_limit();
      if (limit.limit_case() == QuotaLimit::kAmount) return limit.amount();
      if (limit.unlimited()) return absl::nullopt;
    }
    return absl::nullopt;
  }

  const Model& model_;
  std::map<std::string, std::vector<std::string>> below_;
  std::map<std::string, ByResource> used_;
  std::map<std::string, ByResource> given_up_;
};

class PlacementChecks {
 public:
  explicit PlacementChecks(const Model& model) : model_(model), queues_(model) {}

  absl::Status Run() {
    for (auto at = model_.jobs.begin(); at != model_.jobs.end(); ++at) {
      if (at.glance().live) CAPSTAN_RETURN_IF_ERROR(TakeGang(at->second));
    }
    CAPSTAN_RETURN_IF_ERROR(CheckNodes());
    for (auto at = model_.jobs.begin(); at != model_.jobs.end(); ++at) {
      const JobGlance glance = at.glance();
      if (glance.makes_room) CAPSTAN_RETURN_IF_ERROR(TakeVictims(at->second));
      if (!glance.live && glance.waits_for_room() && GoesBeforeAny(glance)) {
        CAPSTAN_RETURN_IF_ERROR(CheckWaiting(at->second));
      }
    }
    return queues_.Check();
  }

 private:
  struct Placed {
    std::string uid;
    int32_t priority = 0;
    absl::Time at;
  };

  absl::Status TakeGang(const JobEntry& job) {
    const JobSpec& spec = job.spec.spec();
    const Gang& gang = *job.gang;
    const std::string queue = IdOf(spec.queue());
    if (model_.queues.count(queue) == 0) return Violation(job.uid(), " is in no queue that is");
    if (gang.head.group_sizes_size() > 0) return absl::UnimplementedError("gangs of varying size");
    if (gang.head.generation() < 1 || gang.head.generation() != job.state.generation()) {
      return Violation(job.uid(), " holds a place in generation ", gang.head.generation(), " of ",
                       job.state.generation());
    }
    std::vector<const Resources*> asked;
    for (const auto& group : spec.task_groups()) {
      if (group.resources().has_mig()) return absl::UnimplementedError("MIG instances");
      asked.insert(asked.end(), group.replicas(), &group.resources());
    }
    if (gang.nodes.size() != asked.size() || gang.tasks.size() != asked.size() ||
        gang.head.task_count() != static_cast<int>(asked.size())) {
      return Violation(job.uid(), " has ", gang.nodes.size(), " places for ", asked.size(),
                       " Tasks");
    }
    ByResource& held = held_[job.uid()];
    for (size_t rank = 0; rank < asked.size(); ++rank) {
      const NodeId node{gang.head.cluster(), gang.nodes[rank]};
      if (model_.nodes.count(node) == 0) return Violation(job.uid(), " is on no Node that is");
      if (gang.tasks[rank].state() == TaskObservation::STATE_ENDED) continue;
      const ByResource amounts = Of(*asked[rank]);
      Add(amounts, &given_[node]);
      Add(amounts, &held);
    }
    queues_.Use(queue, held);
    // Those that were there before have no such time.
    if (!job.state.has_generation_time()) return absl::OkStatus();
    placed_[KindOf(spec)].push_back(
        {job.uid(), spec.priority(), ToTime(job.state.generation_time())});
    const auto lowest = lowest_.try_emplace(spec.queue(), spec.priority()).first;
    lowest->second = std::min(lowest->second, spec.priority());
    return absl::OkStatus();
  }

  absl::Status CheckNodes() const {
    for (const auto& [id, given] : given_) {
      const ByResource has = Of(model_.nodes.at(id).observation().allocatable());
      for (const auto& [resource, amount] : given) {
        if (amount > AmountOf(has, resource)) {
          return Violation(id.Name(), " has given ", amount, " of ", resource, " and has ",
                           AmountOf(has, resource));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeVictims(const JobEntry& claimant) {
    for (const auto& victim : claimant.state.making_room()) {
      if (victim.shrinks() || victim.has_move()) return absl::UnimplementedError("gangs that move");
      const auto held = held_.find(victim.job_uid());
      if (held == held_.end()) continue;
      const JobEntry& job = model_.jobs.at(victim.job_uid());
      if (job.gang->head.generation() != victim.generation()) continue;
      queues_.GiveUp(IdOf(job.spec.spec().queue()), IdOf(claimant.spec.spec().queue()),
                     held->second);
    }
    return absl::OkStatus();
  }

  bool GoesBeforeAny(const JobGlance& waiting) const {
    const auto lowest = lowest_.find(waiting.queue);
    return lowest != lowest_.end() && waiting.priority > lowest->second;
  }

  absl::Status CheckWaiting(const JobEntry& job) const {
    const auto alike = placed_.find(KindOf(job.spec.spec()));
    if (alike == placed_.end()) return absl::OkStatus();
    const absl::Time since = job.state.generation() == 0 ? ToTime(job.spec.create_time())
                                                         : ToTime(job.state.phase_time());
    for (const Placed& placed : alike->second) {
      if (placed.priority < job.spec.spec().priority() && placed.at > since) {
        return Violation(job.uid(), " of priority ", job.spec.spec().priority(), " waits, and ",
                         placed.uid, " of priority ", placed.priority, " was placed");
      }
    }
    return absl::OkStatus();
  }

  const Model& model_;
  QueueUse queues_;
  std::map<NodeId, ByResource> given_;
  std::map<std::string, ByResource> held_;              // by uid
  std::map<std::string, std::vector<Placed>> placed_;   // by kind
  std::map<std::string, int32_t, std::less<>> lowest_;  // priority of these, by Queue
};

}  // namespace

absl::Status CheckPlacements(const Model& model) { return PlacementChecks(model).Run(); }

void GenerationCheck::Said(const Observations& observations) {
  for (const TaskObservation& task : observations.tasks()) {
    if (task.state() != TaskObservation::STATE_ENDED) {
      Hold(task.key());
      continue;
    }
    const auto held = held_.find(task.key().job_uid());
    if (held == held_.end() || held->second.generation != task.key().generation()) continue;
    held->second.tasks.erase({task.key().group(), task.key().index()});
    if (held->second.tasks.empty()) held_.erase(held);
  }
}

void GenerationCheck::Told(const DesiredTasks& desired) {
  for (const DesiredTask& task : desired.tasks()) {
    if (task.phase() != DesiredTask::PHASE_STOP) Hold(task.key());
  }
}

void GenerationCheck::Hold(const TaskKey& key) {
  Held& held = held_[key.job_uid()];
  if (held.tasks.empty()) held.generation = key.generation();
  if (held.generation != key.generation()) {
    status_.Update(Violation(key.job_uid(), " is in generation ", key.generation(),
                             " while Tasks of generation ", held.generation, " are held"));
    return;
  }
  held.tasks.emplace(key.group(), key.index());
}

}  // namespace capstan::scheduler
