#include "tools/capstan/cli/resource_names.h"

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/clustermanager/v1/cluster.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "proto/capstan/telemetry/v1/subscription.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/maintenance_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {
namespace {

constexpr int kMaxNames = 200;
// Of the call.
constexpr absl::Duration kTimeOut = absl::Milliseconds(1500);

using Candidates = absl::StatusOr<std::vector<Candidate>>;

// Lists one page of `Service` and makes a candidate of each resource.
template <typename Service, typename Request, typename Response, typename Items, typename Make>
Candidates List(const Invocation& invocation, absl::string_view part,
                grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                      Response*),
                const std::string& parent, Items items, Make make) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel(part));
  const auto stub = Service::NewStub(channel);
  Request request;
  if constexpr (requires { request.set_parent(parent); }) request.set_parent(parent);
  if constexpr (requires { request.set_page_size(kMaxNames); }) request.set_page_size(kMaxNames);
  CAPSTAN_ASSIGN_OR_RETURN(const Response response,
                           Call(stub.get(), method, request, Terms(invocation)));
  std::vector<Candidate> found;
  for (const auto& item : items(response)) found.push_back(make(item));
  return found;
}

Candidates Jobs(const Invocation& invocation) {
  using scheduler::v1::Job;
  using scheduler::v1::JobService;
  const absl::Time now = invocation.clock->Read().wall;
  return List<JobService>(
      invocation, "scheduler", &JobService::Stub::ListJobs, ProjectParent(invocation.project),
      [](const auto& page) -> const auto& { return page.jobs(); },
      [now](const Job& job) {
        return Candidate{LastSegment(job.name()),
                         absl::StrCat(ShortEnum(Job::State_Name(job.state()), "STATE_"), ", ",
                                      HumanAge(ToTime(job.create_time()), now), " old")};
      });
}

Candidates Queues(const Invocation& invocation) {
  using scheduler::v1::QueueService;
  return List<QueueService>(
      invocation, "scheduler", &QueueService::Stub::ListQueues, "",
      [](const auto& page) -> const auto& { return page.queues(); },
      [](const scheduler::v1::Queue& queue) {
        return Candidate{LastSegment(queue.name()), absl::StrCat("weight ", queue.weight())};
      });
}

// As people type it: see NodeResource and WindowResource.
std::string InCluster(const std::string& whole, const std::string& collection) {
  std::string name(absl::StripPrefix(whole, "clusters/"));
  if (absl::StartsWith(name, "local/")) return LastSegment(name);
  const size_t middle = name.find(collection);
  if (middle != std::string::npos) name.erase(middle, collection.size() - 1);
  return name;
}

Candidates Nodes(const Invocation& invocation) {
  using scheduler::v1::Node;
  using scheduler::v1::NodeService;
  return List<NodeService>(
      invocation, "scheduler", &NodeService::Stub::ListNodes, "clusters/-",
      [](const auto& page) -> const auto& { return page.nodes(); },
      [](const Node& node) {
        return Candidate{InCluster(node.name(), "/nodes/"),
                         absl::StrCat(ShortEnum(Node::State_Name(node.state()), "STATE_"), ", ",
                                      node.task_count(), " Tasks")};
      });
}

Candidates Windows(const Invocation& invocation) {
  using scheduler::v1::MaintenanceWindow;
  using scheduler::v1::NodeService;
  const absl::Time now = invocation.clock->Read().wall;
  return List<NodeService>(
      invocation, "scheduler", &NodeService::Stub::ListMaintenanceWindows, "clusters/-",
      [](const auto& page) -> const auto& { return page.maintenance_windows(); },
      [now](const MaintenanceWindow& window) {
        return Candidate{InCluster(window.name(), "/maintenanceWindows/"),
                         BeginsInWords(window, now)};
      });
}

Candidates Clusters(const Invocation& invocation) {
  using clustermanager::v1::Cluster;
  using clustermanager::v1::ClusterService;
  return List<ClusterService>(
      invocation, "cluster_manager", &ClusterService::Stub::ListClusters, "",
      [](const auto& page) -> const auto& { return page.clusters(); },
      [](const Cluster& cluster) {
        return Candidate{LastSegment(cluster.name()),
                         absl::StrCat(cluster.healthy_node_count(), " healthy Nodes")};
      });
}

