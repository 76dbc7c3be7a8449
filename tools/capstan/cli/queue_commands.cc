#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/clustermanager/v1/cluster.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/quota_text.h"

namespace capstan::cli {
namespace {

using clustermanager::v1::Cluster;
using clustermanager::v1::ClusterService;
using clustermanager::v1::GetClusterRequest;
using clustermanager::v1::ListClustersRequest;
using clustermanager::v1::ListClustersResponse;
using clustermanager::v1::NodeVerdict;
using scheduler::v1::CreateQueueRequest;
using scheduler::v1::GetQueueRequest;
using scheduler::v1::ListQueuesRequest;
using scheduler::v1::ListQueuesResponse;
using scheduler::v1::Queue;
using scheduler::v1::QueueService;
using scheduler::v1::UpdateQueueRequest;

std::string Findings(const Cluster& cluster) {
  std::vector<std::string> parts;
  for (const NodeVerdict& verdict : cluster.verdicts()) {
    if (verdict.findings().empty()) continue;
    parts.push_back(
        absl::StrCat(LastSegment(verdict.node()), ":", absl::StrJoin(verdict.findings(), "+")));
  }
  return absl::StrJoin(parts, ",");
}

std::string DescribeCluster(const Cluster& cluster, absl::Time now, const Terminal& terminal) {
  std::string out = absl::StrCat("Name:       ", cluster.name(), "\nUid:        ", cluster.uid(),
                                 "\nHealthy:    ", cluster.healthy_node_count(),
                                 "\nUnhealthy:  ", cluster.unhealthy_node_count(), "\n");
  if (cluster.verdicts().empty()) return out;
  TextTable table({"NODE", "HEALTH", "FINDINGS", "SINCE"});
  for (const NodeVerdict& verdict : cluster.verdicts()) {
    const bool healthy = verdict.health() == NodeVerdict::HEALTH_HEALTHY;
    table.AddRow({LastSegment(verdict.node()),
                  {ShortEnum(NodeVerdict::Health_Name(verdict.health()), "HEALTH_"),
                   healthy ? Colour::kGreen : Colour::kRed},
                  absl::StrJoin(verdict.findings(), ","),
                  HumanAge(ToTime(verdict.transition_time()), now)});
  }
  return absl::StrCat(out, "\n", table.Render(terminal));
}

// Sets, or with `none` clears, what the options say.
absl::Status SetRates(const QueueOptions& options, Queue* wanted) {
  if (!options.submit_rate.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(*wanted->mutable_submit_rate(), ParseRate(options.submit_rate));
    if (wanted->submit_rate().count() == 0) wanted->clear_submit_rate();
  }
  if (!options.start_rate.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(*wanted->mutable_start_rate(), ParseRate(options.start_rate));
    if (wanted->start_rate().count() == 0) wanted->clear_start_rate();
  }
  return absl::OkStatus();
}

absl::Status SetBudget(const QueueOptions& options, Queue* wanted) {
  if (options.disruption_budget.empty()) return absl::OkStatus();
  CAPSTAN_ASSIGN_OR_RETURN(*wanted->mutable_disruption_budget(),
                           ParseBudget(options.disruption_budget));
  if (wanted->disruption_budget().count() == 0) wanted->clear_disruption_budget();
  return absl::OkStatus();
}

}  // namespace

absl::Status CreateQueue(const QueueOptions& options, Invocation& invocation) {
  CreateQueueRequest request;
  Queue& wanted = *request.mutable_queue();
  CAPSTAN_RETURN_IF_ERROR(AddQuotas(options.guarantees, QuotaField::kGuarantee, &wanted));
  CAPSTAN_RETURN_IF_ERROR(
      AddQuotas(options.borrowing_limits, QuotaField::kBorrowingLimit, &wanted));
  CAPSTAN_RETURN_IF_ERROR(AddQuotas(options.lending_limits, QuotaField::kLendingLimit, &wanted));
  CAPSTAN_RETURN_IF_ERROR(SetRates(options, &wanted));
  CAPSTAN_RETURN_IF_ERROR(SetBudget(options, &wanted));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<QueueService>(invocation, "scheduler"));
  request.set_queue_id(options.id);
  request.set_request_id(invocation.random->Uuid4());
  wanted.set_weight(options.weight);
  if (!options.parent.empty()) {
    wanted.set_parent(absl::StrCat("queues/", absl::StripPrefix(options.parent, "queues/")));
  }
  if (options.min_runtime) *wanted.mutable_min_runtime() = ToProto(*options.min_runtime);
  if (options.usage_half_life) {
    *wanted.mutable_usage_half_life() = ToProto(*options.usage_half_life);
  }
  wanted.set_allow_non_preemptible(options.allow_non_preemptible.value_or(false));
  for (const std::string& project : options.projects) {
    wanted.add_projects(ProjectParent(project));
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      const Queue queue,
      Call(connection.stub.get(), &QueueService::Stub::CreateQueue, request, Terms(invocation)));
  return PrintResource<Queue>(
      invocation, queue, [](const Queue& made) { return absl::StrCat(made.name(), " created\n"); });
}

