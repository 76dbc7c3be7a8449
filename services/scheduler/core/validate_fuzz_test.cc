// Specs of Jobs and Queues as people write them, from their text to what the service accepts: that
// is within every bound that placing and storing rely on.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/config/proto_reader.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::TaskGroup;
using fuzzing::Require;

void CheckJob(JobSpec spec) {
  const CoreConfig config;
  ApplyDefaults("projects/p", config, &spec);
  status::FieldErrors errors;
  ValidateJobSpec("projects/p", config, spec, "job.spec", &errors);
  // Defaults that are there already change nothing.
  JobSpec again = spec;
  ApplyDefaults("projects/p", config, &again);
  Require(again.SerializeAsString().size() == spec.SerializeAsString().size());
  if (!errors.ok()) return;
  Require(spec.ByteSizeLong() <= kMaxSpecBytes);
  Require(spec.task_groups_size() >= 1 && spec.task_groups_size() <= kMaxTaskGroups);
  int64_t tasks = 0;
  for (const TaskGroup& group : spec.task_groups()) {
    Require(group.replicas() >= 1 && !group.argv().empty());
    const auto& wanted = group.resources();
    Require(wanted.cpu_millis() >= 0 && wanted.cpu_millis() <= kMaxCpuMillis);
    Require(wanted.memory_bytes() >= 0 && wanted.memory_bytes() <= kMaxMemoryBytes);
    tasks += group.replicas();
    for (const auto& slice : group.slices()) {
      Require(slice.size() >= 1 && group.replicas() % slice.size() == 0);
    }
    Require(group.slices().empty() || group.min_replicas() % group.slices(0).size() == 0);
  }
  Require(tasks <= kMaxTasks);
  // A parent is named before its sections: there is no way round in a circle.
  std::set<std::string> sections = {""};
  for (const auto& section : spec.sections()) {
    Require(sections.count(section.parent()) == 1);
    Require(sections.insert(section.name()).second);
  }
  for (const TaskGroup& group : spec.task_groups()) Require(sections.count(group.section()) == 1);
  Require(spec.datasets_size() <= kMaxDatasets && spec.clusters_size() <= kMaxClusters);
  Require(spec.labels_size() <= kMaxLabels);
  Require(spec.priority() >= -kMaxPriority && spec.priority() <= kMaxPriority);
  if (spec.has_array()) {
    Require(spec.array().size() >= 1 && spec.array().size() <= kMaxArraySize);
    Require(spec.ByteSizeLong() * spec.array().size() <= kMaxArrayBytes);
  }
  Require(spec.singleton().size() <= kMaxSingletonBytes);
  if (spec.has_fence_after()) {
    const absl::Duration fence = ToDuration(spec.fence_after());
    Require(fence >= config.min_fence_after && fence <= config.max_fence_after);
  }
}

void CheckQueue(const Queue& queue) {
  status::FieldErrors errors;
  ValidateQueue("q", queue, &errors);
  (void)errors.ToStatus();
}

}  // namespace
}  // namespace capstan::scheduler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace scheduler = capstan::scheduler;
  capstan::fuzzing::FuzzInput input(data, size);
  const std::vector<std::string> words = {
      "worker", "queues/default", "/bin/true", "A=b", "projects/p/datasets/d", "c1", "rack", ""};
  scheduler::v1::JobSpec spec;
  scheduler::v1::Queue queue;
  capstan::config::SourceMap places;
  switch (input.Byte()) {
    case 'j':
      if (capstan::config::ReadProto(input.Rest(), "job", &spec, &places).ok()) {
        scheduler::CheckJob(std::move(spec));
      }
      break;
    case 'q':
      if (capstan::config::ReadProto(input.Rest(), "queue", &queue, &places).ok()) {
        scheduler::CheckQueue(queue);
      }
      break;
    default:
      capstan::fuzzing::FillMessage(words, &input, &spec);
      capstan::fuzzing::FillMessage(words, &input, &queue);
      scheduler::CheckJob(std::move(spec));
      scheduler::CheckQueue(queue);
  }
  return 0;
}
