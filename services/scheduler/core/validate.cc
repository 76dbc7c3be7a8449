#include "services/scheduler/core/validate.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/mig/profiles.h"
#include "libs/resource/id.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/quota/rate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::RetryPolicy;
using capstan::scheduler::v1::RetryRule;
using capstan::scheduler::v1::TaskGroup;
using capstan::type::v1::DatasetMount;
using capstan::type::v1::Resources;
using capstan::type::v1::TaskEnd;

bool IsLowerId(absl::string_view id, size_t max) {
  if (id.empty() || id.size() > max) return false;
  if (!absl::ascii_islower(id.front()) || id.back() == '-') return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

bool IsLowerHex(absl::string_view text, size_t size) {
  return text.size() == size && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsEnvName(absl::string_view name) {
  if (name.empty() || name.size() > 256 || absl::ascii_isdigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

bool HasNul(absl::string_view text) { return text.find('\0') != absl::string_view::npos; }

// Normal form: `/`-separated, no empty, `.` or `..` part.
bool IsCleanPath(absl::string_view path) {
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return !HasNul(path);
}

std::vector<std::string> SliceResources() {
  std::vector<std::string> names;
  for (const mig::DeviceModel& model : mig::DeviceModels()) {
    names.push_back(mig::SliceResource(model));
  }
  return names;
}

bool IsAcceleratorName(absl::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.' || c == '/' ||
           c == '_';
  });
}

void CheckRange(absl::string_view path, int64_t value, int64_t low, int64_t high,
                status::FieldErrors* errors) {
  if (value >= low && value <= high) return;
  errors->Add(path, absl::StrCat("is ", value, "; expected ", low, " to ", high));
}

void CheckDuration(absl::string_view path, absl::Duration value, absl::Duration low,
                   absl::Duration high, status::FieldErrors* errors) {
  if (value >= low && value <= high) return;
  errors->Add(path, absl::StrCat("is ", absl::FormatDuration(value), "; expected ",
                                 absl::FormatDuration(low), " to ", absl::FormatDuration(high)));
}

void CheckMig(absl::string_view path, const Resources& resources, status::FieldErrors* errors) {
  const auto model = mig::FindDeviceModel(resources.mig().model());
  if (!model.ok()) {
    errors->Add(absl::StrCat(path, ".model"), model.status().message());
  } else if (const auto profile = mig::ParseProfile(*model, resources.mig().profile());
             !profile.ok()) {
    errors->Add(absl::StrCat(path, ".profile"), profile.status().message());
  }
  if (resources.accelerators().empty()) return;
  // CUDA shows a program either whole devices or one instance.
  std::set<std::string> names;
  for (const auto& [name, count] : resources.accelerators()) names.insert(name);
  errors->Add(path, absl::StrCat("is set beside whole devices (", absl::StrJoin(names, ", "),
                                 "); expected one MIG instance or `accelerators`, not both"));
}

void CheckResources(absl::string_view path, const Resources& resources,
                    status::FieldErrors* errors) {
  CheckRange(absl::StrCat(path, ".cpu_millis"), resources.cpu_millis(), 1, kMaxCpuMillis, errors);
  CheckRange(absl::StrCat(path, ".memory_bytes"), resources.memory_bytes(), kMinMemoryBytes,
             kMaxMemoryBytes, errors);
  for (const auto& [name, count] : std::map<std::string, int64_t>(resources.accelerators().begin(),
                                                                  resources.accelerators().end())) {
    const std::string field = absl::StrCat(path, ".accelerators[", name, "]");
    if (!IsAcceleratorName(name)) {
      errors->Add(field, "expected a device name of [a-z0-9._/-], such as nvidia.com/h100");
    }
    if (mig::IsSliceResource(name)) {
      errors->Add(field,
                  "memory slices come with a MIG instance; expected `mig` with its model "
                  "and profile instead");
    }
    CheckRange(field, count, 1, kMaxAccelerators, errors);
  }
  if (resources.has_mig()) CheckMig(absl::StrCat(path, ".mig"), resources, errors);
}

void CheckArgv(absl::string_view path, const TaskGroup& group, bool bundle,
               status::FieldErrors* errors) {
  if (group.argv().empty()) {
    errors->Add(path, "is empty; expected a program and its arguments");
    return;
  }
  for (int i = 0; i < group.argv_size(); ++i) {
    const std::string field = absl::StrCat(path, "[", i, "]");
    if (group.argv(i).size() > kMaxArgBytes) {
      errors->Add(field, absl::StrCat("is longer than ", kMaxArgBytes,
                                      " bytes; put it into a file of the bundle"));
    }
    if (HasNul(group.argv(i))) errors->Add(field, "holds a NUL byte; expected text without one");
  }
  const absl::string_view program = group.argv(0);
  const std::string field = absl::StrCat(path, "[0]");
  if (absl::StartsWith(program, "/")) return;
  if (!bundle) {
    errors->Add(field, absl::StrCat("is `", program,
                                    "`; expected an absolute path, since the Job has no bundle"));
  } else if (!absl::StrContains(program, '/')) {
    errors->Add(field, absl::StrCat("is `", program,
                                    "`, which no PATH is searched for; expected "
                                    "an absolute path, or one in the bundle such as ./",
                                    program));
  } else if (!IsCleanPath(absl::StripPrefix(program, "./"))) {
    errors->Add(field, absl::StrCat("is `", program,
                                    "`; expected a path inside the bundle, "
                                    "without `..` or empty parts"));
  }
}

void CheckEnv(absl::string_view path, const google::protobuf::Map<std::string, std::string>& env,
              status::FieldErrors* errors) {
  for (const auto& [name, value] : std::map<std::string, std::string>(env.begin(), env.end())) {
    const std::string field = absl::StrCat(path, "[", name, "]");
    if (!IsEnvName(name)) {
      errors->Add(field, "expected a name of [A-Za-z_][A-Za-z0-9_]*, at most 256 characters");
    } else if (absl::StartsWith(name, "CAPSTAN_")) {
      errors->Add(field, "names beginning with CAPSTAN_ are the platform's own; choose another");
    }
    if (HasNul(value)) errors->Add(field, "holds a NUL byte; expected text without one");
    if (name.size() + 1 + value.size() > kMaxArgBytes) {
      errors->Add(field, absl::StrCat("is longer than ", kMaxArgBytes,
                                      " bytes with its name; put it into a file of the bundle"));
    }
  }
}

void CheckGroups(const JobSpec& spec, absl::string_view path, status::FieldErrors* errors) {
  const std::string groups = absl::StrCat(path, ".task_groups");
  if (spec.task_groups_size() < 1 || spec.task_groups_size() > kMaxTaskGroups) {
    errors->Add(groups, absl::StrCat("has ", spec.task_groups_size(), " groups; expected 1 to ",
                                     kMaxTaskGroups));
  }
  std::set<std::string> names;
  int64_t tasks = 0;
  for (int i = 0; i < spec.task_groups_size(); ++i) {
    const TaskGroup& group = spec.task_groups(i);
    const std::string field = absl::StrCat(groups, "[", i, "]");
    if (!IsLowerId(group.name(), 32)) {
      errors->Add(
          absl::StrCat(field, ".name"),
          absl::StrCat("is `", group.name(), "`; expected [a-z]([a-z0-9-]{0,30}[a-z0-9])?"));
    } else if (!names.insert(group.name()).second) {
      errors->Add(
          absl::StrCat(field, ".name"),
          absl::StrCat("`", group.name(), "` is the name of an earlier group; expected another"));
    }
    CheckRange(absl::StrCat(field, ".replicas"), group.replicas(), 1, kMaxTasks, errors);
    tasks += std::max(group.replicas(), 0);
    if (group.min_replicas() < 0 || group.min_replicas() > std::max(group.replicas(), 0)) {
      errors->Add(absl::StrCat(field, ".min_replicas"),
                  absl::StrCat("is ", group.min_replicas(), "; expected 1 to `replicas`, which is ",
                               group.replicas(), ", or 0 for as many"));
    }
    CheckArgv(absl::StrCat(field, ".argv"), group, !spec.bundle().empty(), errors);
    CheckEnv(absl::StrCat(field, ".env"), group.env(), errors);
    CheckResources(absl::StrCat(field, ".resources"), group.resources(), errors);
  }
  if (tasks > kMaxTasks) {
    errors->Add(groups,
                absl::StrCat("have ", tasks, " Tasks in all; expected at most ", kMaxTasks));
  }
}

void CheckGrowth(const CoreConfig& config, const JobSpec& spec, const std::string& path,
                 status::FieldErrors* errors) {
  if (!spec.has_grow_after()) return;
  const bool is_elastic =
      std::any_of(spec.task_groups().begin(), spec.task_groups().end(), [](const TaskGroup& group) {
        return group.min_replicas() > 0 && group.min_replicas() < group.replicas();
      });
  if (!is_elastic && OptionalParts(spec).empty()) {
    errors->Add(path,
                "is set, and no TaskGroup has a `min_replicas` below its `replicas`; give one "
                "to those that may have fewer Tasks, or a `min_sections`, or leave this out");
  }
  if (!spec.has_checkpoint_period()) {
    errors->Add(path,
                "is set without `checkpoint_period`; a gang that grows starts again from its "
                "newest checkpoint: say how often the program saves, or leave this out");
  }
  CheckDuration(path, ToDuration(spec.grow_after()),
                std::max(config.min_grow_after, ToDuration(spec.checkpoint_period())),
                kMaxGrowAfter, errors);
}

void CheckRate(absl::string_view path, const capstan::scheduler::v1::RateLimit& rate,
               status::FieldErrors* errors) {
  CheckRange(absl::StrCat(path, ".count"), rate.count(), 1, kMaxRateCount, errors);
  // 0: as count.
  CheckRange(absl::StrCat(path, ".burst"), rate.burst(), 0, kMaxRateCount, errors);
  CheckDuration(absl::StrCat(path, ".period"), ToDuration(rate.period()), absl::Milliseconds(1),
                absl::Hours(24), errors);
}

std::string EnvAlias(const DatasetMount& mount) {
  std::string alias = mount.alias();
  if (alias.empty()) alias = mount.dataset().substr(mount.dataset().rfind('/') + 1);
  for (char& c : alias) c = absl::ascii_isalnum(c) ? absl::ascii_toupper(c) : '_';
  return alias;
}

void CheckDatasets(absl::string_view project, const JobSpec& spec, absl::string_view path,
                   status::FieldErrors* errors) {
  const std::string datasets = absl::StrCat(path, ".datasets");
  if (spec.datasets_size() > kMaxDatasets) {
    errors->Add(datasets, absl::StrCat("has ", spec.datasets_size(), " entries; expected at most ",
                                       kMaxDatasets));
  }
  std::set<std::string> aliases;
  std::set<std::string> mounts;
  for (int i = 0; i < spec.datasets_size(); ++i) {
    const DatasetMount& mount = spec.datasets(i);
    const std::string field = absl::StrCat(datasets, "[", i, "]");
    absl::string_view id = mount.dataset();
    if (!absl::ConsumePrefix(&id, absl::StrCat(project, "/datasets/")) ||
        !resource::IsValidId(id)) {
      errors->Add(
          absl::StrCat(field, ".dataset"),
          absl::StrCat("is `", mount.dataset(), "`; expected ", project, "/datasets/{dataset}"));
    }
    if (!mount.version().empty() && !IsLowerHex(mount.version(), 16)) {
      errors->Add(absl::StrCat(field, ".version"),
                  absl::StrCat("is `", mount.version(),
                               "`; expected 16 hexadecimal digits, or nothing for the newest"));
    }
    if (!mount.mount_path().empty() &&
        (mount.mount_path().front() != '/' || mount.mount_path().size() > 4095 ||
         !IsCleanPath(absl::string_view(mount.mount_path()).substr(1)))) {
      errors->Add(absl::StrCat(field, ".mount_path"),
                  absl::StrCat("is `", mount.mount_path(),
                               "`; expected an absolute path without `.`, `..` or empty parts"));
    } else if (!mount.mount_path().empty() && !mounts.insert(mount.mount_path()).second) {
      errors->Add(absl::StrCat(field, ".mount_path"),
                  absl::StrCat("`", mount.mount_path(),
                               "` is taken by an earlier dataset; expected another path"));
    }
    if (mount.alias().size() > 63) {
      errors->Add(absl::StrCat(field, ".alias"),
                  "is longer than 63 characters; expected a shorter one");
    }
    const std::string alias = EnvAlias(mount);
    if (!aliases.insert(alias).second) {
      errors->Add(absl::StrCat(field, ".alias"),
                  absl::StrCat("CAPSTAN_DATASET_", alias,
                               " is taken by an earlier dataset; give another alias"));
    }
  }
}

void CheckRetryRules(const RetryPolicy& retry, const std::string& path,
                     status::FieldErrors* errors) {
  if (retry.rules_size() > kMaxRetryRules) {
    errors->Add(path, absl::StrCat("has ", retry.rules_size(), " entries; expected at most ",
                                   kMaxRetryRules));
  }
  for (int i = 0; i < retry.rules_size(); ++i) {
    const RetryRule& rule = retry.rules(i);
    const std::string field = absl::StrCat(path, "[", i, "]");
    if (rule.exit_codes().empty() && rule.signals().empty() && rule.causes().empty()) {
      errors->Add(field, "fits nothing; expected exit_codes, signals or causes");
    }
    for (int k = 0; k < rule.exit_codes_size(); ++k) {
      CheckRange(absl::StrCat(field, ".exit_codes[", k, "]"), rule.exit_codes(k), 1, 255, errors);
    }
    for (int k = 0; k < rule.signals_size(); ++k) {
      CheckRange(absl::StrCat(field, ".signals[", k, "]"), rule.signals(k), 1, 64, errors);
    }
    for (int k = 0; k < rule.causes_size(); ++k) {
      const TaskEnd::Cause cause = rule.causes(k);
      if (cause == TaskEnd::CAUSE_OUT_OF_MEMORY || cause == TaskEnd::CAUSE_EXEC_FAILED ||
          cause == TaskEnd::CAUSE_OUTPUT_FAILED || cause == TaskEnd::CAUSE_PREPARE_FAILED) {
        continue;
      }
      const std::string& name = TaskEnd::Cause_Name(cause);
      errors->Add(absl::StrCat(field, ".causes[", k, "]"),
                  absl::StrCat("is ", name.empty() ? absl::StrCat(static_cast<int>(cause)) : name,
                               "; expected CAUSE_OUT_OF_MEMORY, CAUSE_EXEC_FAILED, "
                               "CAUSE_OUTPUT_FAILED or CAUSE_PREPARE_FAILED; for others see "
                               "exit_codes and signals"));
    }
    if (!RetryRule::Action_IsValid(rule.action()) ||
        rule.action() == RetryRule::ACTION_UNSPECIFIED) {
      errors->Add(absl::StrCat(field, ".action"),
                  absl::StrCat("is ", static_cast<int>(rule.action()),
                               "; expected ACTION_FAIL, ACTION_RESTART or "
                               "ACTION_RESTART_UNCOUNTED"));
    }
    if (!rule.has_avoid_node_for()) continue;
    CheckDuration(absl::StrCat(field, ".avoid_node_for"), ToDuration(rule.avoid_node_for()),
                  absl::Seconds(1), kMaxAvoidNodeFor, errors);
    if (rule.action() == RetryRule::ACTION_FAIL) {
      errors->Add(absl::StrCat(field, ".avoid_node_for"),
                  "is of no use with ACTION_FAIL, after which nothing is placed; leave it out");
    }
  }
}

}  // namespace

void ApplyDefaults(absl::string_view project, const CoreConfig& config, JobSpec* spec) {
  if (spec->queue().empty()) spec->set_queue("queues/default");
  if (spec->service_account().empty()) {
    spec->set_service_account(absl::StrCat(project, "/serviceAccounts/default"));
  }
  if (!spec->has_fence_after()) *spec->mutable_fence_after() = ToProto(config.default_fence_after);
  if (!spec->has_stop_grace()) {
    *spec->mutable_stop_grace() =
        ToProto(std::min(absl::Seconds(30), ToDuration(spec->fence_after()) / 2));
  }
  for (JobDependency& dependency : *spec->mutable_after()) {
    if (!dependency.job().empty() && !absl::StrContains(dependency.job(), '/')) {
      dependency.set_job(absl::StrCat(project, "/jobs/", dependency.job()));
    }
    if (dependency.condition() == JobDependency::CONDITION_UNSPECIFIED) {
      dependency.set_condition(JobDependency::CONDITION_SUCCEEDED);
    }
  }
  for (TaskGroup& group : *spec->mutable_task_groups()) {
    if (!group.resources().has_mig()) continue;
    // Kubernetes has another name for the same profile.
    capstan::type::v1::MigSlice& slice = *group.mutable_resources()->mutable_mig();
    if (const auto ask = AskOf(slice); ask.has_value()) {
      slice.set_profile(mig::DeviceModels()[ask->model].profiles[ask->profile].name);
    }
  }
  capstan::scheduler::v1::RetryPolicy& retry = *spec->mutable_retry();
  if (!retry.has_max_restarts()) retry.set_max_restarts(3);
  if (!retry.has_initial_back_off()) *retry.mutable_initial_back_off() = ToProto(absl::Seconds(1));
  if (!retry.has_max_back_off()) {
    *retry.mutable_max_back_off() =
        ToProto(std::max(absl::Minutes(5), ToDuration(retry.initial_back_off())));
  }
}

void ValidatePriority(const JobSpec& spec, absl::string_view path, status::FieldErrors* errors) {
  CheckRange(absl::StrCat(path, ".priority"), spec.priority(), -kMaxPriority, kMaxPriority, errors);
}

void ValidateTimeLimit(const JobSpec& spec, absl::string_view path, status::FieldErrors* errors) {
  if (!spec.has_time_limit()) return;
  CheckDuration(absl::StrCat(path, ".time_limit"), ToDuration(spec.time_limit()), absl::Seconds(1),
                kMaxTimeLimit, errors);
}

void ValidateJobSpec(absl::string_view project, const CoreConfig& config, const JobSpec& spec,
                     absl::string_view path, status::FieldErrors* errors) {
  auto field = [path](absl::string_view name) { return absl::StrCat(path, ".", name); };
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    errors->Add(path, absl::StrCat("is ", spec.ByteSizeLong(), " bytes; expected at most ",
                                   kMaxSpecBytes, ". Put files into a bundle or a dataset"));
  }
  absl::string_view queue = spec.queue();
  if (!absl::ConsumePrefix(&queue, "queues/") || !resource::IsValidId(queue)) {
    errors->Add(field("queue"), absl::StrCat("is `", spec.queue(), "`; expected queues/{queue}"));
  }
  ValidatePriority(spec, path, errors);
  CheckGroups(spec, path, errors);

  CheckRange(field("retry.max_restarts"), spec.retry().max_restarts(), 0, kMaxRestarts, errors);
  const absl::Duration initial = ToDuration(spec.retry().initial_back_off());
  CheckDuration(field("retry.initial_back_off"), initial, absl::ZeroDuration(), absl::Hours(1),
                errors);
  CheckDuration(field("retry.max_back_off"), ToDuration(spec.retry().max_back_off()),
                std::max(initial, absl::ZeroDuration()), absl::Hours(24), errors);
  CheckRetryRules(spec.retry(), field("retry.rules"), errors);

  const absl::Duration fence_after = ToDuration(spec.fence_after());
  CheckDuration(field("fence_after"), fence_after, config.min_fence_after, config.max_fence_after,
                errors);
  // The Task must be dead by fence_after, its grace included, and live some time before that.
  const absl::Duration most_grace =
      std::min(absl::Hours(1), std::max(fence_after / 2, absl::ZeroDuration()));
  // Nothing is ended for another, drained or moved without time to save its work.
  CheckDuration(field("stop_grace"), ToDuration(spec.stop_grace()),
                std::min(kMinStopGrace, most_grace), most_grace, errors);

  ValidateTimeLimit(spec, path, errors);
  if (spec.has_checkpoint_period()) {
    CheckDuration(field("checkpoint_period"), ToDuration(spec.checkpoint_period()),
                  absl::Seconds(1), kMaxCheckpointPeriod, errors);
  }
  CheckGrowth(config, spec, field("grow_after"), errors);
  if (!JobSpec::Preemption_IsValid(spec.preemption())) {
    errors->Add(field("preemption"), absl::StrCat("is ", spec.preemption(),
                                                  "; expected PREEMPTION_ALLOWED or "
                                                  "PREEMPTION_NEVER"));
  }
  ValidateGroupTree(spec, path, errors);
  ValidateNodeTerms(spec, path, errors);

  CheckDatasets(project, spec, path, errors);
  ValidateOrder(project, spec, path, errors);
  absl::string_view digest = spec.bundle();
  if (!digest.empty() && (!absl::ConsumePrefix(&digest, "sha256:") || !IsLowerHex(digest, 64))) {
    errors->Add(field("bundle"), absl::StrCat("is `", spec.bundle(),
                                              "`; expected sha256: and 64 hexadecimal digits"));
  }
  if (spec.clusters_size() > kMaxClusters) {
    errors->Add(field("clusters"), absl::StrCat("has ", spec.clusters_size(),
                                                " entries; expected at most ", kMaxClusters));
  }
  std::set<std::string> clusters;
  for (int i = 0; i < spec.clusters_size(); ++i) {
    if (!resource::IsValidId(spec.clusters(i))) {
      errors->Add(absl::StrCat(field("clusters"), "[", i, "]"),
                  absl::StrCat("is `", spec.clusters(i), "`; expected the id of a cluster"));
    } else if (!clusters.insert(spec.clusters(i)).second) {
      errors->Add(absl::StrCat(field("clusters"), "[", i, "]"),
                  absl::StrCat("`", spec.clusters(i), "` is named twice; name it once"));
    }
  }
  absl::string_view account = spec.service_account();
  if (!absl::ConsumePrefix(&account, absl::StrCat(project, "/serviceAccounts/")) ||
      !resource::IsValidId(account)) {
    errors->Add(field("service_account"),
                absl::StrCat("is `", spec.service_account(), "`; expected ", project,
                             "/serviceAccounts/{account}"));
  }
  if (spec.labels_size() > kMaxLabels) {
    errors->Add(field("labels"), absl::StrCat("has ", spec.labels_size(),
                                              " entries; expected at most ", kMaxLabels));
  }
  for (const auto& [key, value] :
       std::map<std::string, std::string>(spec.labels().begin(), spec.labels().end())) {
    if (key.empty() || key.size() > 63 || value.size() > 256) {
      errors->Add(absl::StrCat(field("labels"), "[", key, "]"),
                  "expected a key of 1 to 63 and a value of at most 256 bytes");
    }
  }
}

