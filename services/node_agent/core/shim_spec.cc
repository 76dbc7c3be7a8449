#include "services/node_agent/core/shim_spec.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/session/lower_side.h"
#include "libs/status/error.h"
#include "libs/trace/context.h"
#include "services/node_agent/core/deadline.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/core/task_spans.h"

namespace capstan::node_agent {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::DesiredTask;
using TaskRecord = capstan::nodeagent::record::v1::Task;

namespace {

// Where a Task with a mount namespace of its own sees its socket's folder.
constexpr char kSocketTarget[] = "/capstan/socket";
// And that of the Workload API.
constexpr char kWorkloadTarget[] = "/capstan/workload";

void AddMount(const std::string& source, const std::string& target, bool read_only,
              ShimSpec* spec) {
  ShimSpec::Mount* mount = spec->add_mounts();
  mount->set_source(source);
  mount->set_target(target);
  mount->set_read_only(read_only);
}

// A JSON string; hosts and ports need no more than quotes, backslashes and control bytes escaped.
std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(&out, "\\u00", absl::BytesToHexString(absl::string_view(&c, 1)));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string WorkingDirectory(const DesiredTask& order, const TaskRecord& task) {
  if (order.launch().bundle().empty() && !task.output_directory().empty()) {
    return task.output_directory();
  }
  return WorkFolder(task);
}

}  // namespace

std::string WorkFolder(const TaskRecord& task) { return absl::StrCat(task.folder(), "/work"); }

std::string MetricsFile(const TaskRecord& task) {
  return absl::StrCat(task.folder(), "/metrics/metrics.jsonl");
}

std::string SocketFile(const TaskRecord& task) {
  return absl::StrCat(task.folder(), "/socket/task.sock");
}

std::string DatasetVariable(const capstan::type::v1::DatasetMount& mount) {
  std::string name = mount.alias();
  if (name.empty()) name = std::vector<std::string>(absl::StrSplit(mount.dataset(), '/')).back();
  for (char& c : name) {
    c = absl::ascii_isalnum(static_cast<unsigned char>(c))
            ? absl::ascii_toupper(static_cast<unsigned char>(c))
            : '_';
  }
  return name;
}

std::string TfConfig(const capstan::type::v1::Rendezvous& rendezvous) {
  const std::string workers = absl::StrJoin(
      rendezvous.peers(), ",",
      [](std::string* out, const std::string& peer) { absl::StrAppend(out, JsonString(peer)); });
  return absl::StrCat("{\"cluster\":{\"worker\":[", workers,
                      "]},\"task\":{\"type\":\"worker\",\"index\":", rendezvous.rank(), "}}");
}

std::map<std::string, std::string> TaskEnvironment(const session::TaskId& id,
                                                   const DesiredTask& order,
                                                   const TaskRecord& task) {
  const capstan::type::v1::TaskLaunch& launch = order.launch();
  const capstan::type::v1::Rendezvous& rendezvous = order.rendezvous();
  std::map<std::string, std::string> env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                                            {"HOME", WorkingDirectory(order, task)},
                                            {"TMPDIR", "/tmp"},
                                            {"LANG", "C.UTF-8"}};
  for (const auto& [name, value] : launch.env()) {
    if (!absl::StartsWith(name, "CAPSTAN_")) env[name] = value;
  }
  if (!task.mig_device().empty()) {
    // CUDA finds this instance and no other; so does NVIDIA's container runtime.
    env["CUDA_VISIBLE_DEVICES"] = task.mig_device();
    env["NVIDIA_VISIBLE_DEVICES"] = task.mig_device();
  } else if (!task.gpus().empty()) {
    env["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(task.gpus(), ",");
    env["NVIDIA_VISIBLE_DEVICES"] = env["CUDA_VISIBLE_DEVICES"];
  } else if (launch.resources().accelerators_size() == 0) {
    // A Task that asked for no accelerator must not find one by accident.
    env["CUDA_VISIBLE_DEVICES"] = "";
    env["NVIDIA_VISIBLE_DEVICES"] = "void";
  }
  env["MASTER_ADDR"] = rendezvous.master_addr();
  env["MASTER_PORT"] = absl::StrCat(rendezvous.master_port());
  env["RANK"] = absl::StrCat(rendezvous.rank());
  env["WORLD_SIZE"] = absl::StrCat(rendezvous.world_size());
  env["LOCAL_RANK"] = absl::StrCat(rendezvous.local_rank());
  env["LOCAL_WORLD_SIZE"] = absl::StrCat(rendezvous.local_world_size());
  // torchrun's names. Consecutive ranks share a Node, so a Node's Tasks are one group of equal
  // size.
  const int32_t local = rendezvous.local_world_size() > 0 ? rendezvous.local_world_size() : 1;
  env["GROUP_RANK"] = absl::StrCat((rendezvous.rank() - rendezvous.local_rank()) / local);
  env["ROLE_RANK"] = env["RANK"];
  env["ROLE_WORLD_SIZE"] = env["WORLD_SIZE"];
  if (rendezvous.world_size() > 1) env["TF_CONFIG"] = TfConfig(rendezvous);
  env["CAPSTAN_PEERS"] = absl::StrJoin(rendezvous.peers(), ",");
  env["CAPSTAN_JOB"] = launch.job();
  env["CAPSTAN_JOB_UID"] = id.job_uid;
  env["CAPSTAN_GENERATION"] = absl::StrCat(id.generation);
  if (launch.has_element()) {
    env["CAPSTAN_ARRAY"] = launch.element().array();
    env["CAPSTAN_ARRAY_INDEX"] = absl::StrCat(launch.element().index());
    env["CAPSTAN_ARRAY_SIZE"] = absl::StrCat(launch.element().size());
  }
  env["CAPSTAN_TASK_GROUP"] = id.group;
  env["CAPSTAN_TASK_INDEX"] = absl::StrCat(id.index);
  // The Task's own spans become children of `task.run`.
  if (const auto trace = StageTrace(id, order, TaskRecord::STAGE_RUNNING); trace.has_value()) {
    env[trace::kTraceparentVariable] = trace::ToTraceparent(*trace);
  }
  env["CAPSTAN_METRICS_FILE"] = MetricsFile(task);
  env["CAPSTAN_SOCKET"] = SocketFile(task);
  if (!task.output_directory().empty()) env["CAPSTAN_OUTPUT_DIR"] = task.output_directory();
  if (!task.resume_directory().empty()) env["CAPSTAN_RESUME_DIR"] = task.resume_directory();
  if (!task.svid_directory().empty()) {
    // A link in the folder that is mounted, so that the Task sees it being replaced.
    env["CAPSTAN_SVID_DIR"] = absl::StrCat(task.svid_directory(), "/", kCurrentIdentity);
  }
  for (const TaskRecord::Dataset& dataset : task.datasets()) {
    env[absl::StrCat("CAPSTAN_DATASET_", dataset.alias())] = dataset.directory();
  }
  return env;
}

ShimSpec BuildShimSpec(const session::TaskId& id, const DesiredTask& order, const TaskRecord& task,
                       const Isolation& isolation, int64_t log_limit_bytes, BootTime deadline) {
  const capstan::type::v1::TaskLaunch& launch = order.launch();
  ShimSpec spec;
  *spec.mutable_key() = id.ToProto();
  *spec.mutable_argv() = launch.argv();
  if (spec.argv_size() > 0 && !absl::StartsWith(spec.argv(0), "/")) {
    spec.set_argv(0, absl::StrCat(WorkFolder(task), "/", spec.argv(0)));
  }
  std::map<std::string, std::string> env = TaskEnvironment(id, order, task);
  // A Unix socket's path has at most 107 bytes, which a Task's folder alone may have.
  const std::string socket_folder = absl::StrCat(task.folder(), "/socket");
  const std::string socket_target =
      isolation.namespaces ? std::string(kSocketTarget) : socket_folder;
  env["CAPSTAN_SOCKET"] = absl::StrCat(socket_target, "/task.sock");
  const std::string workload_target =
      isolation.namespaces ? std::string(kWorkloadTarget) : isolation.workload_folder;
  if (!isolation.workload_folder.empty()) {
    env["SPIFFE_ENDPOINT_SOCKET"] = absl::StrCat("unix://", workload_target, "/", kWorkloadSocket);
  }
  for (const auto& [name, value] : env) {
    spec.add_env(absl::StrCat(name, "=", value));
  }
  spec.set_working_directory(WorkingDirectory(order, task));
  spec.set_unix_uid(task.unix_uid());
  *spec.mutable_cgroup() = task.cgroup();
  AddMount(WorkFolder(task), WorkFolder(task), false, &spec);
  AddMount(absl::StrCat(task.folder(), "/metrics"), absl::StrCat(task.folder(), "/metrics"), false,
           &spec);
  // Read-only, and still one may connect to what lies in it.
  AddMount(socket_folder, socket_target, true, &spec);
  if (!isolation.workload_folder.empty()) {
    AddMount(isolation.workload_folder, workload_target, true, &spec);
  }
  if (!task.output_directory().empty()) {
    AddMount(task.output_directory(), task.output_directory(), false, &spec);
  }
  if (!task.resume_directory().empty()) {
    AddMount(task.resume_directory(), task.resume_directory(), true, &spec);
  }
  if (!task.svid_directory().empty()) {
    AddMount(task.svid_directory(), task.svid_directory(), true, &spec);
  }
  for (const TaskRecord::Dataset& dataset : task.datasets()) {
    AddMount(dataset.directory(), dataset.directory(), true, &spec);
    if (!dataset.mount_path().empty() && isolation.namespaces) {
      AddMount(dataset.directory(), dataset.mount_path(), true, &spec);
    }
  }
  for (const std::string& path : isolation.shared_paths) AddMount(path, path, false, &spec);
  spec.set_deadline_boottime_ns(deadline.ToNanoseconds());
  *spec.mutable_stop_grace() = session::ToProto(FenceGrace(launch));
  spec.set_log_limit_bytes(log_limit_bytes);
  spec.set_namespaces(isolation.namespaces);
  spec.set_user_namespace(isolation.user_namespace);
  if (isolation.namespaces && task.has_gpu_files()) *spec.mutable_gpus() = task.gpu_files();
  for (const std::string& path : isolation.hidden_paths) spec.add_hidden_paths(path);
  return spec;
}

absl::StatusOr<std::string> CheckpointDirectory(absl::string_view output_directory,
                                                absl::string_view directory) {
  absl::string_view relative = directory;
  if (absl::StartsWith(relative, "/")) {
    if (!absl::ConsumePrefix(&relative, output_directory) || !absl::ConsumePrefix(&relative, "/")) {
      return status::Error(absl::StatusCode::kInvalidArgument, "DIRECTORY_OUTSIDE_OUTPUT",
                           "dir: expected a folder below CAPSTAN_OUTPUT_DIR");
    }
  }
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(relative, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != absl::string_view::npos) {
      return status::Error(absl::StatusCode::kInvalidArgument, "DIRECTORY_OUTSIDE_OUTPUT",
                           "dir: `..` is not allowed");
    }
    parts.emplace_back(part);
  }
  if (parts.empty() || directory.size() > 4096) {
    return status::Error(absl::StatusCode::kInvalidArgument, "BAD_DIRECTORY",
                         "dir: expected a folder below CAPSTAN_OUTPUT_DIR");
  }
  return absl::StrCat(output_directory, "/", absl::StrJoin(parts, "/"));
}

}  // namespace capstan::node_agent