absl::Status UpdateQueue(const QueueOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<QueueService>(invocation, "scheduler"));
  GetQueueRequest get;
  get.set_name(absl::StrCat("queues/", absl::StripPrefix(options.id, "queues/")));
  UpdateQueueRequest request;
  Queue& wanted = *request.mutable_queue();
  // With its etag: what somebody else changes meanwhile is not overwritten.
  CAPSTAN_ASSIGN_OR_RETURN(
      wanted, Call(connection.stub.get(), &QueueService::Stub::GetQueue, get, Terms(invocation)));
  auto& paths = *request.mutable_update_mask();
  if (options.weight != 0) {
    wanted.set_weight(options.weight);
    paths.add_paths("weight");
  }
  if (!options.projects.empty()) {
    wanted.clear_projects();
    for (const std::string& project : options.projects) {
      // `all` admits every project again.
      if (project != "all") wanted.add_projects(ProjectParent(project));
    }
    paths.add_paths("projects");
  }
  const size_t quotas =
      options.guarantees.size() + options.borrowing_limits.size() + options.lending_limits.size();
  CAPSTAN_RETURN_IF_ERROR(ReplaceQuotas(options.guarantees, QuotaField::kGuarantee, &wanted));
  CAPSTAN_RETURN_IF_ERROR(
      ReplaceQuotas(options.borrowing_limits, QuotaField::kBorrowingLimit, &wanted));
  CAPSTAN_RETURN_IF_ERROR(
      ReplaceQuotas(options.lending_limits, QuotaField::kLendingLimit, &wanted));
  if (quotas > 0) paths.add_paths("quotas");
  if (options.min_runtime) {
    *wanted.mutable_min_runtime() = ToProto(*options.min_runtime);
    paths.add_paths("min_runtime");
  }
  if (options.usage_half_life) {
    *wanted.mutable_usage_half_life() = ToProto(*options.usage_half_life);
    paths.add_paths("usage_half_life");
  }
  CAPSTAN_RETURN_IF_ERROR(SetRates(options, &wanted));
  if (!options.submit_rate.empty()) paths.add_paths("submit_rate");
  if (!options.start_rate.empty()) paths.add_paths("start_rate");
  CAPSTAN_RETURN_IF_ERROR(SetBudget(options, &wanted));
  if (!options.disruption_budget.empty()) paths.add_paths("disruption_budget");
  if (options.allow_non_preemptible) {
    wanted.set_allow_non_preemptible(*options.allow_non_preemptible);
    paths.add_paths("allow_non_preemptible");
  }
  if (paths.paths().empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NOTHING_TO_CHANGE",
                         "expected at least one of the options, e.g. --weight 200");
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      const Queue queue,
      Call(connection.stub.get(), &QueueService::Stub::UpdateQueue, request, Terms(invocation)));
  return PrintResource<Queue>(
      invocation, queue, [](const Queue& made) { return absl::StrCat(made.name(), " changed\n"); });
}

