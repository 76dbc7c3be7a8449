#include "integration/simulation/disk_site.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "integration/simulation/world.h"
#include "libs/status/error.h"

namespace capstan::simulation {

void DiskSite::Soon(const std::string& load, absl::Duration least, absl::Duration most, Next next) {
  process_->Later(process_->world().random().Between(least, most),
                  [this, load, attempt = running_.at(load).attempt, next] {
                    const auto running = running_.find(load);
                    if (running == running_.end() || running->second.attempt != attempt) return;
                    (this->*next)(load, running->second);
                  });
}

void DiskSite::StartLoad(const data_loader::StartLoad& load) {
  const auto [running, added] = running_.emplace(load.load, Running());
  if (!added) {
    // Whoever was to answer has forgotten.
    if (running->second.planned_bytes.has_value()) {
      reports_.planned(load.load, *running->second.planned_bytes);
    }
    return;
  }
  Random& random = process_->world().random();
  running->second.load = load;
  running->second.attempt = ++attempts_;
  running->second.source_bytes_read = load.source_bytes_read;
  running->second.slowest = random.OneIn(3) ? absl::Seconds(12) : absl::Seconds(3);
  Soon(load.load, absl::Milliseconds(1), absl::Milliseconds(300), &DiskSite::Begin);
}

absl::Status DiskSite::NotFound(const Running& running) const {
  return status::Error(absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND",
                       absl::StrCat("object '", running.load.source_uri, "' is not there"));
}

DiskSite::Published DiskSite::Result(const Running& running, const Staged& staged) const {
  return {staged.digest, staged.plan.total_bytes(), running.source_bytes_read};
}

void DiskSite::Begin(const std::string& load, Running& running) {
  auto before = staged_.find(load);
  if (before != staged_.end() && HasVersion(before->second.digest)) {
    return Done(load, Result(running, before->second));
  }
  if (before != staged_.end() && before->second.moved) {
    // It was published, and has had to leave.
    staged_.erase(before);
    witness_->Unstaged(load);
    before = staged_.end();
  }
  if (before == staged_.end()) {
    const DatasetSources::Content* const found = sources_->Find(running.load.source_uri);
    if (found == nullptr) return Done(load, NotFound(running));
    staged_[load].plan = *found;
  } else if (before->second.parts.empty() || mutants_->load_forgets_journal) {
    before->second.parts.clear();
  } else {
    witness_->TakenUp();
  }
  running.planned_bytes = staged_[load].plan.total_bytes();
  reports_.planned(load, *running.planned_bytes);
}

void DiskSite::AdmitLoad(const std::string& load, const absl::Status& admitted) {
  const auto running = running_.find(load);
  if (running == running_.end() || !running->second.planned_bytes.has_value()) return;
  running->second.planned_bytes.reset();
  if (!admitted.ok()) return Done(load, admitted);
  NextPart(load, running->second);
}

void DiskSite::NextPart(const std::string& load, Running& running) {
  const Staged& staged = staged_.at(load);
  while (staged.parts.count(running.part) != 0) ++running.part;
  if (running.part == static_cast<int>(staged.plan.parts.size())) {
    return Soon(load, absl::Milliseconds(1), absl::Milliseconds(300), &DiskSite::Check);
  }
  running.revision = -1;
  Soon(load, absl::Milliseconds(300), running.slowest, &DiskSite::PartRead);
}

void DiskSite::PartRead(const std::string& load, Running& running) {
  const DatasetSources::Content* const found = sources_->Find(running.load.source_uri);
  if (found == nullptr) return Done(load, NotFound(running));
  if (records_->full) {
    return Done(load,
                status::Error(absl::StatusCode::kResourceExhausted, "DISK_FULL",
                              absl::StrCat("no room for part ", running.part, " of '", load, "'")));
  }
  witness_->Read(load, running.part);
  running.source_bytes_read += staged_.at(load).plan.parts[static_cast<size_t>(running.part)];
  running.revision = found->revision;
  Soon(load, absl::Milliseconds(1), absl::Milliseconds(200), &DiskSite::PartJournalled);
}

void DiskSite::PartJournalled(const std::string& load, Running& running) {
  Staged& staged = staged_.at(load);
  staged.parts[running.part] = running.revision;
  witness_->Journalled(load, running.part);
  int64_t loaded = 0;
  for (const auto& [part, revision] : staged.parts) {
    loaded += staged.plan.parts[static_cast<size_t>(part)];
  }
  reports_.progressed(load, loaded, running.source_bytes_read);
  // The report may have been the data_loader's end.
  if (running_.count(load) != 0) NextPart(load, running);
}

void DiskSite::Check(const std::string& load, Running& running) {
  const DatasetSources::Content* const found = sources_->Find(running.load.source_uri);
  if (found == nullptr) return Done(load, NotFound(running));
  if (found->revision != staged_.at(load).plan.revision) {
    return Done(load, status::Error(absl::StatusCode::kFailedPrecondition, "SOURCE_CHANGED",
                                    absl::StrCat("object '", running.load.source_uri,
                                                 "' was changed while it was loaded")));
  }
  reports_.publishing(load);
  if (running_.count(load) != 0) {
    Soon(load, absl::Milliseconds(1), absl::Seconds(1), &DiskSite::NoteDigest);
  }
}

void DiskSite::NoteDigest(const std::string& load, Running& running) {
  Staged& staged = staged_.at(load);
  staged.digest = DatasetSources::Digest(running.load.source_uri, staged.plan.revision);
  if (mutants_->version_told_early) {
    reports_.done(load, Result(running, staged));
    return Soon(load, absl::Seconds(20), absl::Seconds(40), &DiskSite::PublishLate);
  }
  Soon(load, absl::Milliseconds(1), absl::Milliseconds(200), &DiskSite::Publish);
}

void DiskSite::Rename(Staged& staged) {
  const bool whole =
      staged.parts.size() == staged.plan.parts.size() &&
      std::all_of(staged.parts.begin(), staged.parts.end(),
                  [&staged](const auto& part) { return part.second == staged.plan.revision; });
  // Equal content that is there is left as it is.
  if (versions_.insert(staged.digest).second) witness_->Appeared(staged.digest, whole);
  staged.moved = true;
}

void DiskSite::Publish(const std::string& load, Running& running) {
  Rename(staged_.at(load));
  Done(load, Result(running, staged_.at(load)));
}

void DiskSite::PublishLate(const std::string& load, Running& /*running*/) {
  Rename(staged_.at(load));
  running_.erase(load);
}

void DiskSite::Done(const std::string& load, const absl::StatusOr<Published>& result) {
  if (!result.ok()) {
    staged_.erase(load);
    witness_->Unstaged(load);
  }
  running_.erase(load);
  process_->Later(absl::ZeroDuration(), [this, load, result] { reports_.done(load, result); });
}

void DiskSite::ForgetLoad(const std::string& load) {
  if (running_.count(load) == 0) staged_.erase(load);
}

void DiskSite::CollectLoads(const std::set<std::string>& kept) {
  std::erase_if(staged_, [&kept](const auto& staged) { return kept.count(staged.first) == 0; });
}

void DiskSite::EvictVersion(const std::string& digest) {
  if (versions_.erase(digest) != 0) witness_->Leaves(digest);
}

void DiskSite::EvictAny() {
  if (!versions_.empty()) EvictVersion(std::string(*versions_.begin()));
}

void DiskSite::CollectFolders(const std::set<std::string>& kept) {
  std::erase_if(folders_, [&kept](const std::string& folder) { return kept.count(folder) == 0; });
}

}  // namespace capstan::simulation