void ValidateQueue(absl::string_view queue_id, const capstan::scheduler::v1::Queue& queue,
                   status::FieldErrors* errors) {
  if (queue.has_min_runtime()) {
    CheckDuration("queue.min_runtime", ToDuration(queue.min_runtime()), absl::ZeroDuration(),
                  kMaxMinRuntime, errors);
  }
  const absl::Duration half_life = ToDuration(queue.usage_half_life());
  if (half_life != absl::ZeroDuration() &&
      (half_life < kMinUsageHalfLife || half_life > kMaxUsageHalfLife)) {
    errors->Add("queue.usage_half_life",
                absl::StrCat("is ", absl::FormatDuration(half_life), "; expected ",
                             absl::FormatDuration(kMinUsageHalfLife), " to ",
                             absl::FormatDuration(kMaxUsageHalfLife), ", or 0 for no history"));
  }
  if (queue.has_submit_rate()) CheckRate("queue.submit_rate", queue.submit_rate(), errors);
  if (queue.has_start_rate()) CheckRate("queue.start_rate", queue.start_rate(), errors);
  if (queue.has_disruption_budget()) {
    CheckRange("queue.disruption_budget.count", queue.disruption_budget().count(), 1,
               kMaxBudgetCount, errors);
    CheckDuration("queue.disruption_budget.period", ToDuration(queue.disruption_budget().period()),
                  kMinBudgetPeriod, kMaxBudgetPeriod, errors);
  }
  if (!resource::IsValidId(queue_id)) {
    errors->Add("queue_id",
                absl::StrCat("is `", queue_id, "`; expected [a-z]([a-z0-9-]{0,61}[a-z0-9])?"));
  }
  if (queue.weight() != 0) CheckRange("queue.weight", queue.weight(), 1, 1'000'000, errors);
  absl::string_view parent = queue.parent();
  if (!parent.empty() &&
      (!absl::ConsumePrefix(&parent, "queues/") || !resource::IsValidId(parent))) {
    errors->Add("queue.parent", absl::StrCat("is `", queue.parent(), "`; expected queues/{queue}"));
  }
  std::set<std::string> resources;
  for (int i = 0; i < queue.quotas_size(); ++i) {
    const std::string& name = queue.quotas(i).resource();
    const std::string path = absl::StrCat("queue.quotas[", i, "].resource");
    if (!IsAcceleratorName(name)) {
      errors->Add(path, absl::StrCat("is `", name,
                                     "`; expected cpu, memory or a type of accelerator, e.g. "
                                     "nvidia.com/h100"));
    } else if (!resources.insert(name).second) {
      errors->Add(path,
                  absl::StrCat("`", name, "` has a quota already; expected one for each resource"));
    } else if (const std::vector<std::string> known = SliceResources();
               mig::IsSliceResource(name) &&
               std::find(known.begin(), known.end(), name) == known.end()) {
      errors->Add(path, absl::StrCat("is `", name,
                                     "`; expected, for memory slices of GPUs in MIG "
                                     "mode, one of ",
                                     absl::StrJoin(known, ", ")));
    }
  }
  for (int i = 0; i < queue.projects_size(); ++i) {
    absl::string_view project = queue.projects(i);
    if (!absl::ConsumePrefix(&project, "projects/") || !resource::IsValidId(project)) {
      errors->Add(absl::StrCat("queue.projects[", i, "]"),
                  absl::StrCat("is `", queue.projects(i), "`; expected projects/{project}"));
    }
  }
}

}  // namespace capstan::scheduler
