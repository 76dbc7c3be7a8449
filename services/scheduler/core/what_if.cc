#include "services/scheduler/core/what_if.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/resource/name.h"
#include "services/scheduler/core/counterfactuals.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_sight.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/topology_levels.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::NodeObservation;
using AddedNodes = SimulatePlacementRequest::AddedNodes;
using NodeChange = SimulatePlacementRequest::NodeChange;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr int kMaxNodesShown = 100;
constexpr int kMaxJobsShown = 10;
// Events that are followed after each change, and for how long: rounds of large fleets are that far
// apart.
constexpr int kMaxSteps = 100;
constexpr absl::Duration kFollowed = absl::Milliseconds(500);
// No uid of a Job, nor part of its name, looks like this.
constexpr char kUidPrefix[] = "simulated.";
constexpr char kNodePrefix[] = "simulated-";

}  // namespace

// One request on its way through a core of its own.
class Simulation::Course {
 public:
  Course(const CoreConfig& config, SimulatedState state, const Now& now)
      : config_(config), now_(now) {
    response_.mutable_others()->set_waiting(state.waiting);
    response_.mutable_others()->set_left_out(state.left_out);
    state.model.jobs.ForEachGlance([this](const JobGlance& job) {
      if (job.reason == "AWAITING_DATA") awaits_data_.insert(std::string(job.uid));
    });
    core_ = SchedulerCore::Suppose(config, std::move(state.model), now);
    // What happens anyway.
    Follow();
    // The first Job comes to a fleet at rest.
    MoveTo(std::max(core_->round_at(), now_.boot));
    Look();
    core_->ForeseeRound(now_);
  }

  absl::StatusOr<SimulatePlacementResponse> Run(const SimulatePlacementRequest& request,
                                                const std::string& submitter) {
    request_ = &request;
    submitter_ = &submitter;
    const int64_t rounds = core_->rounds();
    if (request.node_changes_size() > 0) {
      const absl::Status changed = ChangeNodes();
      if (!changed.ok()) return changed;
    }
    status::FieldErrors errors;
    for (int i = 0; i < request.jobs_size(); ++i) Submit(i, &errors);
    if (!errors.ok()) return errors.ToStatus();
    Follow();
    // For one Job that found no room the fleet is as it was.
    if (request.jobs_size() != 1 || request.node_changes_size() > 0 ||
        core_->rounds() > rounds + 1) {
      is_stale_ = true;
    }
    common_.waiting_with_gang = model().jobs.WaitingWithGang();
    for (int i = 0; i < request.jobs_size(); ++i) TellOutcome(i);
    return std::move(response_);
  }

 private:
  const Model& model() const { return core_->model(); }
  static std::string UidOf(int index) { return absl::StrCat(kUidPrefix, index); }

  void Apply(const Event& event) {
    std::deque<Event> events = {event};
    for (; !events.empty(); events.pop_front()) {
      Step step = core_->Apply(events.front(), now_);
      for (Effect& effect : step.after) {
        if (auto* const reply = std::get_if<ReplyJob>(&effect)) {
          if (!reply->job.ok()) refusals_[reply->call] = reply->job.status();
        } else if (const auto* const data = std::get_if<EnsureData>(&effect)) {
          if (awaits_data_.count(data->job_uid) > 0) continue;
          events.push_back(DataReady{data->job_uid, data->dataset_position, data->version});
        }
      }
    }
  }

  void Follow() {
    const BootTime until = now_.boot + kFollowed;
    Apply(Tick());
    for (int i = 0; i < kMaxSteps; ++i) {
      const absl::optional<BootTime> next = core_->NextDeadline();
      if (!next.has_value() || *next > until) return;
      MoveTo(std::max(*next, now_.boot));
      Apply(Tick());
    }
    response_.set_cut_short(true);
  }
  void MoveTo(BootTime at) {
    now_.wall += at - now_.boot;
    now_.boot = at;
  }

  NodeId Find(const std::string& field, const std::string& name, status::FieldErrors* errors) {
    const auto parsed = resource::NodeName::Parse(name);
    if (!parsed.ok()) return {};
    NodeId id{parsed->cluster, parsed->node};
    if (model().nodes.count(id) == 0) {
      errors->Add(field, absl::StrCat("`", name,
                                      "` does not exist; `capstan node list` shows "
                                      "those that do"));
    }
    return id;
  }

