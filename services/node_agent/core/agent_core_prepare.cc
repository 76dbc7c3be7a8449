// PREPARE: everything a Task needs before its gang may start, in this order:
//   part 0            open the Job's Output at this generation
//   part 1            pin the Bundle
//   parts 2 … 1+n     pin the n Dataset versions
//   part 2+n          make folder and cgroup
//   part 3+n          fill the folder
//   part 4+n          get the Task's identity
//   part 5+n          choose the Task's whole GPUs
//   part 6+n          make the Task's MIG instance
//   part 7+n          find its device files
//   part 8+n          test the reserved ports
// Each part can be done again, so nothing in between is stored.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/gpu/gpu_model.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/gpu_book.h"

namespace capstan::node_agent {

using capstan::type::v1::TaskEnd;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

namespace {

constexpr int kOpenOutput = 0;
constexpr int kPinBundle = 1;
constexpr int kPinFirstDataset = 2;

// Of the parts on this machine, by their number less 2+n.
enum Local {
  kMakePlace = 0,
  kFurnish = 1,
  kIssueIdentity = 2,
  kChooseGpus = 3,
  kMakeInstance = 4,
  kFindFiles = 5,
  kTestPorts = 6,
};

// Attempts at a part on this machine before PREPARE fails; what others must answer is tried until
// the scheduler gives up.
constexpr int kLocalAttempts = 4;
// For how long an identity is asked for before the Task goes without one: longer than a restart or
// a change of leader of credentials takes.
constexpr absl::Duration kIdentityPatience = absl::Seconds(30);
// Times the ports are chosen anew.
constexpr int kPortAttempts = 20;

std::string HolderOf(const TaskId& id) { return absl::StrCat(id.job_uid, "/", id.generation); }

// The whole GPUs that the Task asks for, by name.
GpuBook::Wanted WantedGpus(const capstan::type::v1::TaskLaunch& launch) {
  GpuBook::Wanted wanted;
  for (const auto& [name, count] : launch.resources().accelerators()) {
    if (count > 0 && gpu::IsWholeGpuResource(name)) wanted[name] = count;
  }
  return wanted;
}

// Whether asking again may help.
bool Transient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool AgentCore::PickPorts(const TaskId& id, const capstan::type::v1::TaskLaunch& launch,
                          TaskRecord& record) {
  const std::set<std::string> names(launch.ports().begin(), launch.ports().end());
  record.clear_ports();
  if (names.empty()) return true;
  const std::vector<int32_t> ports = ports_.Pick(id, static_cast<int>(names.size()));
  if (ports.empty()) return false;
  auto port = ports.begin();
  for (const std::string& name : names) (*record.mutable_ports())[name] = *port++;
  return true;
}

absl::Status AgentCore::PickGpus(const TaskId& id, Entry& entry,
                                 const std::vector<WholeGpu>& found) {
  for (const auto& [other, theirs] : tasks_) {
    if (!theirs.record.orphan() || theirs.record.stage() == TaskRecord::STAGE_ENDED) continue;
    // What it was given was in the record that is gone.
    return status::Error(absl::StatusCode::kUnavailable, "GPU_TAKEN",
                         absl::StrCat("the Task ", other.Path(),
                                      ", of which the Node has no record, may have any GPU; its "
                                      "end is waited for"));
  }
  absl::StatusOr<std::vector<WholeGpu>> picked =
      gpus_.Pick(id, WantedGpus(entry.order.launch()), found);
  if (!picked.ok()) return picked.status();
  TaskRecord& draft = entry.draft;
  draft.clear_gpus();
  draft.clear_gpu_files();
  for (const WholeGpu& gpu : *picked) {
    draft.add_gpus(gpu.uuid);
    // Without isolation it finds the machine's own.
    if (!config_.isolation.namespaces) continue;
    if (!gpu.minor.has_value()) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "NO_DEVICE_FILE",
          absl::StrCat("the driver does not say which device file ", gpu.uuid, " has"));
    }
    draft.mutable_gpu_files()->add_minors(*gpu.minor);
  }
  return absl::OkStatus();
}

void AgentCore::PrepareFailed(const TaskId& id, Entry& entry, const std::string& message) {
  TaskEnd end;
  end.set_cause(TaskEnd::CAUSE_PREPARE_FAILED);
  end.set_message(message);
  DecideEnd(id, entry, std::move(end), false);
}

