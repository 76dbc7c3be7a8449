#ifndef CAPSTAN_INTEGRATION_BENCH_JOB_REQUEST_H_
#define CAPSTAN_INTEGRATION_BENCH_JOB_REQUEST_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::bench {

// A Job of one small Task. `queue`: its id, or empty for the default one.
inline scheduler::v1::CreateJobRequest SmallJob(absl::string_view queue,
                                                absl::string_view project = "default") {
  scheduler::v1::CreateJobRequest request;
  request.set_parent(absl::StrCat("projects/", project));
  scheduler::v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  if (!queue.empty()) spec.set_queue(absl::StrCat("queues/", queue));
  spec.mutable_retry()->set_max_restarts(0);
  scheduler::v1::TaskGroup& group = *spec.add_task_groups();
  group.set_name("w");
  group.set_replicas(1);
  group.add_argv("/bin/echo");
  group.add_argv("hello");
  group.mutable_resources()->set_cpu_millis(10);
  group.mutable_resources()->set_memory_bytes(32 << 20);
  return request;
}

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_JOB_REQUEST_H_