  void Add(const std::string& field, const AddedNodes& add, SchedulerCore::SupposedNodes* nodes,
           status::FieldErrors* errors) {
    NodeObservation observation;
    std::string cluster(absl::StripPrefix(add.cluster(), "clusters/"));
    if (!add.like().empty()) {
      const NodeId like = Find(field + ".like", add.like(), errors);
      if (!errors->ok()) return;
      cluster = like.cluster;
      const NodeObservation& given = model().nodes.at(like).observation();
      *observation.mutable_allocatable() = given.allocatable();
      *observation.mutable_mig_gpus() = given.mig_gpus();
      *observation.mutable_labels() = given.labels();
      *observation.mutable_taints() = given.taints();
      for (int limitation : given.limitations()) {
        if (limitation == NodeObservation::LIMITATION_UNISOLATED) {
          observation.add_limitations(NodeObservation::LIMITATION_UNISOLATED);
        }
      }
    }
    const auto first = model().nodes.lower_bound({cluster, ""});
    const bool heard = std::any_of(first, model().nodes.end(), [&cluster](const auto& node) {
      return node.first.cluster == cluster && node.second.state() == Node::STATE_ACTIVE;
    });
    if (!heard) {
      errors->Add(absl::StrCat(field, add.like().empty() ? ".cluster" : ".like"),
                  absl::StrCat("is in clusters/", cluster,
                               ", of which no Node is heard; expected a Cluster whose executor is "
                               "connected and has a Node"));
      return;
    }
    if (add.has_allocatable()) *observation.mutable_allocatable() = add.allocatable();
    for (const auto& [name, value] : add.labels()) {
      if (value.empty()) {
        observation.mutable_labels()->erase(name);
      } else {
        (*observation.mutable_labels())[name] = value;
      }
    }
    if (add.taints_size() > 0) *observation.mutable_taints() = add.taints();
    for (int i = 0; i < add.count(); ++i) {
      do {
        observation.set_node(absl::StrCat(kNodePrefix, ++last_node_));
      } while (model().nodes.count({cluster, observation.node()}) > 0);
      nodes->added.emplace_back(cluster, observation);
    }
  }