absl::Status StopQueue(const std::string& name, const std::string& stop, bool set,
                       Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<QueueService>(invocation, "scheduler"));
  UpdateQueueRequest request;
  Queue& wanted = *request.mutable_queue();
  wanted.set_name(absl::StrCat("queues/", absl::StripPrefix(name, "queues/")));
  if (stop == "cordon") wanted.set_cordon(set);
  if (stop == "hold") wanted.set_hold(set);
  if (stop == "drain") wanted.set_drain(set);
  request.mutable_update_mask()->add_paths(stop);
  CAPSTAN_ASSIGN_OR_RETURN(
      const Queue queue,
      Call(connection.stub.get(), &QueueService::Stub::UpdateQueue, request, Terms(invocation)));
  return PrintResource<Queue>(invocation, queue, [](const Queue& made) {
    const std::string stops = StopsInWords(made);
    return absl::StrCat(made.name(), " ", stops == "-" ? "open" : stops, "\n");
  });
}

absl::Status ListQueues(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<QueueService>(invocation, "scheduler"));
  ListQueuesRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(const auto all,
                           ListAll(connection.stub.get(), &QueueService::Stub::ListQueues, request,
                                   &ListQueuesResponse::mutable_queues, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<Queue>(
      invocation, "queues", all,
      {{"NAME", [](const Queue& queue) { return LastSegment(queue.name()); }},
       {"WEIGHT", [](const Queue& queue) { return absl::StrCat(queue.weight()); }},
       {"PARENT", [](const Queue& queue) { return LastSegment(queue.parent()); }},
       {"GUARANTEE", GuaranteesInWords},
       {"USED/FAIR", ShareInWords},
       {"STOPS", StopsInWords},
       {"PROJECTS",
        [](const Queue& queue) {
          return queue.projects().empty() ? "all" : absl::StrJoin(queue.projects(), ",");
        }},
       {"AGE", [now](const Queue& queue) { return HumanAge(ToTime(queue.create_time()), now); }},
       {"AVERAGE USE", AverageUseInWords, /*wide=*/true},
       {"UID", [](const Queue& queue) { return queue.uid(); }, /*wide=*/true}});
}

absl::Status GetQueue(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<QueueService>(invocation, "scheduler"));
  GetQueueRequest request;
  request.set_name(absl::StrCat("queues/", absl::StripPrefix(name, "queues/")));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Queue queue,
      Call(connection.stub.get(), &QueueService::Stub::GetQueue, request, Terms(invocation)));
  return PrintResource<Queue>(invocation, queue, [&](const Queue& shown) {
    return DescribeQueue(shown, invocation.clock->Read().wall, invocation.out_terminal);
  });
}

absl::Status GetCluster(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<ClusterService>(invocation, "cluster_manager"));
  GetClusterRequest request;
  request.set_name(absl::StrCat("clusters/", absl::StripPrefix(name, "clusters/")));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Cluster cluster,
      Call(connection.stub.get(), &ClusterService::Stub::GetCluster, request, Terms(invocation)));
  return PrintResource<Cluster>(invocation, cluster, [&](const Cluster& shown) {
    return DescribeCluster(shown, invocation.clock->Read().wall, invocation.out_terminal);
  });
}

absl::Status ListClusters(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<ClusterService>(invocation, "cluster_manager"));
  ListClustersRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all, ListAll(connection.stub.get(), &ClusterService::Stub::ListClusters, request,
                              &ListClustersResponse::mutable_clusters, Terms(invocation)));
  return PrintList<Cluster>(
      invocation, "clusters", all,
      {{"NAME", [](const Cluster& cluster) { return LastSegment(cluster.name()); }},
       {"HEALTHY",
        [](const Cluster& cluster) { return absl::StrCat(cluster.healthy_node_count()); }},
       {"UNHEALTHY",
        [](const Cluster& cluster) { return absl::StrCat(cluster.unhealthy_node_count()); }},
       {"FINDINGS", Findings},
       {"UID", [](const Cluster& cluster) { return cluster.uid(); }, /*wide=*/true}});
}

}  // namespace capstan::cli
