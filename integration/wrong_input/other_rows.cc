#include "absl/strings/str_cat.h"
#include "integration/wrong_input/rows.h"

namespace capstan::integration {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kExists = absl::StatusCode::kAlreadyExists;
constexpr auto kAborted = absl::StatusCode::kAborted;

std::string CreateQueue(const std::string& queue) {
  return absl::StrCat("queue_id: 'wrong' queue { ", queue, " }");
}
std::string CreateWindow(const std::string& window) {
  return absl::StrCat(
      "parent: 'clusters/local' maintenance_window_id: 'wrong' maintenance_window { ", window, " }");
}
std::string CreateDataset(const std::string& dataset) {
  return absl::StrCat("parent: 'projects/default' dataset_id: 'wrong' dataset { ", dataset, " }");
}

}  // namespace

std::vector<Row> OtherRows() {
  const std::string create = "scheduler.QueueService/CreateQueue";
  const std::string update = "scheduler.QueueService/UpdateQueue";
  const std::string maintain = "scheduler.NodeService/CreateMaintenanceWindow";
  const std::string bind = "credentials.ProjectService/CreateRoleBinding";
  const std::string dataset = "dataloader.DatasetService/CreateDataset";
  const std::string subscribe = "telemetry.SubscriptionService/CreateSubscription";
  return {
      {"an upper-case id", create, "queue_id: 'Wrong' queue { weight: 1 }", kInvalid, "queue_id",
       ""},
      {"a negative weight", create, CreateQueue("weight: -1"), kInvalid, "queue.weight", "-1"},
      {"a weight beyond bounds", create, CreateQueue("weight: 1000000000000"), kInvalid,
       "queue.weight", ""},
      {"a parent that is no Queue", create, CreateQueue("weight: 1 parent: 'projects/p'"), kInvalid,
       "queue.parent", "queues/"},
      {"a parent that is not there", create, CreateQueue("weight: 1 parent: 'queues/absent'"),
       kInvalid, "queue.parent", "absent"},
      {"itself as the parent", create, CreateQueue("weight: 1 parent: 'queues/wrong'"), kInvalid,
       "queue.parent", ""},
      {"a Project that is none", create, CreateQueue("weight: 1 projects: 'Default!'"), kInvalid,
       "queue.projects[0]", ""},
      {"two quotas of one resource", create,
       CreateQueue("weight: 1 quotas { resource: 'cpu' } quotas { resource: 'cpu' }"), kInvalid,
       "queue.quotas[1].resource", "already"},
      {"a quota of nothing", create,
       CreateQueue("weight: 1 quotas { resource: 'Good luck' guarantee: 1 }"), kInvalid,
       "queue.quotas[0].resource", "Good luck"},
      {"a half-life of a second", create, CreateQueue("weight: 1 usage_half_life { seconds: 1 }"),
       kInvalid, "queue.usage_half_life", ""},
      {"a rate without a count", create, CreateQueue("weight: 1 submit_rate { }"), kInvalid,
       "queue.submit_rate.count", ""},
      {"a negative rate", create,
       CreateQueue("weight: 1 start_rate { count: -1 period { seconds: 1 } }"), kInvalid,
       "queue.start_rate.count", "-1"},
      {"a negative runtime", create, CreateQueue("weight: 1 min_runtime { seconds: -1 }"), kInvalid,
       "queue.min_runtime", ""},
      {"a Queue that is there", create, "queue_id: 'default' queue { weight: 1 }", kExists, "",
       "default"},
      {"no mask", update, "queue { name: 'queues/default' weight: 2 }", kInvalid, "update_mask",
       "is empty"},
      {"a mask of an unknown field", update,
       "queue { name: 'queues/default' } update_mask { paths: 'colour' }", kInvalid, "update_mask",
       "colour"},
      {"a bare name", update, "queue { name: 'default' weight: 2 } update_mask { paths: 'weight' }",
       kInvalid, "queue.name", "queues/"},
      {"a Queue that is not there", update,
       "queue { name: 'queues/absent' weight: 2 } update_mask { paths: 'weight' }", kNotFound, "",
       "absent"},
      {"a stale etag", update,
       "queue { name: 'queues/default' weight: 2 etag: '\"0000000000000000\"' } update_mask { "
       "paths: 'weight' }",
       kAborted, "", "read it again"},
      {"a cycle", update,
       "queue { name: 'queues/upper' parent: 'queues/lower' } update_mask { paths: 'parent' }",
       kInvalid, "", ""},
      {"a bare name", "scheduler.QueueService/GetQueue", "name: 'default'", kInvalid, "name", ""},
      {"a page token of another list", "scheduler.QueueService/ListQueues",
       "page_token: 'AAAAAAAAAAAAAAAAAAAAAAAA'", kInvalid, "page_token", "begin again"},
      {"a bare Node", "scheduler.NodeService/GetNode", "name: 'node-0'", kInvalid, "name",
       "clusters/"},
      {"a window of no Nodes", maintain, CreateWindow("end_time { seconds: 4000000000 }"), kInvalid,
       "maintenance_window.nodes", "all_nodes"},
      {"a window without an end", maintain, CreateWindow("all_nodes: true"), kInvalid,
       "maintenance_window.end_time", "is not set"},
      {"a window that ends before it begins", maintain,
       CreateWindow("all_nodes: true start_time { seconds: 4000000000 } end_time { seconds: 1 }"),
       kInvalid, "maintenance_window.end_time", "after start_time"},
      {"a window that is over", maintain, CreateWindow("all_nodes: true end_time { seconds: 1 }"),
       kInvalid, "maintenance_window.end_time", "after now"},
      {"a window of a Node that is not there", maintain,
       CreateWindow("nodes: 'clusters/local/nodes/absent' end_time { seconds: 4000000000 }"),
       kInvalid, "maintenance_window.nodes[0]", "absent"},
      {"a window of another Cluster's Node", maintain,
       CreateWindow("nodes: 'clusters/other/nodes/n' end_time { seconds: 4000000000 }"), kInvalid,
       "maintenance_window.nodes[0]", "clusters/local/nodes/"},
      {"a window in a Cluster that is not there", maintain,
       "parent: 'clusters/absent' maintenance_window_id: 'wrong' maintenance_window { all_nodes: "
       "true end_time { seconds: 4000000000 } }",
       kInvalid, "parent", "absent"},
      {"a window that is not there", "scheduler.NodeService/DeleteMaintenanceWindow",
       "name: 'clusters/local/maintenanceWindows/absent'", kNotFound, "", ""},
      {"a Node that is not there", "scheduler.NodeService/CordonNode",
       "name: 'clusters/local/nodes/absent' reason: 'r'", kNotFound, "", "absent"},
      {"a reason too long", "scheduler.NodeService/CordonNode",
       "name: 'clusters/local/nodes/node-0' reason: '" + std::string(5000, 'x') + "'", kInvalid,
       "reason", ""},
      {"Nodes of no Cluster", "scheduler.NodeService/ListNodes", "parent: 'local'", kInvalid,
       "parent", "clusters/"},
      {"demand of no Cluster", "scheduler.NodeService/WatchDemand", "parent: 'local'", kInvalid,
       "parent", "clusters/"},
      {"demand of all without saying so", "scheduler.NodeService/WatchDemand", "", kInvalid,
       "parent", "clusters/-"},
      {"a bare Cluster", "clustermanager.ClusterService/GetCluster", "name: 'local'", kInvalid,
       "name", "clusters/"},
      {"a Cluster that is not there", "clustermanager.ClusterService/GetCluster",
       "name: 'clusters/absent'", kNotFound, "", "absent"},
      {"an upper-case id", "credentials.ProjectService/CreateProject",
       "project_id: 'Wrong' project { }", kInvalid, "project_id", ""},
      {"no Project", "credentials.ProjectService/CreateProject", "project_id: 'wrong'", kInvalid,
       "project", "required"},
      {"a name too long", "credentials.ProjectService/CreateProject",
       "project_id: 'wrong' project { display_name: '" + std::string(64, 'n') + "' }", kInvalid,
       "project.display_name", "63"},
      {"a Project that is there", "credentials.ProjectService/CreateProject",
       "project_id: 'default' project { }", kExists, "", "default"},
      {"a bare name", "credentials.ProjectService/GetProject", "name: 'default'", kInvalid, "name",
       "projects/"},
      {"a parent that is none", bind,
       "parent: 'queues/q' role_binding_id: 'wrong' role_binding { member: 'person/1' role: "
       "ROLE_VIEWER }",
       kInvalid, "parent", "projects/"},
      {"a member who is nobody", bind,
       "parent: 'projects/default' role_binding_id: 'wrong' role_binding { member: 'alice' role: "
       "ROLE_VIEWER }",
       kInvalid, "role_binding.member", "person/"},
      {"no role", bind,
       "parent: 'projects/default' role_binding_id: 'wrong' role_binding { member: 'person/1' }",
       kInvalid, "role_binding.role", ""},
      {"an unknown role", bind,
       "parent: 'projects/default' role_binding_id: 'wrong' role_binding { member: 'person/1' "
       "role: 99 }",
       kInvalid, "role_binding.role", ""},
      {"a binding in a Project that is not there", bind,
       "parent: 'projects/absent' role_binding_id: 'wrong' role_binding { member: 'person/1' role: "
       "ROLE_VIEWER }",
       kNotFound, "", "absent"},
      {"a binding that is not there", "credentials.ProjectService/DeleteRoleBinding",
       "name: 'projects/default/roleBindings/absent'", kNotFound, "", "absent"},
      {"a path that is no identity", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/root'", kInvalid, "path", "/root"},
      {"credentials' own identity", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/svc/credentials'", kInvalid, "path", "credentials"},
      {"a token for a year", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/node/local/n9' ttl { seconds: 31536000 }", kInvalid, "ttl", ""},
      {"nobody to deny", "credentials.PolicyService/DenyIdentity", "reason: 'r'", kInvalid,
       "spiffe_id", "exactly one"},
      {"a serial that is none", "credentials.PolicyService/DenyIdentity",
       "serial: 'XYZ' reason: 'r'", kInvalid, "serial", "hex"},
      {"no reason", "credentials.PolicyService/DenyIdentity", "serial: 'ab12'", kInvalid, "reason",
       "required"},
      {"a negative sequence", "credentials.AuditService/ListAuditRecords", "start_sequence: -1",
       kInvalid, "start_sequence", "negative"},
      {"no permissions", "credentials.AccessService/TestPermissions",
       "resource: 'projects/default'", kInvalid, "permissions", "found 0"},
      {"a permission that is none", "credentials.AccessService/TestPermissions",
       "resource: 'projects/default' permissions: 'jobs.frobnicate'", kInvalid, "permissions[0]",
       ""},
      {"a source that is no URI", dataset, CreateDataset("source_uri: 'somewhere'"), kInvalid,
       "dataset.source_uri", ""},
      {"a scheme that there is not", dataset, CreateDataset("source_uri: 'gopher://h/x'"), kInvalid,
       "dataset.source_uri", "gopher"},
      {"a source that climbs", dataset, CreateDataset("source_uri: 'file:///srv/../etc'"), kInvalid,
       "dataset.source_uri", ""},
      {"a URI with a password", dataset,
       CreateDataset("source_uri: 'https://u:p@host/x' objects: 'a'"), kInvalid,
       "dataset.source_uri", ""},
      {"an object that climbs", dataset,
       CreateDataset("source_uri: 'https://host/x/' objects: '../a'"), kInvalid,
       "dataset.objects[0]", ""},
      {"two objects of one name", dataset,
       CreateDataset("source_uri: 'https://host/x/' objects: 'a' objects: 'a'"), kInvalid,
       "dataset.objects", ""},
      {"a load of what is not there", "dataloader.DataLoadService/EnsureDataLoad",
       "dataset: 'projects/default/datasets/absent'", kNotFound, "", "absent"},
      {"a bare Dataset", "dataloader.DatasetService/GetDataset", "name: 'd'", kInvalid, "name",
       "projects/"},
      {"a Version that is none", "dataloader.SiteService/ListVersionSites",
       "version: 'projects/default/datasets/d'", kInvalid, "version", ""},
      {"a Bundle that is none", "dataloader.BundleService/GetBundle", "name: 'bundles/xyz'",
       kInvalid, "name", ""},
      {"an Output that is none", "dataloader.OutputService/GetOutput", "name: 'outputs/x'",
       kInvalid, "name", ""},
      {"an upper-case id", subscribe,
       "parent: 'projects/default' subscription_id: 'Wrong' stream: "
       "'projects/default/jobs/there/log'",
       kInvalid, "subscription_id", ""},
      {"a Stream of another Project", subscribe,
       "parent: 'projects/default' subscription_id: 'wrong' stream: 'projects/other/jobs/j/log'",
       kInvalid, "stream", ""},
      {"an unknown position", subscribe,
       "parent: 'projects/default' subscription_id: 'wrong' stream: "
       "'projects/default/jobs/there/log' position: 9",
       kInvalid, "position", "9"},
      {"a Subscription that is not there", "telemetry.SubscriptionService/Acknowledge",
       "name: 'projects/default/subscriptions/absent' reader_generation: 1 offset: 1", kNotFound,
       "", "absent"},
      {"an offset below all", "telemetry.SubscriptionService/Acknowledge",
       "name: 'projects/default/subscriptions/s' reader_generation: 1 offset: -1", kInvalid,
       "offset", "-1"},
      {"two places to seek to", "telemetry.SubscriptionService/SeekSubscription",
       "name: 'projects/default/subscriptions/s' position: CURSOR_POSITION_OLDEST next_offset: 3",
       kInvalid, "next_offset", "combined"},
      {"a Stream that is none", "telemetry.StreamService/ReadRecords",
       "stream: 'projects/default/jobs/there/secrets'", kInvalid, "stream", ""},
      {"a negative offset", "telemetry.StreamService/ReadRecords",
       "stream: 'projects/default/jobs/there/log' start_offset: -1", kInvalid, "start_offset",
       "negative"},
      {"a tail and an offset", "telemetry.StreamService/ReadRecords",
       "stream: 'projects/default/jobs/there/log' start_offset: 1 tail: 1", kInvalid, "tail",
       "combined"},
      {"a session with no Task", "telemetry.TaskSessionService/OpenTaskSession",
       "session { job: 'projects/default/jobs/there' node: 'clusters/local/nodes/node-0' command { "
       "argv: 'true' } }",
       kInvalid, "session.task", ""},
      {"a session with port 0", "telemetry.TaskSessionService/OpenTaskSession",
       "session { job: 'projects/default/jobs/there' node: 'clusters/local/nodes/node-0' task { "
       "job_uid: '3b241101-e2bb-4255-8caf-4136c566a962' generation: 1 group: 'w' } ports { ports: "
       "0 } }",
       kInvalid, "session.ports.ports", "1 to 65535"},
      {"an archive's filter that is none", "telemetry.ArchiveService/ListArchivedJobs",
       "parent: 'projects/default' filter: 'colour=red'", kInvalid, "filter", "colour"},
  };
}

}  // namespace capstan::integration
