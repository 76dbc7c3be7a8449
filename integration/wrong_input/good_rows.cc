#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "integration/wrong_input/rows.h"

namespace capstan::integration {

std::vector<Row> GoodRows(absl::Time now, const std::string& text) {
  const std::string day = absl::StrCat(absl::ToUnixSeconds(now + absl::Hours(24)));
  const std::string later = absl::StrCat(absl::ToUnixSeconds(now + absl::Hours(25)));
  const std::string id = "1f0d8a52-6c0e-4f7b-9a57-0c8f5d2b7e3";
  constexpr auto kOk = absl::StatusCode::kOk;
  return {
      {"a Job", "scheduler.JobService/CreateJob",
       absl::StrCat(
           "parent: 'projects/default' job_id: 'odd' job { ",
           GoodJob(absl::StrCat("labels { key: 'about' value: '", text,
                                "' } retry { max_restarts: 1 } "),
                   absl::StrCat("name: 'w' replicas: 1 argv: '/bin/sleep' argv: '3600' env { key: "
                                "'ABOUT' value: '",
                                text, "' } resources { cpu_millis: 10 memory_bytes: 33554432 }")),
           " } request_id: '", id, "1'"),
       kOk, "", ""},
      {"its change", "scheduler.JobService/UpdateJob",
       "job { name: 'projects/default/jobs/odd' spec { priority: 7 time_limit { seconds: 7200 } } "
       "} update_mask { paths: 'spec.priority' paths: 'spec.time_limit' }",
       kOk, "", ""},
      {"a Queue", "scheduler.QueueService/CreateQueue",
       absl::StrCat("queue_id: 'odd' queue { weight: 1 quotas { resource: 'cpu' guarantee: 0 "
                    "borrowing_limit { amount: 1000 } } submit_rate { count: 5 period { seconds: "
                    "60 } burst: 5 } } request_id: '",
                    id, "2'"),
       kOk, "", ""},
      {"its change", "scheduler.QueueService/UpdateQueue",
       "queue { name: 'queues/odd' weight: 2 quotas { resource: 'cpu' guarantee: 0 lending_limit { "
       "amount: 1 } } } update_mask { paths: 'weight' paths: 'quotas' }",
       kOk, "", ""},
      {"a window", "scheduler.NodeService/CreateMaintenanceWindow",
       absl::StrCat("parent: 'clusters/local' maintenance_window_id: 'odd' maintenance_window { "
                    "nodes: 'clusters/local/nodes/node-0' start_time { seconds: ",
                    day, " } end_time { seconds: ", later, " } } request_id: '", id, "3'"),
       kOk, "", ""},
      {"an order", "scheduler.CapacityOrderService/CreateCapacityOrder",
       absl::StrCat("order_id: 'odd' order { cluster: 'clusters/local' nodes: 1 job: "
                    "'projects/default/jobs/odd' expire_time { seconds: ",
                    day, " } } request_id: '", id, "4'"),
       kOk, "", ""},
      {"a Project", "credentials.ProjectService/CreateProject",
       absl::StrCat("project_id: 'odd' project { } request_id: '", id, "5'"), kOk, "", ""},
      {"a role", "credentials.ProjectService/CreateRoleBinding",
       absl::StrCat("parent: 'projects/default' role_binding_id: 'odd' role_binding { member: "
                    "'person/4009' role: ROLE_VIEWER } request_id: '",
                    id, "6'"),
       kOk, "", ""},
      {"a denial", "credentials.PolicyService/DenyIdentity", "serial: 'd0d2' reason: 'odd'", kOk,
       "", ""},
      {"a token", "credentials.JoinTokenService/CreateJoinToken",
       "path: '/node/local/odd' ttl { seconds: 60 }", kOk, "", ""},
      {"a Dataset", "dataloader.DatasetService/CreateDataset",
       absl::StrCat("parent: 'projects/default' dataset_id: 'odd' dataset { source_uri: "
                    "'https://odd.example/' objects: 'a' } request_id: '",
                    id, "7'"),
       kOk, "", ""},
      {"a subscription", "telemetry.SubscriptionService/CreateSubscription",
       absl::StrCat("parent: 'projects/default' subscription_id: 'odd' stream: "
                    "'projects/default/jobs/odd/streams/events' request_id: '",
                    id, "8'"),
       kOk, "", ""},
  };
}

}  // namespace capstan::integration
