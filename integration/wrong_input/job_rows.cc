#include "absl/strings/str_cat.h"
#include "integration/wrong_input/rows.h"

namespace capstan::integration {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kExists = absl::StatusCode::kAlreadyExists;
constexpr auto kAborted = absl::StatusCode::kAborted;

std::string CreateJob(const std::string& job, const std::string& more = "") {
  return absl::StrCat("parent: 'projects/default' job_id: 'wrong' job { ", job, " } ", more);
}
std::string Group(const std::string& changed) {
  return absl::StrCat("argv: '/bin/true' resources { cpu_millis: 10 memory_bytes: 33554432 } ",
                      changed);
}
std::string WithGroup(const std::string& changed) { return CreateJob(GoodJob("", Group(changed))); }
std::string WithResources(const std::string& resources) {
  return CreateJob(GoodJob(
      "", absl::StrCat("name: 'w' replicas: 1 argv: '/bin/true' resources { ", resources, " }")));
}
std::string WithSpec(const std::string& spec) { return CreateJob(GoodJob(spec)); }
std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

}  // namespace

std::string GoodJob(const std::string& spec, const std::string& group) {
  return absl::StrCat("spec { ", group.empty() ? "" : absl::StrCat("task_groups { ", group, " } "),
                      spec, " }");
}
std::vector<Row> JobRows() {
  const std::string create = "scheduler.JobService/CreateJob";
  const std::string name = "job.spec.task_groups[0].";
  const std::string simulate = "scheduler.JobService/SimulatePlacement";
  const std::string simulated =
      absl::StrCat("jobs { task_groups { name: 'w' replicas: 1 ", Group(""), " } } ");
  return {
      {"no parent", create, "job_id: 'wrong' job { " + GoodJob() + " }", kInvalid, "parent", ""},
      {"a bare parent", create, "parent: 'default' job { " + GoodJob() + " }", kInvalid, "parent",
       ""},
      {"an upper-case parent", create, "parent: 'projects/Default' job { " + GoodJob() + " }",
       kInvalid, "parent", ""},
      {"a Project that is not there", create, "parent: 'projects/absent' job { " + GoodJob() + " }",
       kNotFound, "", "There is no Project 'absent'"},
      {"a Job as the parent", create, "parent: 'projects/default/jobs/x' job { " + GoodJob() + " }",
       kInvalid, "parent", ""},
      {"an upper-case id", create,
       "parent: 'projects/default' job_id: 'Wrong' job { " + GoodJob() + " }", kInvalid, "job_id",
       "Wrong"},
      {"an id too long", create,
       "parent: 'projects/default' job_id: '" + std::string(64, 'a') + "' job { " + GoodJob() +
           " }",
       kInvalid, "job_id", "63"},
      {"an id of two parts", create,
       "parent: 'projects/default' job_id: 'a/b' job { " + GoodJob() + " }", kInvalid, "job_id",
       "a/b"},
      {"an id that climbs", create,
       "parent: 'projects/default' job_id: '..' job { " + GoodJob() + " }", kInvalid, "job_id", ""},
      {"an id beyond ASCII", create,
       "parent: 'projects/default' job_id: 'arbeit-\\303\\274' job { " + GoodJob() + " }", kInvalid,
       "job_id", ""},
      {"a request id that is no UUID", create, CreateJob(GoodJob(), "request_id: 'again'"),
       kInvalid, "request_id", "UUID4"},
      {"a request id of another version", create,
       CreateJob(GoodJob(), "request_id: '3b241101-e2bb-1255-8caf-4136c566a962'"), kInvalid,
       "request_id", "UUID4"},
      {"no groups", create, CreateJob(GoodJob("", "")), kInvalid, "job.spec.task_groups", "1 to"},
      {"too many groups", create,
       CreateJob(
           GoodJob(Times(65, "task_groups { name: 'g' replicas: 1 argv: '/bin/true' } "), "")),
       kInvalid, "job.spec.task_groups", "65"},
      {"two groups of one name", create,
       CreateJob(GoodJob("task_groups { name: 'w' replicas: 1 argv: '/bin/true' }")), kInvalid,
       "job.spec.task_groups[1].name", ""},
      {"a group without a name", create, WithGroup("replicas: 1"), kInvalid, name + "name", ""},
      {"a group's name with a blank", create, WithGroup("name: 'a b' replicas: 1"), kInvalid,
       name + "name", ""},
      {"no replicas", create, WithGroup("name: 'w'"), kInvalid, name + "replicas", "is 0"},
      {"negative replicas", create, WithGroup("name: 'w' replicas: -1"), kInvalid,
       name + "replicas", "is -1"},
      {"replicas beyond all fleets", create, WithGroup("name: 'w' replicas: 2000000000"), kInvalid,
       name + "replicas", "2000000000"},
      {"growth, which there is not yet", create, WithGroup("name: 'w' replicas: 4 min_replicas: 2"),
       kInvalid, name + "min_replicas", "leave it out"},
      {"no program", create,
       CreateJob(GoodJob(
           "", "name: 'w' replicas: 1 resources { cpu_millis: 10 memory_bytes: 33554432 }")),
       kInvalid, name + "argv", "a program"},
      {"an empty program", create, CreateJob(GoodJob("", "name: 'w' replicas: 1 argv: ''")),
       kInvalid, name + "argv[0]", ""},
      {"a program that climbs out", create,
       CreateJob(GoodJob("", "name: 'w' replicas: 1 argv: './../../bin/sh'")), kInvalid,
       name + "argv[0]", ""},
      {"an argument with a NUL", create,
       CreateJob(GoodJob("", "name: 'w' replicas: 1 argv: '/bin/true' argv: 'a\\000b'")), kInvalid,
       name + "argv[1]", "NUL"},
      {"an argument too long", create,
       CreateJob(GoodJob("", "name: 'w' replicas: 1 argv: '/bin/true' argv: '" +
                                 std::string(140'000, 'x') + "'")),
       kInvalid, name + "argv[1]", "longer than"},
      {"a variable without a name", create,
       WithGroup("name: 'w' replicas: 1 env { key: '' value: 'x' }"), kInvalid, name + "env[]",
       "name"},
      {"a variable with an equals sign", create,
       WithGroup("name: 'w' replicas: 1 env { key: 'A=B' value: 'x' }"), kInvalid,
       name + "env[A=B]", "name"},
      {"a variable of the platform's", create,
       WithGroup("name: 'w' replicas: 1 env { key: 'CAPSTAN_RANK' value: '0' }"), kInvalid,
       name + "env[CAPSTAN_RANK]", "choose another"},
      {"a value with a NUL", create,
       WithGroup("name: 'w' replicas: 1 env { key: 'A' value: '\\000' }"), kInvalid,
       name + "env[A]", "NUL"},
      {"negative CPU", create, WithResources("cpu_millis: -1 memory_bytes: 33554432"), kInvalid,
       name + "resources.cpu_millis", "-1"},
      {"negative memory", create, WithResources("cpu_millis: 10 memory_bytes: -1"), kInvalid,
       name + "resources.memory_bytes", "-1"},
      {"memory beyond all machines", create,
       WithResources("cpu_millis: 10 memory_bytes: 9223372036854775807"), kInvalid,
       name + "resources.memory_bytes", ""},
      {"CPU beyond all machines", create,
       WithResources("cpu_millis: 9223372036854775807 memory_bytes: 33554432"), kInvalid,
       name + "resources.cpu_millis", ""},
      {"a negative count of devices", create,
       WithResources("cpu_millis: 10 memory_bytes: 33554432 accelerators { key: 'nvidia.com/h100' "
                     "value: -8 }"),
       kInvalid, name + "resources.accelerators[nvidia.com/h100]", "-8"},
      {"a device's name with blanks", create,
       WithResources(
           "cpu_millis: 10 memory_bytes: 33554432 accelerators { key: 'H 100' value: 8 }"),
       kInvalid, name + "resources.accelerators[H 100]", "device name"},
      {"a bare Queue", create, WithSpec("queue: 'default'"), kInvalid, "job.spec.queue", "queues/"},
      {"a Queue that is not there", create, WithSpec("queue: 'queues/absent'"), kInvalid,
       "job.spec.queue", "capstan queue list"},
      {"a priority out of range", create, WithSpec("priority: 2000000000"), kInvalid,
       "job.spec.priority", "2000000000"},
      {"a negative priority out of range", create, WithSpec("priority: -2000000000"), kInvalid,
       "job.spec.priority", ""},
      {"a negative time limit", create, WithSpec("time_limit { seconds: -1 }"), kInvalid,
       "job.spec.time_limit", ""},
      {"a time limit of a century", create, WithSpec("time_limit { seconds: 3153600000 }"),
       kInvalid, "job.spec.time_limit", ""},
      {"a duration of two signs", create, WithSpec("time_limit { seconds: 60 nanos: -1 }"),
       kInvalid, "job.spec.time_limit", ""},
      {"a fence that is too short", create, WithSpec("fence_after { nanos: 1 }"), kInvalid,
       "job.spec.fence_after", ""},
      {"a negative grace", create, WithSpec("stop_grace { seconds: -5 }"), kInvalid,
       "job.spec.stop_grace", ""},
      {"negative restarts", create, WithSpec("retry { max_restarts: -1 }"), kInvalid,
       "job.spec.retry.max_restarts", "-1"},
      {"a negative back-off", create, WithSpec("retry { initial_back_off { seconds: -1 } }"),
       kInvalid, "job.spec.retry.initial_back_off", ""},
      {"back-offs that conflict", create,
       WithSpec("retry { initial_back_off { seconds: 600 } max_back_off { seconds: 10 } }"),
       kInvalid, "job.spec.retry.max_back_off", ""},
      {"a retry rule that fits nothing", create,
       WithSpec("retry { rules { action: ACTION_FAIL } }"), kInvalid, "job.spec.retry.rules[0]",
       "exit_codes"},
      {"a retry rule without an action", create, WithSpec("retry { rules { exit_codes: 3 } }"),
       kInvalid, "job.spec.retry.rules[0].action", "ACTION_FAIL"},
      {"a retry rule for success", create,
       WithSpec("retry { rules { exit_codes: 0 action: ACTION_FAIL } }"), kInvalid,
       "job.spec.retry.rules[0].exit_codes[0]", "255"},
      {"a retry rule for signal 65", create,
       WithSpec("retry { rules { signals: 65 action: ACTION_FAIL } }"), kInvalid,
       "job.spec.retry.rules[0].signals[0]", "64"},
      {"a Node avoided for a week", create,
       WithSpec(
           "retry { rules { signals: 7 action: ACTION_RESTART avoid_node_for { seconds: 604800 "
           "} } }"),
       kInvalid, "job.spec.retry.rules[0].avoid_node_for", "24h"},
      {"a Node avoided by what has failed", create,
       WithSpec(
           "retry { rules { signals: 7 action: ACTION_FAIL avoid_node_for { seconds: 60 } } }"),
       kInvalid, "job.spec.retry.rules[0].avoid_node_for", "ACTION_FAIL"},
      {"a retry rule for what is never blamed on a program", create,
       WithSpec("retry { rules { causes: CAUSE_LOST action: ACTION_FAIL } }"), kInvalid,
       "job.spec.retry.rules[0].causes[0]", "CAUSE_OUT_OF_MEMORY"},
      {"a wait for a Job that is not there", create, WithSpec("after { job: 'nobody' }"), kInvalid,
       "job.spec.after[0].job", "does not exist"},
      {"a wait for itself", create, WithSpec("after { job: 'wrong' }"), kInvalid,
       "job.spec.after[0].job", "this Job itself"},
      {"a wait for a Job of another project", create,
       WithSpec("after { job: 'projects/other/jobs/a' }"), kInvalid, "job.spec.after[0].job",
       "projects/other/jobs/a"},
      {"a wait for one Job twice", create, WithSpec("after { job: 'a' } after { job: 'a' }"),
       kInvalid, "job.spec.after[1].job", "named twice"},
      {"a wait for nothing", create, WithSpec("after { }"), kInvalid, "job.spec.after[0].job", ""},
      {"a wait for an end of an unknown kind", create, WithSpec("after { job: 'a' condition: 9 }"),
       kInvalid, "job.spec.after[0].condition", "CONDITION_ENDED"},
      {"a wait for too many Jobs", create, WithSpec(Times(65, "after { job: 'a' } ")), kInvalid,
       "job.spec.after", "64"},
      {"an array of none", create, WithSpec("array { }"), kInvalid, "job.spec.array.size", "1000"},
      {"an array of too many", create, WithSpec("array { size: 1001 }"), kInvalid,
       "job.spec.array.size", "1001"},
      {"a negative array", create, WithSpec("array { size: -1 }"), kInvalid, "job.spec.array.size",
       "-1"},
      {"an array of too large Jobs", create,
       WithSpec("array { size: 1000 } labels { key: 'l' value: '" + std::string(256, 'x') +
                "' } datasets { dataset: 'projects/default/datasets/" + std::string(20'000, 'd') +
                "' }"),
       kInvalid, "job.spec.array.size", "16777216"},
      {"an array with a negative bound", create, WithSpec("array { size: 2 max_parallel: -1 }"),
       kInvalid, "job.spec.array.max_parallel", "-1"},
      {"an array with an id too long for its elements", create,
       "parent: 'projects/default' job_id: '" + std::string(62, 'a') + "' job { " +
           GoodJob("array { size: 2 }") + " }",
       kInvalid, "job_id", "array of 2"},
      {"a wait for the corresponding element of no array", create,
       WithSpec("after { job: 'there' condition: CONDITION_CORRESPONDING }"), kInvalid,
       "job.spec.after[0].condition", "array.size"},
      {"an array after the corresponding elements of no array", create,
       WithSpec("after { job: 'there' condition: CONDITION_CORRESPONDING } array { size: 2 }"),
       kInvalid, "job.spec.after[0].job", "is no array"},
      {"a singleton with blanks", create, WithSpec("singleton: 'a b'"), kInvalid,
       "job.spec.singleton", "a b"},
      {"a singleton too long", create, WithSpec("singleton: '" + std::string(64, 's') + "'"),
       kInvalid, "job.spec.singleton", "63"},
      {"an unknown preemption", create, WithSpec("preemption: 77"), kInvalid, "job.spec.preemption",
       "77"},
      {"an unknown level", create, WithSpec("topology { required: 77 }"), kInvalid,
       "job.spec.topology.required", "77"},
      {"a Dataset without a name", create, WithSpec("datasets { }"), kInvalid,
       "job.spec.datasets[0].dataset", ""},
      {"a mount that climbs", create,
       WithSpec("datasets { dataset: 'projects/default/datasets/d' mount_path: '../../etc' }"),
       kInvalid, "job.spec.datasets[0].mount_path", ""},
      {"too many Datasets", create,
       WithSpec(Times(129, "datasets { dataset: 'projects/default/datasets/d' } ")), kInvalid,
       "job.spec.datasets", "129"},
      {"a bundle that is none", create, WithSpec("bundle: 'code.zip'"), kInvalid, "job.spec.bundle",
       "code.zip"},
      {"a Cluster's name that is none", create, WithSpec("clusters: 'no such!'"), kInvalid,
       "job.spec.clusters[0]", ""},
      {"a Cluster twice", create, WithSpec("clusters: 'local' clusters: 'local'"), kInvalid,
       "job.spec.clusters[1]", ""},
      {"an account of another Project", create,
       WithSpec("service_account: 'projects/other/serviceAccounts/a'"), kInvalid,
       "job.spec.service_account", ""},
      {"a label's key too long", create,
       WithSpec("labels { key: '" + std::string(64, 'k') + "' value: 'x' }"), kInvalid,
       "job.spec.labels[" + std::string(64, 'k') + "]", "1 to 63"},
      {"too many labels", create, WithSpec([] {
         std::string all;
         for (int i = 0; i < 65; ++i)
           absl::StrAppend(&all, "labels { key: 'l", i, "' value: 'x' } ");
         return all;
       }()),
       kInvalid, "job.spec.labels", "65"},
      {"a Job that is there", create,
       "parent: 'projects/default' job_id: 'there' job { " + GoodJob() + " }", kExists, "",
       "there"},
      {"a request id with another body", create,
       "parent: 'projects/default' job_id: 'other' job { " + GoodJob() + " } request_id: '" +
           kRequestId + "'",
       kExists, "", "request_id"},
      {"a bare name", "scheduler.JobService/GetJob", "name: 'there'", kInvalid, "name",
       "projects/"},
      {"a name with a NUL", "scheduler.JobService/GetJob", "name: 'projects/default/jobs/a\\000b'",
       kInvalid, "name", ""},
      {"a Job that is not there", "scheduler.JobService/GetJob",
       "name: 'projects/default/jobs/absent'", kNotFound, "", "absent"},
      {"a negative page", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' page_size: -1", kInvalid, "page_size", "-1"},
      {"a page token of ours that is none", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' page_token: 'AAAA'", kInvalid, "page_token", "begin again"},
      {"a page token with blanks", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' page_token: 'not a token'", kInvalid, "page_token",
       "begin again"},
      {"a filter of an unknown field", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' filter: 'colour=red'", kInvalid, "filter", "colour"},
      {"a filter of an array that is no Job", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' filter: 'array=sweep'", kInvalid, "filter", "array="},
      {"a filter of an unknown state", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' filter: 'state=HAPPY'", kInvalid, "filter", "HAPPY"},
      {"a filter cut off", "scheduler.JobService/ListJobs",
       "parent: 'projects/default' filter: 'state=RUNNING AND'", kInvalid, "filter", ""},
      {"a Job of another parent", "scheduler.JobService/WatchJobs",
       "parent: 'projects/default' job: 'projects/other/jobs/x'", kInvalid, "job",
       "projects/default"},
      {"a resume token that is none", "scheduler.JobService/WatchJobs",
       "parent: 'projects/default' resume_token: 'nonsense'", kInvalid, "resume_token", ""},
      {"a stale etag", "scheduler.JobService/CancelJob",
       "name: 'projects/default/jobs/there' etag: '\"0000000000000000\"'", kAborted, "",
       "read it again"},
      {"an end of what is not there", "scheduler.JobService/CancelJob",
       "name: 'projects/default/jobs/absent'", kNotFound, "", ""},
      {"an explanation of nothing", "scheduler.JobService/ExplainJob", "name: ''", kInvalid, "name",
       ""},
      {"a simulation of nothing", simulate, "parent: 'projects/default'", kInvalid, "jobs",
       "node_changes"},
      {"a simulation nowhere", simulate, "parent: 'default' jobs { }", kInvalid, "parent", ""},
      {"eleven Jobs to simulate", simulate, "parent: 'projects/default' " + Times(11, simulated),
       kInvalid, "jobs", "at most 10"},
      {"a Job to simulate without Tasks", simulate,
       absl::StrCat("parent: 'projects/default' ", simulated, " jobs { queue: 'queues/default' }"),
       kInvalid, "jobs[1].task_groups", ""},
      {"a Job to simulate in no Queue that is there", simulate,
       "parent: 'projects/default' jobs { queue: 'queues/absent' task_groups { name: 'w' replicas: "
       "1 " +
           Group("") + " } }",
       kInvalid, "jobs[0].queue", "absent"},
      {"more than 100 Nodes", simulate,
       "parent: 'projects/default' node_changes { add { count: 101 like: 'clusters/c/nodes/n' } }",
       kInvalid, "node_changes", "at most 100"},
      {"no Nodes", simulate,
       "parent: 'projects/default' node_changes { add { count: 0 like: 'clusters/c/nodes/n' } }",
       kInvalid, "node_changes[0].add.count", "1 to 100"},
      {"Nodes like nothing", simulate,
       "parent: 'projects/default' node_changes { add { count: 1 } }", kInvalid,
       "node_changes[0].add.like", "one of them"},
      {"Nodes like one that is not there", simulate,
       "parent: 'projects/default' "
       "node_changes { add { count: 1 like: 'clusters/local/nodes/absent' } }",
       kInvalid, "node_changes[0].add.like", "does not exist"},
      {"Nodes of no size", simulate,
       "parent: 'projects/default' node_changes { add { count: 1 cluster: 'clusters/local' } }",
       kInvalid, "node_changes[0].add.allocatable.cpu_millis", ""},
      {"a bare Node to remove", simulate, "parent: 'projects/default' node_changes { remove: 'n' }",
       kInvalid, "node_changes[0].remove", "clusters/{cluster}/nodes/{node}"},
      {"a Node that is not there to cordon", simulate,
       "parent: 'projects/default' node_changes { cordon: 'clusters/local/nodes/absent' }",
       kInvalid, "node_changes[0].cordon", "does not exist"},
      {"a Node changed twice", simulate,
       "parent: 'projects/default' node_changes { cordon: 'clusters/local/nodes/n' } "
       "node_changes { uncordon: 'clusters/local/nodes/n' }",
       kInvalid, "node_changes[1].uncordon", "twice"},
      {"an empty change", simulate, "parent: 'projects/default' node_changes { }", kInvalid,
       "node_changes[0]", "add"},
  };
}

}  // namespace capstan::integration