  absl::Status ChangeNodes() {
    SchedulerCore::SupposedNodes nodes;
    status::FieldErrors errors;
    for (int i = 0; i < request_->node_changes_size(); ++i) {
      const NodeChange& change = request_->node_changes(i);
      const std::string field = absl::StrCat("node_changes[", i, "]");
      switch (change.change_case()) {
        case NodeChange::kAdd:
          Add(field + ".add", change.add(), &nodes, &errors);
          break;
        case NodeChange::kRemove:
          nodes.removed.insert(Find(field + ".remove", change.remove(), &errors));
          break;
        case NodeChange::kCordon:
          nodes.cordoned.insert(Find(field + ".cordon", change.cordon(), &errors));
          break;
        case NodeChange::kUncordon:
          nodes.uncordoned.insert(Find(field + ".uncordon", change.uncordon(), &errors));
          break;
        case NodeChange::CHANGE_NOT_SET:
          break;
      }
    }
    if (!errors.ok()) return errors.ToStatus();
    removed_ = nodes.removed;
    // In the order in which they are placed: priority, submission, uid.
    std::vector<std::tuple<int32_t, int64_t, std::string>> waiting;
    std::map<std::string, int64_t> displaced;  // generation by uid
    for (auto at = model().jobs.begin(); at != model().jobs.end(); ++at) {
      const JobGlance glance = at.glance();
      if (glance.waits_for_room()) {
        waiting.emplace_back(-glance.priority, glance.submit_sequence, glance.uid);
      }
      if (!glance.live) continue;
      const auto& [uid, job] = *at;
      for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
        if (job.gang->ended(rank) || removed_.count(job.gang->node(rank)) == 0) continue;
        displaced[uid] = job.state.generation();
        break;
      }
    }
    const BootTime settled = now_.boot + kFollowed;
    core_->SupposeNodes(nodes, now_);
    Follow();
    // The first Job comes to a fleet at rest.
    MoveTo(std::max(settled, now_.boot));
    SimulatePlacementResponse::Others& others = *response_.mutable_others();
    std::sort(waiting.begin(), waiting.end());
    for (const auto& [priority, submit_sequence, uid] : waiting) {
      const absl::optional<JobGlance> job = model().jobs.Glance(uid);
      if (!job.has_value() || !job->live) continue;
      others.set_started(others.started() + 1);
      if (ProjectOf(job->name) == request_->parent() &&
          others.started_jobs_size() < kMaxJobsShown) {
        others.add_started_jobs(std::string(job->name));
      }
    }
    others.set_displaced(static_cast<int>(displaced.size()));
    for (const auto& [uid, generation] : displaced) {
      const JobEntry* const job = model().FindJob(uid);
      if (job == nullptr || !job->live() || job->state.generation() == generation) continue;
      others.set_displaced_started(others.displaced_started() + 1);
    }
    return absl::OkStatus();
  }

  void Submit(int index, status::FieldErrors* errors) {
    CreateJob create;
    create.call = static_cast<CallId>(index) + 1;
    create.project = request_->parent();
    create.uid = UidOf(index);
    create.submitter = *submitter_;
    create.spec = request_->jobs(index);
    Apply(create);
    const auto refusal = refusals_.find(create.call);
    if (refusal == refusals_.end()) return;
    // What is wrong with the request is wrong with all of it.
    for (status::FieldViolation& violation : status::GetFieldViolations(refusal->second)) {
      absl::string_view path = violation.field;
      absl::ConsumePrefix(&path, "job.spec");
      errors->Add(absl::StrCat("jobs[", index, "]", path), violation.description);
    }
  }

  void TellOutcome(int index) {
    JobOutcome& outcome = *response_.add_jobs();
    const JobEntry* const job = model().FindJob(UidOf(index));
    if (job == nullptr) {
      const absl::Status& why = refusals_[static_cast<CallId>(index) + 1];
      outcome.set_outcome(JobOutcome::OUTCOME_REFUSED);
      outcome.set_reason(status::Reason(why));
      absl::string_view words = why.message();
      absl::ConsumePrefix(&words, "job.spec.");
      outcome.set_summary(std::string(words));
      return;
    }
    outcome.set_reason(job->state.reason());
    outcome.set_data_assumed(job->spec.spec().datasets_size() > 0);
    if (job->state.state() == Job::STATE_PREPARING) {
      outcome.set_outcome(JobOutcome::OUTCOME_STARTS);
      TellPlacement(*job, &outcome);
      return;
    }
    if (std::exchange(is_stale_, false)) LookAgain();
    auto why = ExplainWhole(model(), core_->usage(), *job, standings_, common_, config_, now_.wall);
    outcome.set_summary(why.summary());
    outcome.set_jobs_ahead(why.jobs_ahead());
    *outcome.mutable_constraints() = why.constraints();
    *outcome.mutable_counterfactuals() = why.counterfactuals();
    for (auto& counterfactual : *outcome.mutable_counterfactuals()) CallByRequest(&counterfactual);
    outcome.set_outcome(JobOutcome::OUTCOME_WAITS);
    if (job->state.reason() == "MAKING_ROOM") {
      outcome.set_outcome(JobOutcome::OUTCOME_MAKES_ROOM);
      TellVictims(*job, &outcome);
    } else if (job->state.has_estimated_start_time()) {
      outcome.set_outcome(JobOutcome::OUTCOME_STARTS_LATER);
      *outcome.mutable_estimated_start_time() = job->state.estimated_start_time();
      outcome.set_estimate_assumed(job->state.estimate_assumed());
    }
  }

  // Jobs of the request are called as it has them.
  void CallByRequest(ExplainJobResponse::Counterfactual* counterfactual) const {
    std::vector<std::pair<std::string, std::string>> names;
    for (int i = 0; i < request_->jobs_size(); ++i) {
      if (const JobEntry* const job = model().FindJob(UidOf(i))) {
        names.emplace_back(job->spec.name(), absl::StrCat("jobs[", i, "]"));
      }
    }
    counterfactual->set_message(absl::StrReplaceAll(counterfactual->message(), names));
    for (std::string& name : *counterfactual->mutable_jobs()) {
      name = absl::StrReplaceAll(name, names);
    }
  }

  void TellPlacement(const JobEntry& job, JobOutcome* outcome) {
    std::map<NodeId, int> at;
    std::vector<NodeCapacity> nodes;
    for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
      const NodeId id = job.gang->node(static_cast<int>(rank));
      const auto [known, fresh] = at.emplace(id, outcome->nodes_size());
      if (fresh) {
        NodeCapacity& node = nodes.emplace_back();
        node.id = id;
        node.topology = NodeTopology::From(model().nodes.at(id).observation().labels());
        outcome->add_nodes()->set_node(id.Name());
      }
      auto& use = *outcome->mutable_nodes(known->second);
      use.set_tasks(use.tasks() + 1);
    }
    for (size_t depth = kLevelsByWidth.size() - 1; depth > 0; --depth) {
      std::set<std::string> domains;
      for (const NodeCapacity& node : nodes) {
        domains.insert(DomainOf(node, kLevelsByWidth[depth]));
      }
      if (domains.size() != 1 || domains.begin()->empty()) continue;
      outcome->set_level(kLevelsByWidth[depth]);
      break;
    }
    outcome->set_cluster(absl::StrCat("clusters/", job.gang->head.cluster()));
    outcome->set_node_count(outcome->nodes_size());
    outcome->set_summary(
        absl::StrCat("starts on ", outcome->node_count(),
                     outcome->node_count() == 1 ? " node of " : " nodes of ", outcome->cluster(),
                     outcome->level() == Topology::LEVEL_UNSPECIFIED || nodes.size() == 1
                         ? ""
                         : absl::StrCat(", all in one ", LevelInWords(outcome->level()))));
    if (outcome->nodes_size() > kMaxNodesShown) {
      outcome->mutable_nodes()->DeleteSubrange(kMaxNodesShown,
                                               outcome->nodes_size() - kMaxNodesShown);
    }
  }

  void TellVictims(const JobEntry& job, JobOutcome* outcome) {
    outcome->set_victim_count(job.state.making_room_size());
    for (const auto& victim : job.state.making_room()) {
      if (victim.shrinks()) outcome->set_shrinking_count(outcome->shrinking_count() + 1);
      if (victim.has_move()) outcome->set_moved_count(outcome->moved_count() + 1);
      const JobEntry* const other = model().FindJob(victim.job_uid());
      if (other == nullptr || ProjectOf(other->spec.name()) != request_->parent()) continue;
      absl::string_view uid = victim.job_uid();
      const bool is_simulated = absl::ConsumePrefix(&uid, kUidPrefix);
      outcome->add_victims(is_simulated ? absl::StrCat("jobs[", uid, "]") : other->spec.name());
      if (!victim.shrinks()) continue;
      SimulatePlacementResponse::Shrinking& shrinking = *outcome->add_shrinking();
      shrinking.set_job(outcome->victims(outcome->victims_size() - 1));
      const int tasks = static_cast<int>(other->gang->tasks.size());
      shrinking.set_gives_up(tasks - MinTaskCount(other->spec.spec()));
      shrinking.set_tasks(tasks);
    }
  }

  // What explanations are of.
  void Look() {
    core_->SeeNodes(now_.wall, &standings_);
    std::erase_if(standings_, [this](const NodeStanding& standing) {
      return removed_.count(standing.capacity.id) > 0;
    });
    common_ = SeeCommon(core_->queue_book(), model(), core_->usage(), standings_);
  }
  // After what has happened since.
  void LookAgain() {
    // What Nodes would have if nothing ran there is another only where they are others.
    if (request_->node_changes_size() > 0) return Look();
    core_->SeeNodes(now_.wall, &standings_);
    common_.queues = SeeQueues(core_->queue_book(), standings_);
  }

  const CoreConfig config_;
  const SimulatePlacementRequest* request_ = nullptr;
  const std::string* submitter_ = nullptr;
  Now now_;
  std::unique_ptr<SchedulerCore> core_;
  SimulatePlacementResponse response_;
  // Uids of those that wait for data before anything happens: they go on waiting.
  std::set<std::string> awaits_data_;
  std::map<CallId, absl::Status> refusals_;
  std::set<NodeId> removed_;
  int last_node_ = 0;
  std::vector<NodeStanding> standings_;
  bool is_stale_ = false;
  // With them.
  CommonSight common_;
};

Simulation::Simulation(const CoreConfig& config, SimulatedState state, const Now& now)
    : course_(std::make_unique<Course>(config, std::move(state), now)) {}

Simulation::~Simulation() = default;

absl::StatusOr<SimulatePlacementResponse> Simulation::Run(const SimulatePlacementRequest& request,
                                                          const std::string& submitter) {
  return course_->Run(request, submitter);
}

}  // namespace capstan::scheduler
