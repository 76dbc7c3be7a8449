// Pins, what they allow to be read, and versions that come back to the Site for them.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

// How old a noted use must be before the next one is worth a write.
constexpr absl::Duration kUseGrain = absl::Minutes(10);
constexpr absl::Duration kAskAgain = absl::Seconds(2);
// Twice the longest that a Task may live without a word from the scheduler.
constexpr absl::Duration kRememberReleased = absl::Hours(48);
constexpr size_t kMaxReleased = 200'000;
// More than one, so that fewer are kept in the end; few, so that a step stays small.
constexpr int kForgottenAtOnce = 16;

std::string PinKey(const std::string& holder, const std::string& node,
                   const std::string& resource) {
  return absl::StrCat(kKeyPrefix, "pin/", holder, "|", node, node.empty() ? "" : "|", resource);
}

std::string ReleasedKey(const std::string& holder) {
  return absl::StrCat(kKeyPrefix, "request/", kReleasedPrefix, holder);
}

absl::Status OnItsWay(const pb::DataLoad& load) {
  if (load.state() == pb::DataLoad::STATE_QUEUED && !load.reason().empty()) {
    return status::WithRetryDelay(
        status::Error(
            absl::StatusCode::kUnavailable, "VERSION_WAITS_FOR_ROOM",
            absl::StrCat("the version had to leave the Site, and '", load.name(),
                         "', which is to bring it again, waits for room: ", load.message()),
            {{"load", load.name()}}),
        kAskAgain);
  }
  return status::WithRetryDelay(
      status::Error(
          absl::StatusCode::kUnavailable, "VERSION_ON_ITS_WAY",
          absl::StrCat("the version had to leave the Site and is brought again by '", load.name(),
                       "': ", load.loaded_bytes(), " of ", load.total_bytes(), " bytes"),
          {{"load", load.name()}}),
      kAskAgain);
}

}  // namespace

void LoaderCore::Touch(VersionRecord& record, Now now, Step& step) {
  if (now.wall - ToTime(record.last_use_time()) < kUseGrain) return;
  *record.mutable_last_use_time() = ToProto(now.wall);
  step.puts.push_back({VersionKey(record.version().name()), record.SerializeAsString()});
}

bool LoaderCore::Pin(const std::string& holder, const std::string& node,
                     const std::string& resource, Step& step) {
  if (!pins_[holder].emplace(node, resource).second) return false;
  PinRecord pin;
  pin.set_schema_version(kSchemaVersion);
  pin.set_resource(resource);
  pin.set_node(node);
  step.puts.push_back({PinKey(holder, node, resource), pin.SerializeAsString()});
  return true;
}

absl::Status LoaderCore::CheckHolder(const std::string& holder) const {
  if (released_.count(holder) == 0) return absl::OkStatus();
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "HOLDER_RELEASED",
      absl::StrCat("'", holder, "' has ended and its pins were released; nothing is held for it"),
      {{"holder", holder}});
}

void LoaderCore::NoteReleased(const std::string& holder, Now now, Step& step) {
  // The scheduler says it again where it has not heard the answer.
  if (!released_.insert(holder).second) return;
  RequestRecord record;
  record.set_schema_version(kSchemaVersion);
  record.set_resource(holder);
  *record.mutable_expire_time() = ToProto(now.wall + kRememberReleased);
  released_by_time_.emplace(ToTime(record.expire_time()), holder);
  step.puts.push_back({ReleasedKey(holder), record.SerializeAsString()});
  for (int i = 0; i < kForgottenAtOnce; ++i) {
    const auto oldest = released_by_time_.begin();
    if (oldest->first > now.wall && released_.size() <= kMaxReleased) break;
    step.deletes.push_back({ReleasedKey(oldest->second), ""});
    released_.erase(oldest->second);
    released_by_time_.erase(oldest);
  }
}

DecisionOr<Pinned> LoaderCore::PinVersion(const pb::PinVersionRequest& request,
                                          const std::string& node, const std::string& new_id,
                                          Now now) {
  const auto found = versions_.find(request.version());
  if (found == versions_.end()) return status::NotFound(request.version());
  CAPSTAN_RETURN_IF_ERROR(CheckHolder(request.holder()));
  VersionRecord& record = found->second;
  Decision<Pinned> decision;
  decision.response.manifest_digest = record.version().manifest_digest();
  decision.response.total_bytes = record.version().total_bytes();
  // Also while it is absent, so that it stays when it has come.
  Pin(request.holder(), node, request.version(), decision.step);
  if (!record.absent()) {
    Touch(record, now, decision.step);
    return decision;
  }
  DatasetRecord& dataset =
      datasets_.at(request.version().substr(0, request.version().rfind("/versions/")));
  const pb::DataLoad& latest = loads_.at(dataset.latest_load()).load();
  switch (latest.state()) {
    case pb::DataLoad::STATE_SUCCEEDED:
      if (latest.version() == request.version()) {
        decision.response.there = OnItsWay(NewLoad(dataset, new_id, now, decision.step));
      } else {
        decision.response.there = VersionGone(request.version(), latest.version());
      }
      break;
    case pb::DataLoad::STATE_FAILED:
      decision.response.there = status::Error(
          absl::StatusCode::kFailedPrecondition, latest.reason(),
          absl::StrCat("version '", request.version(), "' has left the Site, and '", latest.name(),
                       "', which was to bring it again, failed: ", latest.message()));
      break;
    default:
      decision.response.there = OnItsWay(latest);
  }
  return decision;
}

