#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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
      "parent: 'clusters/local' maintenance_window_id: 'wrong' maintenance_window { ", window,
      " }");
}
std::string CreateDataset(const std::string& dataset) {
  return absl::StrCat("parent: 'projects/default' dataset_id: 'wrong' dataset { ", dataset, " }");
}

std::string WithRequestId(const std::string& request) {
  return absl::StrCat(request, " request_id: '", kRequestId, "'");
}

}  // namespace

std::vector<Row> MadeBefore(absl::Time now) {
  constexpr auto kOk = absl::StatusCode::kOk;
  return {
      {"", "scheduler.QueueService/CreateQueue",
       WithRequestId("queue_id: 'made' queue { weight: 1 }"), kOk, "", ""},
      {"", "scheduler.NodeService/CreateMaintenanceWindow",
       WithRequestId(absl::StrCat(
           "parent: 'clusters/local' maintenance_window_id: 'made' maintenance_window { all_nodes: "
           "true start_time { seconds: ",
           absl::ToUnixSeconds(now + absl::Hours(24 * 30)),
           " } end_time { seconds: ", absl::ToUnixSeconds(now + absl::Hours(24 * 31)), " } }")),
       kOk, "", ""},
      {"", "scheduler.CapacityOrderService/CreateCapacityOrder",
       WithRequestId(absl::StrCat("order_id: 'made' order { cluster: 'clusters/local' nodes: 1 "
                                  "job: 'projects/default/jobs/there' expire_time { seconds: ",
                                  absl::ToUnixSeconds(now + absl::Hours(24)), " } }")),
       kOk, "", ""},
      {"", "scheduler.NodeService/CordonNode",
       "name: 'clusters/local/nodes/node-0' reason: 'cordoned by the test'", kOk, "", ""},
      {"", "credentials.ProjectService/CreateProject",
       WithRequestId("project_id: 'made' project { }"), kOk, "", ""},
      {"", "credentials.ProjectService/CreateRoleBinding",
       absl::StrCat("parent: 'projects/default' role_binding_id: 'made' role_binding { member: "
                    "'person/4001' role: ROLE_VIEWER } request_id: '",
                    kOtherRequestId, "'"),
       kOk, "", ""},
      {"", "credentials.PolicyService/DenyIdentity", "serial: 'd0d1' reason: 'made for a test'",
       kOk, "", ""},
      {"", "credentials.JoinTokenService/CreateJoinToken", "path: '/node/local/made'", kOk, "", ""},
      {"", "dataloader.DatasetService/CreateDataset",
       WithRequestId("parent: 'projects/default' dataset_id: 'made' dataset { source_uri: "
                     "'https://made.example/' objects: 'a' }"),
       kOk, "", ""},
      {"", "telemetry.SubscriptionService/CreateSubscription",
       WithRequestId("parent: 'projects/default' subscription_id: 'made' stream: "
                     "'projects/default/jobs/there/streams/log'"),
       kOk, "", ""},
  };
}