Candidates Projects(const Invocation& invocation) {
  using credentials::v1::ProjectService;
  return List<ProjectService>(
      invocation, "credentials", &ProjectService::Stub::ListProjects, "",
      [](const auto& page) -> const auto& { return page.projects(); },
      [](const credentials::v1::Project& project) {
        return Candidate{LastSegment(project.name()), project.display_name()};
      });
}

Candidates Bindings(const Invocation& invocation, bool everywhere) {
  using credentials::v1::ProjectService;
  using credentials::v1::RoleBinding;
  return List<ProjectService>(
      invocation, "credentials", &ProjectService::Stub::ListRoleBindings,
      everywhere ? "" : ProjectParent(invocation.project),
      [](const auto& page) -> const auto& { return page.role_bindings(); },
      [](const RoleBinding& binding) {
        return Candidate{LastSegment(binding.name()),
                         absl::StrCat(binding.member(), " is ",
                                      absl::AsciiStrToLower(ShortEnum(
                                          RoleBinding::Role_Name(binding.role()), "ROLE_")))};
      });
}

Candidates Datasets(const Invocation& invocation) {
  using dataloader::v1::DatasetService;
  return List<DatasetService>(
      invocation, "data_loader", &DatasetService::Stub::ListDatasets,
      ProjectParent(invocation.project),
      [](const auto& page) -> const auto& { return page.datasets(); },
      [](const dataloader::v1::Dataset& dataset) {
        return Candidate{LastSegment(dataset.name()), dataset.source_uri()};
      });
}

Candidates Loads(const Invocation& invocation) {
  using dataloader::v1::DataLoad;
  using dataloader::v1::DataLoadService;
  return List<DataLoadService>(
      invocation, "data_loader", &DataLoadService::Stub::ListDataLoads,
      ProjectParent(invocation.project),
      [](const auto& page) -> const auto& { return page.data_loads(); },
      [](const DataLoad& load) {
        return Candidate{LastSegment(load.name()),
                         absl::StrCat(ShortEnum(DataLoad::State_Name(load.state()), "STATE_"), ", ",
                                      LastSegment(load.dataset()))};
      });
}

Candidates Subscriptions(const Invocation& invocation) {
  using telemetry::v1::Subscription;
  using telemetry::v1::SubscriptionService;
  return List<SubscriptionService>(
      invocation, "telemetry", &SubscriptionService::Stub::ListSubscriptions,
      ProjectParent(invocation.project),
      [](const auto& all) -> const auto& { return all.subscriptions(); },
      [](const Subscription& subscription) {
        return Candidate{LastSegment(subscription.name()),
                         absl::StrCat(subscription.stream(), ", ", subscription.lag_records(),
                                      " records behind")};
      });
}

}  // namespace

NameSource PlatformNames(const Invocation& invocation) {
  return [&invocation](const std::string& type, const std::map<std::string, std::string>& options) {
    Invocation bounded = invocation;
    bounded.time_out = kTimeOut;
    if (const auto it = options.find("data-dir"); it != options.end()) {
      bounded.data_dir = it->second;
    }
    if (const auto it = options.find("project"); it != options.end()) bounded.project = it->second;
    Candidates found = std::vector<Candidate>();
    // Of a Stream the Job is what has to be typed.
    if (type == "JOB" || type == "STREAM") found = Jobs(bounded);
    if (type == "QUEUE") found = Queues(bounded);
    if (type == "NODE") found = Nodes(bounded);
    if (type == "WINDOW") found = Windows(bounded);
    if (type == "CLUSTER") found = Clusters(bounded);
    if (type == "PROJECT") found = Projects(bounded);
    if (type == "BINDING") found = Bindings(bounded, options.count("everywhere") > 0);
    if (type == "DATASET") found = Datasets(bounded);
    if (type == "LOAD") found = Loads(bounded);
    if (type == "SUBSCRIPTION") found = Subscriptions(bounded);
    return found.ok() ? *std::move(found) : std::vector<Candidate>();
  };
}

}  // namespace capstan::cli