DecisionOr<Pinned> LoaderCore::PinBundle(const pb::PinBundleRequest& request,
                                         const std::string& node) {
  const auto found = bundles_.find(request.name());
  if (found == bundles_.end()) return status::NotFound(request.name());
  CAPSTAN_RETURN_IF_ERROR(CheckHolder(request.holder()));
  Decision<Pinned> decision;
  Pin(request.holder(), node, request.name(), decision.step);
  decision.response.manifest_digest = found->second.bundle().digest();
  decision.response.total_bytes = found->second.bundle().total_bytes();
  return decision;
}

Step LoaderCore::ReleasePins(const std::string& holder, const std::string& node, Now now) {
  Step step;
  if (node.empty()) NoteReleased(holder, now, step);
  const auto found = pins_.find(holder);
  if (found == pins_.end()) return step;
  bool released = false;
  for (auto it = found->second.begin(); it != found->second.end();) {
    if (!node.empty() && it->first != node) {
      ++it;
      continue;
    }
    step.deletes.push_back({PinKey(holder, it->first, it->second), ""});
    const auto version = versions_.find(it->second);
    it = found->second.erase(it);
    released = true;
    if (version != versions_.end() && !version->second.absent()) {
      Touch(version->second, now, step);
    }
  }
  if (found->second.empty()) pins_.erase(found);
  if (released) TryWaiting(step);
  return step;
}

absl::StatusOr<LoaderCore::VersionState> LoaderCore::FindVersion(const std::string& name) const {
  const auto found = versions_.find(name);
  if (found == versions_.end()) return status::NotFound(name);
  VersionState state;
  state.version = found->second.version();
  state.absent = found->second.absent();
  const DatasetRecord& dataset = datasets_.at(name.substr(0, name.rfind("/versions/")));
  if (state.absent && running_.count(dataset.latest_load()) != 0) {
    state.loaded_bytes = loads_.at(dataset.latest_load()).load().loaded_bytes();
  }
  for (const auto& [holder, pins] : pins_) {
    for (const auto& [node, resource] : pins) {
      if (resource == name) state.holders[node].push_back(holder);
    }
  }
  return state;
}

bool LoaderCore::IsWaitedFor(const std::string& load) const {
  const std::string& dataset = loads_.at(load).load().dataset();
  if (datasets_.at(dataset).latest_load() != load) return false;
  for (const auto& [holder, pins] : pins_) {
    for (const auto& [node, resource] : pins) {
      const auto version = versions_.find(resource);
      if (version != versions_.end() && version->second.absent() &&
          resource.substr(0, resource.rfind("/versions/")) == dataset) {
        return true;
      }
    }
  }
  return false;
}

void LoaderCore::TryWaiting(Step& step) {
  // Before those that have not had a turn yet, in their own order.
  queued_.insert(queued_.begin(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  StartQueued(step);
}

absl::StatusOr<ReadableContent> LoaderCore::CheckRead(const pb::ContentRef& content,
                                                      const std::string& node) const {
  const std::string& resource = content.resource();
  const std::string hex(absl::StripPrefix(content.manifest_digest(), "sha256:"));
  if (absl::EndsWith(resource, "/output")) {
    const auto found = outputs_.find(resource);
    if (found == outputs_.end()) return status::NotFound(resource);
    const pb::Output& output = found->second.output();
    if (content.holder() != absl::StrCat(output.job_uid(), "/", output.generation())) {
      return status::NotFound(resource);
    }
    for (const pb::Checkpoint& checkpoint : output.checkpoints()) {
      if (checkpoint.manifest_digest() != content.manifest_digest()) continue;
      const std::string& directory = checkpoint.directory();
      return ReadableContent{directory.substr(directory.rfind("/outputs/") + 1),
                             content.manifest_digest()};
    }
    return status::NotFound(resource);
  }
  const auto pins = pins_.find(content.holder());
  if (pins == pins_.end() || pins->second.count({node, resource}) == 0) {
    return status::NotFound(resource);
  }
  const auto version = versions_.find(resource);
  if (version != versions_.end() && !version->second.absent() &&
      version->second.version().manifest_digest() == content.manifest_digest()) {
    return ReadableContent{absl::StrCat("versions/", hex), content.manifest_digest()};
  }
  const auto bundle = bundles_.find(resource);
  if (bundle != bundles_.end() && bundle->second.bundle().digest() == content.manifest_digest()) {
    return ReadableContent{absl::StrCat("bundles/", hex), content.manifest_digest()};
  }
  return status::NotFound(resource);
}

std::set<std::string> LoaderCore::AbsentVersions() const {
  std::set<std::string> loading;
  for (const std::string& load : OpenLoads()) loading.insert(loads_.at(load).load().dataset());
  std::set<std::string> absent;
  for (const auto& [name, record] : versions_) {
    if (record.absent()) absent.insert(record.version().manifest_digest());
  }
  for (const auto& [name, record] : versions_) {
    if (!record.absent() || loading.count(name.substr(0, name.rfind("/versions/"))) != 0) {
      absent.erase(record.version().manifest_digest());
    }
  }
  return absent;
}

}  // namespace capstan::data_loader