std::vector<Row> OtherRows(absl::Time now) {
  const std::string create = "scheduler.QueueService/CreateQueue";
  const std::string update = "scheduler.QueueService/UpdateQueue";
  const std::string maintain = "scheduler.NodeService/CreateMaintenanceWindow";
  const std::string bind = "credentials.ProjectService/CreateRoleBinding";
  const std::string dataset = "dataloader.DatasetService/CreateDataset";
  const std::string subscribe = "telemetry.SubscriptionService/CreateSubscription";
  return {
      {"an upper-case id", create, "queue_id: 'Wrong' queue { weight: 1 }", kInvalid, "queue_id",
       "expected [a-z]"},
      {"a negative weight", create, CreateQueue("weight: -1"), kInvalid, "queue.weight", "-1"},
      {"a weight beyond bounds", create, CreateQueue("weight: 1000000000000"), kInvalid,
       "queue.weight", "expected 1 to 1000000"},
      {"a parent that is no Queue", create, CreateQueue("weight: 1 parent: 'projects/p'"), kInvalid,
       "queue.parent", "queues/"},
      {"a parent that is not there", create, CreateQueue("weight: 1 parent: 'queues/absent'"),
       kInvalid, "queue.parent", "absent"},
      {"itself as the parent", create, CreateQueue("weight: 1 parent: 'queues/wrong'"), kInvalid,
       "queue.parent", "is below itself: wrong -> wrong; expected one that is not"},
      {"a Project that is none", create, CreateQueue("weight: 1 projects: 'Default!'"), kInvalid,
       "queue.projects[0]", "expected projects/{project}"},
      {"two quotas of one resource", create,
       CreateQueue("weight: 1 quotas { resource: 'cpu' } quotas { resource: 'cpu' }"), kInvalid,
       "queue.quotas[1].resource", "already"},
      {"a quota of nothing", create,
       CreateQueue("weight: 1 quotas { resource: 'Good luck' guarantee: 1 }"), kInvalid,
       "queue.quotas[0].resource", "Good luck"},
      {"a half-life of a second", create, CreateQueue("weight: 1 usage_half_life { seconds: 1 }"),
       kInvalid, "queue.usage_half_life", "expected 1m to 8784h, or 0"},
      {"a rate without a count", create, CreateQueue("weight: 1 submit_rate { }"), kInvalid,
       "queue.submit_rate.count", "expected 1 to"},
      {"a negative rate", create,
       CreateQueue("weight: 1 start_rate { count: -1 period { seconds: 1 } }"), kInvalid,
       "queue.start_rate.count", "-1"},
      {"a budget of nothing", create,
       CreateQueue("weight: 1 disruption_budget { period { seconds: 86400 } }"), kInvalid,
       "queue.disruption_budget.count", "0"},
      {"a budget of a second", create,
       CreateQueue("weight: 1 disruption_budget { count: 1 period { seconds: 1 } }"), kInvalid,
       "queue.disruption_budget.period", "1s"},
      {"a negative runtime", create, CreateQueue("weight: 1 min_runtime { seconds: -1 }"), kInvalid,
       "queue.min_runtime", "expected 0 to 168h"},
      {"a Queue that is there", create, "queue_id: 'default' queue { weight: 1 }", kExists, "",
       "default"},
      {"a request id with another body", create,
       WithRequestId("queue_id: 'other' queue { weight: 1 }"), kExists, "", "use a fresh UUID"},
      {"a request id with another weight", create,
       WithRequestId("queue_id: 'made' queue { weight: 2 }"), kExists, "", "use a fresh UUID"},
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
       kInvalid, "queue.parent", "leave this as it is"},
      {"a bare name", "scheduler.QueueService/GetQueue", "name: 'default'", kInvalid, "name",
       "expected queues/{queue}"},
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
       "name: 'clusters/local/maintenanceWindows/absent'", kNotFound, "",
       "'clusters/local/maintenanceWindows/absent' was not found"},
      {"a request id with another body", maintain,
       WithRequestId("parent: 'clusters/local' maintenance_window_id: 'other' maintenance_window { "
                     "all_nodes: true end_time { seconds: 4000000000 } }"),
       kExists, "", "use a fresh UUID"},
      {"a stale etag", "scheduler.NodeService/DeleteMaintenanceWindow",
       "name: 'clusters/local/maintenanceWindows/made' etag: '\"0000000000000000\"'", kAborted, "",
       "read it again"},
      {"an etag that is none", "scheduler.NodeService/DeleteMaintenanceWindow",
       "name: 'clusters/local/maintenanceWindows/made' etag: '0000000000000000'", kInvalid, "etag",
       "with its quotes"},
      {"a Node that is not there", "scheduler.NodeService/CordonNode",
       "name: 'clusters/local/nodes/absent' reason: 'r'", kNotFound, "", "absent"},
      {"a reason too long", "scheduler.NodeService/CordonNode",
       "name: 'clusters/local/nodes/node-0' reason: '" + std::string(5000, 'x') + "'", kInvalid,
       "reason", "expected at most 256"},
      {"Nodes of no Cluster", "scheduler.NodeService/ListNodes", "parent: 'local'", kInvalid,
       "parent", "clusters/"},
      {"demand of no Cluster", "scheduler.NodeService/WatchDemand", "parent: 'local'", kInvalid,
       "parent", "clusters/"},
      {"demand of all without saying so", "scheduler.NodeService/WatchDemand", "", kInvalid,
       "parent", "clusters/-"},
      {"an order of no Nodes", "scheduler.CapacityOrderService/CreateCapacityOrder",
       "order_id: 'more' order { cluster: 'clusters/local' job: 'projects/default/jobs/there' "
       "expire_time { seconds: 4000000000 } }",
       kInvalid, "order.nodes", "1 to"},
      {"an order for nobody", "scheduler.CapacityOrderService/CreateCapacityOrder",
       "order_id: 'more' order { cluster: 'clusters/local' nodes: 1 "
       "expire_time { seconds: 4000000000 } }",
       kInvalid, "order.job", "one of them"},
      {"an order without an end", "scheduler.CapacityOrderService/CreateCapacityOrder",
       "order_id: 'more' order { cluster: 'clusters/local' nodes: 1 "
       "job: 'projects/default/jobs/there' }",
       kInvalid, "order.expire_time", "7 days"},
      {"an order that holds room for years", "scheduler.CapacityOrderService/CreateCapacityOrder",
       "order_id: 'more' order { cluster: 'clusters/local' nodes: 1 "
       "job: 'projects/default/jobs/there' expire_time { seconds: 4000000000 } }",
       kInvalid, "order.expire_time", "7 days"},
      {"an order for a class that is none", "scheduler.CapacityOrderService/CreateCapacityOrder",
       "order_id: 'more' order { cluster: 'clusters/local' nodes: 1 demand_class: 'h100' "
       "expire_time { seconds: 4000000000 } }",
       kInvalid, "order.demand_class", "node demand"},
      {"a bare order", "scheduler.CapacityOrderService/GetCapacityOrder", "name: 'more'", kInvalid,
       "name", "capacityOrders/"},
      {"a request id with another body", "scheduler.CapacityOrderService/CreateCapacityOrder",
       WithRequestId(absl::StrCat("order_id: 'more' order { cluster: 'clusters/local' nodes: 1 "
                                  "job: 'projects/default/jobs/there' expire_time { seconds: ",
                                  absl::ToUnixSeconds(now + absl::Hours(24)), " } }")),
       kExists, "", "use a fresh UUID"},
      {"an order that is not there", "scheduler.CapacityOrderService/DeleteCapacityOrder",
       "name: 'capacityOrders/absent'", kNotFound, "", "absent"},
      {"a page token of another list of orders",
       "scheduler.CapacityOrderService/ListCapacityOrders",
       "page_token: 'AAAAAAAAAAAAAAAAAAAAAAAA'", kInvalid, "page_token", "begin again"},
      {"a bare Cluster", "clustermanager.ClusterService/GetCluster", "name: 'local'", kInvalid,
       "name", "clusters/"},
      {"a Cluster that is not there", "clustermanager.ClusterService/GetCluster",
       "name: 'clusters/absent'", kNotFound, "", "absent"},
      {"an upper-case id", "credentials.ProjectService/CreateProject",
       "project_id: 'Wrong' project { }", kInvalid, "project_id", "expected 1 to 63"},
      {"no Project", "credentials.ProjectService/CreateProject", "project_id: 'wrong'", kInvalid,
       "project", "required"},
      {"a name too long", "credentials.ProjectService/CreateProject",
       "project_id: 'wrong' project { display_name: '" + std::string(64, 'n') + "' }", kInvalid,
       "project.display_name", "63"},
      {"a Project that is there", "credentials.ProjectService/CreateProject",
       "project_id: 'default' project { }", kExists, "", "default"},
      {"a request id with another body", "credentials.ProjectService/CreateProject",
       WithRequestId("project_id: 'other' project { }"), kExists, "", "use a fresh UUID"},
      {"a request id of another method", bind,
       WithRequestId("parent: 'projects/default' role_binding_id: 'other' role_binding { member: "
                     "'person/1' role: ROLE_VIEWER }"),
       kExists, "", "use a fresh UUID"},
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
       kInvalid, "role_binding.role", "expected ROLE_ADMIN"},
      {"an unknown role", bind,
       "parent: 'projects/default' role_binding_id: 'wrong' role_binding { member: 'person/1' "
       "role: 99 }",
       kInvalid, "role_binding.role", "expected ROLE_ADMIN"},
      {"a binding in a Project that is not there", bind,
       "parent: 'projects/absent' role_binding_id: 'wrong' role_binding { member: 'person/1' role: "
       "ROLE_VIEWER }",
       kNotFound, "", "absent"},
      {"a request id with another body", bind,
       absl::StrCat("parent: 'projects/default' role_binding_id: 'other' role_binding { member: "
                    "'person/1' role: ROLE_VIEWER } request_id: '",
                    kOtherRequestId, "'"),
       kExists, "", "use a fresh UUID"},
      {"a binding that is not there", "credentials.ProjectService/DeleteRoleBinding",
       "name: 'projects/default/roleBindings/absent'", kNotFound, "", "absent"},
      {"a path that is no identity", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/root'", kInvalid, "path", "/root"},
      {"credentials' own identity", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/svc/credentials'", kInvalid, "path", "credentials"},
      {"a token for a year", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/node/local/n9' ttl { seconds: 31536000 }", kInvalid, "ttl",
       "expected more than 0 and at most 24h"},
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
       "expected one such as"},
      {"a source that is no URI", dataset, CreateDataset("source_uri: 'somewhere'"), kInvalid,
       "dataset.source_uri", "expected file:///"},
      {"a scheme that there is not", dataset, CreateDataset("source_uri: 'gopher://h/x'"), kInvalid,
       "dataset.source_uri", "gopher"},
      {"a source that climbs", dataset, CreateDataset("source_uri: 'file:///srv/../etc'"), kInvalid,
       "dataset.source_uri", "expected a path without"},
      {"a URI with a password", dataset,
       CreateDataset("source_uri: 'https://u:p@host/x' objects: 'a'"), kInvalid,
       "dataset.source_uri", "without user, password"},
      {"an object that climbs", dataset,
       CreateDataset("source_uri: 'https://host/x/' objects: '../a'"), kInvalid,
       "dataset.objects[0]", "expected a path without"},
      {"two objects of one name", dataset,
       CreateDataset("source_uri: 'https://host/x/' objects: 'a' objects: 'a'"), kInvalid,
       "dataset.objects", "expected each once"},
      {"a request id with another body", dataset,
       WithRequestId("parent: 'projects/default' dataset_id: 'other' dataset { source_uri: "
                     "'https://made.example/' objects: 'a' }"),
       kExists, "", "use a fresh UUID"},
      {"a load of what is not there", "dataloader.DataLoadService/EnsureDataLoad",
       "dataset: 'projects/default/datasets/absent'", kNotFound, "", "absent"},
      {"a bare Dataset", "dataloader.DatasetService/GetDataset", "name: 'd'", kInvalid, "name",
       "projects/"},
      {"a Version that is none", "dataloader.SiteService/ListVersionSites",
       "version: 'projects/default/datasets/d'", kInvalid, "version",
       "is not of the form projects/{project}/datasets/{dataset}/versions/"},
      {"a Bundle that is none", "dataloader.BundleService/GetBundle", "name: 'bundles/xyz'",
       kInvalid, "name", "is not of the form projects/{project}/bundles/"},
      {"an Output that is none", "dataloader.OutputService/GetOutput", "name: 'outputs/x'",
       kInvalid, "name", "is not of the form projects/{project}/jobs/{job}/output"},
      {"an upper-case id", subscribe,
       "parent: 'projects/default' subscription_id: 'Wrong' stream: "
       "'projects/default/jobs/there/log'",
       kInvalid, "subscription_id", "expected 1 to 63"},
      {"a Stream of another Project", subscribe,
       "parent: 'projects/default' subscription_id: 'wrong' stream: 'projects/other/jobs/j/log'",
       kInvalid, "stream", "expected a Stream of projects/default"},
      {"an unknown position", subscribe,
       "parent: 'projects/default' subscription_id: 'wrong' stream: "
       "'projects/default/jobs/there/log' position: 9",
       kInvalid, "position", "9"},
      {"a request id with another body", subscribe,
       WithRequestId("parent: 'projects/default' subscription_id: 'made' stream: "
                     "'projects/default/jobs/there/streams/events'"),
       kExists, "", "reads projects/default/jobs/there/streams/log"},
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
       "stream: 'projects/default/jobs/there/secrets'", kInvalid, "stream", "expected"},
      {"a negative offset", "telemetry.StreamService/ReadRecords",
       "stream: 'projects/default/jobs/there/log' start_offset: -1", kInvalid, "start_offset",
       "negative"},
      {"a tail and an offset", "telemetry.StreamService/ReadRecords",
       "stream: 'projects/default/jobs/there/log' start_offset: 1 tail: 1", kInvalid, "tail",
       "combined"},
      {"a session with no Task", "telemetry.TaskSessionService/OpenTaskSession",
       "session { job: 'projects/default/jobs/there' node: 'clusters/local/nodes/node-0' command { "
       "argv: 'true' } }",
       kInvalid, "session.task", "expected job_uid"},
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
