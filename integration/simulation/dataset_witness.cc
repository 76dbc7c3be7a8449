#include "integration/simulation/dataset_witness.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/records.pb.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::simulation {

using ::capstan::data_loader::VersionRecord;
using ::capstan::scheduler::records::v1::JobSpecRecord;
using ::capstan::scheduler::records::v1::JobStateRecord;
using ::capstan::scheduler::v1::Job;
using session::TaskId;

namespace {

constexpr char kFolder[] = "/site/versions/";

std::string PinPrefix() { return absl::StrCat(data_loader::kKeyPrefix, "pin/"); }

std::string Alias(const capstan::type::v1::DatasetMount& mount) {
  std::string alias = mount.dataset().substr(mount.dataset().rfind('/') + 1);
  for (char& c : alias) c = absl::ascii_isalnum(c) ? absl::ascii_toupper(c) : '_';
  return alias;
}

}  // namespace

void DatasetWitness::Read(const std::string& load, int part) {
  const auto staged = journalled_.find(load);
  if (staged == journalled_.end() || staged->second.count(part) == 0) return;
  world_->Violate(absl::StrCat("part ", part, " of ", load,
                               " is journalled, and is read from its source again"));
}

void DatasetWitness::Journalled(const std::string& load, int part) {
  journalled_[load].insert(part);
}

void DatasetWitness::Appeared(const std::string& digest, bool whole) {
  world_->Log("site", absl::StrCat("has ", digest));
  if (!whole) world_->Violate(absl::StrCat(digest, " appears at the Site and is not whole"));
  whole_.insert(digest);
}

void DatasetWitness::Leaves(const std::string& digest) {
  world_->Log("site", absl::StrCat("has no more ", digest));
  ++evictions_;
  whole_.erase(digest);
  for (const auto& [id, digests] : reading_) {
    if (digests.count(digest) == 0) continue;
    world_->Violate(absl::StrCat(digest, " leaves the Site while ", id.Path(), " reads it"));
  }
  for (const auto& [holder, versions] : pins_) {
    for (const auto& [version, held] : versions) {
      if (held != digest) continue;
      world_->Violate(absl::StrCat(version, " leaves the Site while ", holder.first, " on ",
                                   holder.second, " holds it"));
    }
  }
}

void DatasetWitness::CheckStored(const Disk& loader_disk) {
  const std::string prefix = data_loader::VersionKey("");
  for (auto it = loader_disk.records.lower_bound(prefix);
       it != loader_disk.records.end() && absl::StartsWith(it->first, prefix); ++it) {
    VersionRecord record;
    if (!record.ParseFromString(it->second) || record.absent()) continue;
    if (IsWhole(record.version().manifest_digest())) continue;
    world_->Violate(
        absl::StrCat(record.version().name(), " is stored as whole, and is not at the Site"));
  }
}

void DatasetWitness::PinAcknowledged(const std::string& holder, const std::string& node,
                                     const std::string& version, const std::string& digest,
                                     const Disk& loader_disk) {
  const std::string key = absl::StrCat(PinPrefix(), holder, "|", node, "|", version);
  if (loader_disk.records.count(key) == 0) {
    world_->Violate(absl::StrCat("pin of ", version, " for ", holder, " on ", node,
                                 " acknowledged without being stored"));
  }
  if (!IsWhole(digest)) {
    world_->Violate(absl::StrCat(version, " is pinned, and is not at the Site"));
  }
  pins_[{holder, node}][version] = digest;
}

void DatasetWitness::ReleaseAsked(const std::string& holder, const std::string& node) {
  if (!node.empty()) {
    pins_.erase({holder, node});
    return;
  }
  std::erase_if(pins_, [&holder](const auto& pin) { return pin.first.first == holder; });
}

std::string DatasetWitness::Folder(const std::string& digest) {
  return absl::StrCat(kFolder, absl::StripPrefix(digest, "sha256:"));
}

void DatasetWitness::Started(const TaskId& id, const std::map<std::string, std::string>& folders) {
  const auto stored = scheduler_disk_->records.find(scheduler::JobSpecKey(id.job_uid));
  JobSpecRecord job;
  if (stored == scheduler_disk_->records.end() || !job.ParseFromString(stored->second)) return;
  if (!job.spec().datasets().empty()) ++starts_;
  for (const capstan::type::v1::DatasetMount& mount : job.spec().datasets()) {
    const std::string alias = Alias(mount);
    const auto folder = folders.find(alias);
    if (folder == folders.end()) {
      world_->Violate(absl::StrCat(id.Path(), " starts without its Dataset ", mount.dataset()));
      continue;
    }
    const std::string hex(absl::StripPrefix(folder->second, kFolder));
    const std::string digest = absl::StrCat("sha256:", hex);
    world_->Log("witness", absl::StrCat(id.Path(), " finds ", digest, " as ", alias));
    if (!IsWhole(digest)) {
      world_->Violate(absl::StrCat(id.Path(), " starts while ", digest, ", its ", mount.dataset(),
                                   ", is not whole at the Site"));
    }
    if (!mount.version().empty() && !absl::StartsWith(hex, mount.version())) {
      world_->Violate(absl::StrCat(id.Path(), " asks for version ", mount.version(), " of ",
                                   mount.dataset(), " and finds ", digest));
    }
    const auto [seen, first] = seen_.emplace(std::make_pair(id.job_uid, alias), digest);
    if (!first && seen->second != digest) {
      world_->Violate(absl::StrCat(id.Path(), " finds ", digest, " as ", mount.dataset(),
                                   ", and an earlier Task of its Job has found ", seen->second));
    }
    reading_[id].insert(digest);
  }
}

bool DatasetWitness::Settled(const Disk& loader_disk, std::string* why) const {
  const std::string prefix = PinPrefix();
  const auto pin = loader_disk.records.lower_bound(prefix);
  if (pin != loader_disk.records.end() && absl::StartsWith(pin->first, prefix)) {
    *why = absl::StrCat("a pin is left: ", pin->first);
    return false;
  }
  const std::string states = scheduler::JobStateKey("");
  for (auto it = scheduler_disk_->records.lower_bound(states);
       it != scheduler_disk_->records.end() && absl::StartsWith(it->first, states); ++it) {
    JobStateRecord state;
    JobSpecRecord job;
    const std::string uid = it->first.substr(states.size());
    const auto spec = scheduler_disk_->records.find(scheduler::JobSpecKey(uid));
    if (!state.ParseFromString(it->second) || spec == scheduler_disk_->records.end() ||
        !job.ParseFromString(spec->second)) {
      continue;
    }
    const bool for_data = absl::StartsWith(state.reason(), "DATA_");
    // As the scheduler says where another version was brought than the Job is to have.
    const bool other_version = absl::StrContains(state.message(), "has left the Site");
    if (for_data && !other_version &&
        std::none_of(failures_.begin(), failures_.end(), [&state](const std::string& message) {
          return absl::StrContains(state.message(), message);
        })) {
      *why = absl::StrCat("job ", uid, " ended with ", state.reason(), ", `", state.message(),
                          "`, which the data_loader has not said");
      return false;
    }
    const bool nowhere = std::any_of(job.spec().datasets().begin(), job.spec().datasets().end(),
                                     [](const auto& mount) { return mount.dataset() == kNowhere; });
    if (nowhere && state.state() == Job::STATE_SUCCEEDED) {
      *why = absl::StrCat("job ", uid, " has succeeded without its data");
      return false;
    }
  }
  return true;
}

}  // namespace capstan::simulation
