// What a submitted Job or Queue must be. Every bound is here and nowhere else.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_VALIDATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_VALIDATE_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/core_config.h"

namespace capstan::scheduler {

inline constexpr size_t kMaxSpecBytes = 256 * 1024;
inline constexpr int kMaxTaskGroups = 64;
inline constexpr int kMaxTasks = 10'000;
inline constexpr int kMaxSections = 64;
// Sections within each other.
inline constexpr int kMaxSectionDepth = 6;
inline constexpr int kMaxSlices = 4;
inline constexpr int kMaxDatasets = 64;
inline constexpr int kMaxClusters = 64;
inline constexpr int kMaxLabels = 64;
// Of a Job, and of each of its TaskGroups.
inline constexpr int kMaxNodeRequirements = 16;
inline constexpr int kMaxRequirementValues = 64;
inline constexpr int kMaxTolerations = 32;
inline constexpr int kMaxDependencies = 64;
// As in Slurm (MaxArraySize 1,001): its Jobs are made in one step, with a transaction for a few
// hundred of them.
inline constexpr int kMaxArraySize = 1'000;
// Of the specs of all elements of an array.
inline constexpr size_t kMaxArrayBytes = 16 << 20;
inline constexpr size_t kMaxSingletonBytes = 63;
inline constexpr int kMaxRetryRules = 32;
inline constexpr absl::Duration kMaxAvoidNodeFor = absl::Hours(24);
inline constexpr int kMaxPriority = 1'000;
inline constexpr int kMaxRestarts = 1'000;
inline constexpr absl::Duration kMinStopGrace = absl::Seconds(1);
inline constexpr absl::Duration kMaxTimeLimit = absl::Hours(24 * 366);
inline constexpr absl::Duration kMaxCheckpointPeriod = absl::Hours(24 * 30);
inline constexpr absl::Duration kMaxGrowAfter = absl::Hours(24 * 30);
inline constexpr absl::Duration kMaxMinRuntime = absl::Hours(24 * 7);
inline constexpr int kMaxBudgetCount = 100;
inline constexpr absl::Duration kMinBudgetPeriod = absl::Minutes(1);
inline constexpr absl::Duration kMaxBudgetPeriod = absl::Hours(24 * 30);
inline constexpr absl::Duration kMinUsageHalfLife = absl::Minutes(1);
inline constexpr absl::Duration kMaxUsageHalfLife = absl::Hours(24 * 366);
inline constexpr int64_t kMaxCpuMillis = 1'024'000;
inline constexpr int64_t kMinMemoryBytes = 1 << 20;
inline constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;
inline constexpr int64_t kMaxAccelerators = 1'024;
// Linux takes no longer argument or `NAME=value`.
inline constexpr size_t kMaxArgBytes = 128 * 1024 - 1;

// Fills in what the user left out. `project` is `projects/{p}`.
void ApplyDefaults(absl::string_view project, const CoreConfig& config,
                   capstan::scheduler::v1::JobSpec* spec);

// Adds everything that is wrong with a spec (defaults filled in), with paths below `path`. Whether
// the Queue exists and admits the project is the core's to check.
void ValidateJobSpec(absl::string_view project, const CoreConfig& config,
                     const capstan::scheduler::v1::JobSpec& spec, absl::string_view path,
                     status::FieldErrors* errors);

// Of that, what UpdateJob may change.
void ValidatePriority(const capstan::scheduler::v1::JobSpec& spec, absl::string_view path,
                      status::FieldErrors* errors);
void ValidateTimeLimit(const capstan::scheduler::v1::JobSpec& spec, absl::string_view path,
                       status::FieldErrors* errors);

// Of that, what concerns other Jobs: `after`, `array` and `singleton`.
void ValidateOrder(absl::string_view project, const capstan::scheduler::v1::JobSpec& spec,
                   absl::string_view path, status::FieldErrors* errors);

// Of that, what says where Tasks stand: topologies, slices and sections.
void ValidateGroupTree(const capstan::scheduler::v1::JobSpec& spec, absl::string_view path,
                       status::FieldErrors* errors);

// Of that, what it asks of the labels and taints of Nodes.
void ValidateNodeTerms(const capstan::scheduler::v1::JobSpec& spec, absl::string_view path,
                       status::FieldErrors* errors);

void ValidateQueue(absl::string_view queue_id, const capstan::scheduler::v1::Queue& queue,
                   status::FieldErrors* errors);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_VALIDATE_H_