void AgentCore::Prepare(const TaskId& id, Entry& entry) {
  if (StopOf(entry).has_value()) {
    TaskEnd end;
    end.set_cause(TaskEnd::CAUSE_STOPPED);
    end.set_message("stopped while it was being prepared");
    return DecideEnd(id, entry, std::move(end), false);
  }
  const capstan::type::v1::TaskLaunch& launch = entry.order.launch();
  TaskRecord& draft = entry.draft;
  const int datasets = launch.datasets_size();
  for (;; ++entry.part) {
    if (entry.part == kOpenOutput) {
      if (launch.output().empty()) continue;
      after_.push_back(OpenOutput{id, NewTicket(entry), launch.output()});
      return;
    }
    if (entry.part == kPinBundle) {
      if (launch.bundle().empty()) continue;
      after_.push_back(PinBundle{id, NewTicket(entry), session::BundleOf(launch), HolderOf(id)});
      return;
    }
    if (entry.part < kPinFirstDataset + datasets) {
      const auto& mount = launch.datasets(entry.part - kPinFirstDataset);
      after_.push_back(PinVersion{id, NewTicket(entry), session::VersionOf(mount), HolderOf(id)});
      return;
    }
    switch (entry.part - kPinFirstDataset - datasets) {
      case kMakePlace:
        after_.push_back(MakePlace{id, NewTicket(entry), launch.resources(), draft.unix_uid()});
        return;
      case kFurnish:
        after_.push_back(Furnish{id, NewTicket(entry), draft.folder(), draft.unix_uid(),
                                 entry.bundle_directory, draft.output_directory()});
        return;
      case kIssueIdentity:
        if (launch.service_account().empty()) continue;
        after_.push_back(IssueIdentity{id, NewTicket(entry), draft.folder(), draft.unix_uid(),
                                       launch.job(), launch.service_account()});
        return;
      case kChooseGpus:
        if (!config_.chooses_gpus || WantedGpus(launch).empty()) continue;
        after_.push_back(ListGpus{id, NewTicket(entry)});
        return;
      case kMakeInstance: {
        if (!launch.has_mig_instance()) continue;
        MakeMigInstance make{id, NewTicket(entry), launch.mig_instance(), {}};
        for (const auto& [other, of] : tasks_) {
          if (other == id || of.record.stage() == TaskRecord::STAGE_ENDED) continue;
          const auto& theirs = of.order.launch();
          if (theirs.has_mig_instance()) make.others.push_back(theirs.mig_instance());
        }
        after_.push_back(std::move(make));
        return;
      }
      case kFindFiles:
        if (!config_.chooses_gpus || !config_.isolation.namespaces || draft.mig_device().empty()) {
          continue;
        }
        after_.push_back(
            FindMigFiles{id, NewTicket(entry), launch.mig_instance().gpu(), draft.mig_device()});
        return;
      case kTestPorts: {
        if (draft.ports().empty()) continue;
        CheckPorts check{id, NewTicket(entry), {}};
        for (const auto& [name, port] : draft.ports()) check.ports.push_back(port);
        std::sort(check.ports.begin(), check.ports.end());
        after_.push_back(std::move(check));
        return;
      }
      default:
        draft.set_stage(TaskRecord::STAGE_PREPARED);
        draft.clear_progress();
        draft.set_sequence(entry.record.sequence());
        draft.set_forgotten(entry.record.forgotten());
        entry.record = draft;
        entry.attempts = 0;
        Persist(id, entry, true);
        return;
    }
  }
}

void AgentCore::OnPrepareAnswer(const TaskId& id, Entry& entry, const Answered& answered, Now now) {
  const capstan::type::v1::TaskLaunch& launch = entry.order.launch();
  const int datasets = launch.datasets_size();
  const int local = entry.part - kPinFirstDataset - datasets;
  const bool remote = local < 0;
  TaskRecord& draft = entry.draft;
  // Nobody waits for what a stopped Task still asked for.
  if (StopOf(entry).has_value()) return;
  absl::Status outcome = answered.status;
  if (const auto* listed = std::get_if<ListedGpus>(&answered.answer); listed != nullptr) {
    outcome = PickGpus(id, entry, listed->gpus);
  }
  if (!outcome.ok()) {
    const std::string message(outcome.message());
    const bool identity = local == kIssueIdentity;
    // What had its place before may still be ending.
    const bool device = local == kChooseGpus || local == kMakeInstance || local == kFindFiles;
    if (identity && !entry.identity_until.has_value()) {
      entry.identity_until = now.boot + kIdentityPatience;
    }
    if (identity && (now.boot >= *entry.identity_until || !Transient(outcome))) {
      // No outage of credentials stops a Job: what needs the identity will say so itself.
      ++entry.part;
      entry.attempts = 0;
      return;
    }
    if (((remote || local == kMakePlace || device) && !Transient(outcome)) ||
        (!remote && !identity && !device && entry.attempts + 1 >= kLocalAttempts)) {
      return PrepareFailed(id, entry, message);
    }
    // What is being brought comes nearer: whoever waits for it must not wait longer and longer.
    if (status::Reason(outcome) == "DATA_ON_ITS_WAY") entry.attempts = 0;
    BackOff(entry, now);
    if (entry.record.progress() != message) {
      entry.record.set_progress(message);
      Persist(id, entry, true);
    }
    return;
  }
  if (const auto* output = std::get_if<OpenedOutput>(&answered.answer)) {
    draft.set_resume_directory(output->resume_directory);
    // Private to the Task and empty: another generation or rank has another.
    draft.set_output_directory(absl::StrCat(output->staging_root, "/", id.group, "-", id.index));
  } else if (const auto* place = std::get_if<Place>(&answered.answer)) {
    draft.set_folder(place->folder);
    *draft.mutable_cgroup() = place->cgroup;
  } else if (const auto* directory = std::get_if<Directory>(&answered.answer)) {
    if (entry.part == kPinBundle) {
      entry.bundle_directory = directory->path;
    } else if (remote) {
      const auto& mount = launch.datasets(entry.part - kPinFirstDataset);
      TaskRecord::Dataset* dataset = draft.add_datasets();
      dataset->set_directory(directory->path);
      dataset->set_mount_path(mount.mount_path());
      dataset->set_alias(DatasetVariable(mount));
    } else {
      draft.set_svid_directory(directory->path);
    }
  } else if (const auto* device = std::get_if<MigDevice>(&answered.answer)) {
    draft.set_mig_device(device->name);
  } else if (const auto* numbers = std::get_if<GpuFileNumbers>(&answered.answer)) {
    *draft.mutable_gpu_files() = numbers->files;
  } else if (const auto* taken = std::get_if<TakenPorts>(&answered.answer)) {
    if (!taken->ports.empty()) {
      ports_.Release(id);
      if (++entry.attempts >= kPortAttempts || !PickPorts(id, launch, draft)) {
        return PrepareFailed(id, entry, "the Node finds no free port in the agent's range");
      }
      return;
    }
  }
  ++entry.part;
  entry.attempts = 0;
}

}  // namespace capstan::node_agent
