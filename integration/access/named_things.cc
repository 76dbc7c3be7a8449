#include "integration/access/named_things.h"

#include <set>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace capstan::integration {
namespace {

struct Row {
  const char* kind;
  // The request as text, with `$` where the word goes.
  const char* request;
};

const std::map<std::string, Row>& Rows() {
  static const auto* const kRows = new std::map<std::string, Row>{
      {"clustermanager.v1.ClusterService/GetCluster", {"cluster", "name: 'clusters/$'"}},
      {"credentials.v1.AccessService/TestPermissions",
       {"job", "resource: 'projects/default/jobs/$' permissions: 'jobs.get'"}},
      {"credentials.v1.AuditHeadService/ReportAuditHead", {"chain", "chain: '$' sequence: 1"}},
      {"credentials.v1.DenialService/DeleteDenial",
       {"denied", "spiffe_id: '/person/$' reason: 'r'"}},
      {"credentials.v1.JoinTokenService/CreateJoinToken", {"node", "path: '/node/local/$'"}},
      {"credentials.v1.IdentityService/IssueTaskSvid",
       {"job", "job: 'projects/default/jobs/$' generation: 1 group: 'w'"}},
      {"credentials.v1.ProjectService/CreateProject", {"project", "project_id: '$' project {}"}},
      {"credentials.v1.ProjectService/GetProject", {"project", "name: 'projects/$'"}},
      {"credentials.v1.ProjectService/CreateRoleBinding", {"project", "parent: 'projects/$'"}},
      {"credentials.v1.ProjectService/DeleteRoleBinding",
       {"binding", "name: 'projects/default/roleBindings/$'"}},
      {"credentials.v1.ProjectService/ListRoleBindings", {"project", "parent: 'projects/$'"}},
      {"credentials.v1.PolicyService/DenyIdentity",
       {"denied", "spiffe_id: '/person/$' reason: 'r'"}},
      {"credentials.v1.TokenService/IssueTaskJwt",
       {"job", "job: 'projects/default/jobs/$' generation: 1 group: 'w' audiences: 'a'"}},
      {"dataloader.v1.BundleService/UploadBundle", {"project", "header { parent: 'projects/$' }"}},
      {"dataloader.v1.BundleService/GetBundle", {"bundle", "name: 'projects/default/bundles/$'"}},
      {"dataloader.v1.BundleService/PinBundle",
       {"bundle", "name: 'projects/default/bundles/$' holder: 'h/1'"}},
      {"dataloader.v1.OutputService/OpenOutput",
       {"job", "name: 'projects/default/jobs/$/output' generation: 1"}},
      {"dataloader.v1.OutputService/CommitOutput",
       {"job", "name: 'projects/default/jobs/$/output' generation: 1 checkpoint_step: 1"}},
      {"dataloader.v1.OutputService/GetOutput", {"job", "name: 'projects/default/jobs/$/output'"}},
      {"dataloader.v1.ContentService/ReadManifest",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.ContentService/ReadContent",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.ContentService/UploadOutput",
       {"job", "header { name: 'projects/default/jobs/$/output' generation: 1 }"}},
      {"dataloader.v1.DatasetService/CreateDataset",
       {"dataset", "parent: 'projects/default' dataset_id: '$'"}},
      {"dataloader.v1.DatasetService/GetDataset",
       {"dataset", "name: 'projects/default/datasets/$'"}},
      {"dataloader.v1.DatasetService/ListDatasets", {"project", "parent: 'projects/$'"}},
      {"dataloader.v1.DataLoadService/EnsureDataLoad",
       {"dataset", "dataset: 'projects/default/datasets/$'"}},
      {"dataloader.v1.DataLoadService/GetDataLoad",
       {"load", "name: 'projects/default/dataLoads/$'"}},
      {"dataloader.v1.DataLoadService/ListDataLoads", {"project", "parent: 'projects/$'"}},
      {"dataloader.v1.DataLoadService/WatchDataLoad",
       {"load", "name: 'projects/default/dataLoads/$'"}},
      {"dataloader.v1.DataLoadService/PinVersion",
       {"version", "version: 'projects/default/datasets/$' holder: 'h/1'"}},
      {"dataloader.v1.DataLoadService/ReleasePins", {"uid", "holder: '$/1'"}},
      {"dataloader.v1.PeerService/FindPeers",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.PeerService/CheckReader",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.PeerService/ReadChunkDigests",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.PeerContentService/ReadPeerContent",
       {"version", "content { resource: 'projects/default/datasets/$' holder: 'h/1' }"}},
      {"dataloader.v1.SiteService/ListVersionSites",
       {"version", "version: 'projects/default/datasets/$'"}},
      {"executor.v1.AgentSession/Connect", {"node", "hello { cluster: 'local' node: '$' }"}},
      {"scheduler.v1.CapacityOrderService/CreateCapacityOrder",
       {"order", "order_id: '$' order { cluster: 'clusters/local' }"}},
      {"scheduler.v1.CapacityOrderService/GetCapacityOrder", {"order", "name: 'capacityOrders/$'"}},
      {"scheduler.v1.CapacityOrderService/DeleteCapacityOrder",
       {"order", "name: 'capacityOrders/$'"}},
      {"scheduler.v1.ExecutorSession/Connect", {"cluster", "hello { cluster: '$' }"}},
      {"scheduler.v1.JobService/CreateJob", {"job", "parent: 'projects/default' job_id: '$'"}},
      {"scheduler.v1.JobService/GetJob", {"job", "name: 'projects/default/jobs/$'"}},
      {"scheduler.v1.JobService/ListJobs", {"project", "parent: 'projects/$'"}},
      {"scheduler.v1.JobService/WatchJobs", {"project", "parent: 'projects/$'"}},
      {"scheduler.v1.JobService/UpdateJob",
       {"job", "job { name: 'projects/default/jobs/$' hold: true } update_mask { paths: 'hold' }"}},
      {"scheduler.v1.JobService/CancelJob", {"job", "name: 'projects/default/jobs/$'"}},
      {"scheduler.v1.JobService/ExplainJob", {"job", "name: 'projects/default/jobs/$'"}},
      {"scheduler.v1.JobService/SimulatePlacement", {"project", "parent: 'projects/$'"}},
      {"scheduler.v1.NodeService/GetNode", {"node", "name: 'clusters/local/nodes/$'"}},
      {"scheduler.v1.NodeService/ListNodes", {"cluster", "parent: 'clusters/$'"}},
      {"scheduler.v1.NodeService/WatchNodes", {"cluster", "parent: 'clusters/$'"}},
      {"scheduler.v1.NodeService/CordonNode", {"node", "name: 'clusters/local/nodes/$'"}},
      {"scheduler.v1.NodeService/UncordonNode", {"node", "name: 'clusters/local/nodes/$'"}},
      {"scheduler.v1.NodeService/CreateMaintenanceWindow",
       {"window", "parent: 'clusters/local' maintenance_window_id: '$'"}},
      {"scheduler.v1.NodeService/GetMaintenanceWindow",
       {"window", "name: 'clusters/local/maintenanceWindows/$'"}},
      {"scheduler.v1.NodeService/ListMaintenanceWindows", {"cluster", "parent: 'clusters/$'"}},
      {"scheduler.v1.NodeService/DeleteMaintenanceWindow",
       {"window", "name: 'clusters/local/maintenanceWindows/$'"}},
      {"scheduler.v1.NodeService/WatchDemand", {"cluster", "parent: 'clusters/$'"}},
      {"scheduler.v1.QueueService/CreateQueue", {"queue", "queue_id: '$' queue {}"}},
      {"scheduler.v1.QueueService/UpdateQueue", {"queue", "queue { name: 'queues/$' }"}},
      {"scheduler.v1.QueueService/GetQueue", {"queue", "name: 'queues/$'"}},
      {"scheduler.v1.SimulationService/SimulateChanges", {"project", "parent: 'projects/$'"}},
      {"telemetry.v1.ArchiveService/ArchiveJobs",
       {"archived", "jobs { name: 'projects/default/jobs/$' }"}},
      {"telemetry.v1.ArchiveService/GetArchivedJob",
       {"archived", "name: 'projects/default/jobs/$'"}},
      {"telemetry.v1.ArchiveService/ListArchivedJobs", {"project", "parent: 'projects/$'"}},
      {"telemetry.v1.StreamService/AppendRecords",
       {"job", "stream: 'projects/default/jobs/$/streams/log'"}},
      {"telemetry.v1.StreamService/AppendToStreams",
       {"job", "appends { stream: 'projects/default/jobs/$/streams/log' }"}},
      {"telemetry.v1.StreamService/ReadRecords",
       {"job", "stream: 'projects/default/jobs/$/streams/log'"}},
      {"telemetry.v1.SubscriptionService/CreateSubscription",
       {"subscription", "parent: 'projects/default' subscription_id: '$'"}},
      {"telemetry.v1.SubscriptionService/GetSubscription",
       {"subscription", "name: 'projects/default/subscriptions/$'"}},
      {"telemetry.v1.SubscriptionService/ListSubscriptions", {"project", "parent: 'projects/$'"}},
      {"telemetry.v1.SubscriptionService/DeleteSubscription",
       {"subscription", "name: 'projects/default/subscriptions/$'"}},
      {"telemetry.v1.SubscriptionService/SeekSubscription",
       {"subscription", "name: 'projects/default/subscriptions/$'"}},
      {"telemetry.v1.SubscriptionService/Subscribe",
       {"subscription", "name: 'projects/default/subscriptions/$'"}},
      {"telemetry.v1.SubscriptionService/Acknowledge",
       {"subscription", "name: 'projects/default/subscriptions/$'"}},
      {"telemetry.v1.TaskSessionService/OpenTaskSession",
       {"job", "session { job: 'projects/default/jobs/$' }"}},
  };
  return *kRows;
}

// About the caller itself, the whole platform, or what is only made by the call.
const std::set<std::string>& NameNothing() {
  static const auto* const kMethods = new std::set<std::string>{
      "clustermanager.v1.ClusterService/ListClusters",
      "credentials.v1.AccessService/GetCallerAccess",
      "credentials.v1.AuditHeadService/ExportAuditHeads",
      "credentials.v1.AuditService/GetAuditHead",
      "credentials.v1.AuditService/ListAuditRecords",
      "credentials.v1.DenialService/ListDenials",
      "credentials.v1.IdentityService/GetTrustBundle",
      "credentials.v1.IdentityService/RenewSvid",
      "credentials.v1.JoinService/Join",
      "credentials.v1.PersonService/IssuePersonSvid",
      "credentials.v1.PolicyService/WatchPolicy",
      "credentials.v1.ProjectService/ListProjects",
      "credentials.v1.TokenService/GetJwtBundle",
      "dataloader.v1.PeerService/AnnounceCopies",
      "scheduler.v1.CapacityOrderService/ListCapacityOrders",
      "scheduler.v1.NodeService/ConfirmSilence",
      "scheduler.v1.QueueService/ListQueues",
      "telemetry.v1.ScrapeTargetService/ReportScrapeTarget",
      // By its number, which is no name and is told to nobody else.
      "telemetry.v1.TaskSessionService/AttachTaskSession",
      "telemetry.v1.TaskSessionService/WatchTaskSessions",
  };
  return *kMethods;
}

const Row* Find(const Method& method) {
  const std::string name(absl::StripPrefix(method.path, "/capstan."));
  const auto row = Rows().find(name);
  EXPECT_EQ((row != Rows().end()) + NameNothing().count(name), 1u)
      << name << " is in no table: what does its request name?";
  return row == Rows().end() ? nullptr : &row->second;
}

}  // namespace

