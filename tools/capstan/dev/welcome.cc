#include "tools/capstan/dev/welcome.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/node_follow.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::dev {
namespace {

using credentials::v1::CreateProjectRequest;
using credentials::v1::ProjectService;
using scheduler::v1::CreateQueueRequest;
using scheduler::v1::ListNodesRequest;
using scheduler::v1::Node;
using scheduler::v1::NodeService;
using scheduler::v1::QueueService;
using type::v1::NodeObservation;

constexpr absl::Duration kTimeOut = absl::Seconds(20);
// The agent reports its Node soon after it is ready.
constexpr absl::Duration kNodePatience = absl::Seconds(10);

cli::CallTerms PatientTerms(const cli::Invocation& invocation) {
  return {invocation.clock, invocation.random, kTimeOut};
}

absl::Status OrThere(absl::Status status) {
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

const char* Meaning(int limitation) {
  switch (limitation) {
    case NodeObservation::LIMITATION_LIMITS_NOT_ENFORCED:
      return "this machine has no cgroup controllers to use: cpu and memory asked for are not "
             "enforced";
    case NodeObservation::LIMITATION_UNFENCED:
      return "this machine has no usable cgroup and PID namespace: Tasks are never re-placed by "
             "time-out";
    case NodeObservation::LIMITATION_UNISOLATED:
      return "Tasks share the platform's uid and can see each other: one principal's Jobs only";
    case NodeObservation::LIMITATION_DISK_FULL:
      return "the data folder's disk is nearly full";
    case NodeObservation::LIMITATION_PREFLIGHT_FAILED:
      return "the Node's own checks failed; see `capstan node list -o yaml`";
    default:
      return "see `capstan node list -o yaml`";
  }
}

// Waits until there is a Node, or for a while.
absl::Status WaitForNode(cli::Platform* platform, const cli::Invocation& invocation) {
  cli::CommandLoop loop(invocation.clock, invocation.random);
  return loop.Run([&] {
    loop.strand()->RunAfter(kNodePatience, [&] { loop.Done(absl::OkStatus()); });
    const absl::Status begun = cli::FollowNodes(
        &loop, platform, "clusters/-",
        [&](const Node&) {
          loop.Done(absl::OkStatus());
          return false;
        },
        [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  });
}

absl::StatusOr<scheduler::v1::ListNodesResponse> ListNodes(const cli::Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, cli::Platform::Open(invocation));
  CAPSTAN_RETURN_IF_ERROR(WaitForNode(platform.get(), invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("scheduler"));
  const auto stub = NodeService::NewStub(channel);
  ListNodesRequest request;
  request.set_parent("clusters/-");
  return cli::Call(stub.get(), &NodeService::Stub::ListNodes, request, PatientTerms(invocation));
}

}  // namespace

absl::Status PrepareDefaults(const cli::Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, cli::Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto credentials, platform->Channel("credentials"));
  const auto projects = ProjectService::NewStub(credentials);
  CreateProjectRequest project;
  project.set_project_id("default");
  project.mutable_project()->set_display_name("Default project");
  CAPSTAN_RETURN_IF_ERROR(OrThere(cli::Call(projects.get(), &ProjectService::Stub::CreateProject,
                                            project, PatientTerms(invocation))
                                      .status()));
  CAPSTAN_ASSIGN_OR_RETURN(const auto scheduler, platform->Channel("scheduler"));
  const auto queues = QueueService::NewStub(scheduler);
  CreateQueueRequest queue;
  queue.set_queue_id("default");
  queue.mutable_queue()->set_weight(100);
  return OrThere(
      cli::Call(queues.get(), &QueueService::Stub::CreateQueue, queue, PatientTerms(invocation))
          .status());
}

void PrintNodes(const cli::Invocation& invocation) {
  const auto nodes = ListNodes(invocation);
  if (!nodes.ok()) {
    *invocation.err << cli::DescribeError(nodes.status());
    return;
  }
  for (const Node& node : nodes->nodes()) {
    *invocation.out << "  node          " << node.name() << ": "
                    << cli::DescribeResources(node.allocatable()) << std::endl;
    for (const int limitation : node.limitations()) {
      const std::string name = cli::ShortEnum(
          NodeObservation::Limitation_Name(static_cast<NodeObservation::Limitation>(limitation)),
          "LIMITATION_");
      *invocation.err << invocation.err_terminal.Paint(cli::Colour::kRed,
                                                       absl::StrCat("WARNING: ", name))
                      << " on " << node.name() << ": " << Meaning(limitation) << std::endl;
    }
  }
}

void PrintWelcome(const cli::Invocation& invocation) {
  const auto endpoints = cli::ReadEndpoints(invocation.data_dir);
  if (!endpoints.ok()) {
    *invocation.err << cli::DescribeError(endpoints.status());
    return;
  }
  *invocation.out << "The platform is ready: " << invocation.data_dir << "\n"
                  << "  trust domain  " << endpoints->trust_domain() << "\n";
  PrintNodes(invocation);
  *invocation.out << "Next: capstan job submit examples/digits/train.yaml --watch\n"
                  << "      capstan node list; capstan dev status; capstan dev down\n"
                  << std::flush;
}

}  // namespace capstan::dev