std::string NamedThings::KindIn(const Method& method) {
  const Row* const row = Find(method);
  return row == nullptr ? "" : row->kind;
}

std::string NamedThings::WordThere(const Method& method) const {
  const std::string kind = KindIn(method);
  if (kind.empty()) return "";
  const auto word = there_.find(kind);
  EXPECT_NE(word, there_.end()) << "there is no " << kind;
  return word == there_.end() ? "" : word->second;
}

std::string NamedThings::WordAbsent(const Method& method) {
  const std::string kind = KindIn(method);
  if (kind == "version") return "absent/versions/ab01";
  if (kind == "bundle") return std::string(64, '0');
  if (kind == "uid") return "6e0f7d3c-0000-4000-8000-000000000001";
  return kind.empty() ? "" : "absent";
}

std::unique_ptr<google::protobuf::Message> NamedThings::There(const Method& method) const {
  return Request(method, WordThere(method));
}

std::unique_ptr<google::protobuf::Message> NamedThings::Absent(const Method& method) {
  return Request(method, WordAbsent(method));
}

std::unique_ptr<google::protobuf::Message> NamedThings::Request(const Method& method,
                                                                absl::string_view word) {
  std::unique_ptr<google::protobuf::Message> request = RequestOf(method);
  const Row* const row = Find(method);
  if (row == nullptr) return request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrReplaceAll(row->request, {{"$", word}}), request.get()))
      << method.path;
  return request;
}

}  // namespace capstan::integration
