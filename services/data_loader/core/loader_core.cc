#include "services/data_loader/core/loader_core.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/content/manifest.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/core/dataset_request.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr absl::Duration kRequestLife = absl::Hours(24);

bool IsFinal(const pb::DataLoad& load) {
  return load.state() == pb::DataLoad::STATE_SUCCEEDED ||
         load.state() == pb::DataLoad::STATE_FAILED;
}

std::string Key(absl::string_view kind, const std::string& name) {
  return absl::StrCat(kKeyPrefix, kind, "/", name);
}

std::string ProjectOf(const std::string& name) {
  // `projects/{p}/…`: callers have checked the form.
  return name.substr(0, name.find('/', absl::string_view("projects/").size()));
}

}  // namespace

std::string DatasetKey(const std::string& name) { return Key("dataset", name); }
std::string VersionKey(const std::string& name) { return Key("version", name); }
std::string LoadKey(const std::string& name) { return Key("load", name); }
std::string BundleKey(const std::string& name) { return Key("bundle", name); }
std::string OutputKey(const std::string& name) { return Key("output", name); }

absl::Status LoaderCore::Load(const store::KeyValue& kv) {
  absl::string_view rest = kv.key;
  if (!absl::ConsumePrefix(&rest, kKeyPrefix)) return absl::OkStatus();
  const size_t slash = rest.find('/');
  const absl::string_view kind = rest.substr(0, slash);
  const std::string name(slash == absl::string_view::npos ? "" : rest.substr(slash + 1));
  if (kind == "dataset") return store::ParseRecord(kv, kSchemaVersion, &datasets_[name]);
  if (kind == "version") return store::ParseRecord(kv, kSchemaVersion, &versions_[name]);
  if (kind == "load") return store::ParseRecord(kv, kSchemaVersion, &loads_[name]);
  if (kind == "bundle") return store::ParseRecord(kv, kSchemaVersion, &bundles_[name]);
  if (kind == "output") return store::ParseRecord(kv, kSchemaVersion, &outputs_[name]);
  if (kind == "request") {
    RequestRecord record;
    CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchemaVersion, &record));
    if (absl::StartsWith(name, kReleasedPrefix)) {
      released_by_time_.emplace(ToTime(record.expire_time()), record.resource());
      released_.insert(std::move(*record.mutable_resource()));
    } else {
      requests_[name] = std::move(record);
    }
  }
  if (kind == "pin") {
    PinRecord pin;
    CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchemaVersion, &pin));
    pins_[name.substr(0, name.find('|'))].emplace(pin.node(), pin.resource());
  }
  return absl::OkStatus();
}

Step LoaderCore::Resume() {
  Step step;
  std::vector<const LoadRecord*> open;
  for (const std::string& name : OpenLoads()) open.push_back(&loads_.at(name));
  // What was under way goes first, then by age.
  std::sort(open.begin(), open.end(), [](const LoadRecord* a, const LoadRecord* b) {
    const bool a_queued = a->load().state() == pb::DataLoad::STATE_QUEUED;
    const bool b_queued = b->load().state() == pb::DataLoad::STATE_QUEUED;
    if (a_queued != b_queued) return b_queued;
    const absl::Time a_time = ToTime(a->load().create_time());
    const absl::Time b_time = ToTime(b->load().create_time());
    return a_time != b_time ? a_time < b_time : a->load().name() < b->load().name();
  });
  for (const LoadRecord* record : open) queued_.push_back(record->load().name());
  StartQueued(step);
  return step;
}

std::set<std::string> LoaderCore::OpenLoads() const {
  std::set<std::string> open;
  for (const auto& [name, record] : loads_) {
    if (!IsFinal(record.load())) open.insert(name);
  }
  return open;
}

void LoaderCore::PutLoad(const LoadRecord& record, Step& step) {
  step.puts.push_back({LoadKey(record.load().name()), record.SerializeAsString()});
}

void LoaderCore::StartQueued(Step& step) {
  while (!queued_.empty() && static_cast<int>(running_.size()) < config_.max_running_loads) {
    const std::string name = queued_.front();
    queued_.pop_front();
    LoadRecord& record = loads_.at(name);
    running_.insert(name);
    // An attempt that was cut short keeps its room, for what it has staged is there.
    if (record.load().total_bytes() > 0) reserved_[name] = record.load().total_bytes();
    record.mutable_load()->set_state(pb::DataLoad::STATE_PLANNING);
    record.mutable_load()->clear_reason();
    record.mutable_load()->clear_message();
    PutLoad(record, step);
    const pb::Dataset& dataset = datasets_.at(record.load().dataset()).dataset();
    step.after.push_back(StartLoad{name,
                                   dataset.source_uri(),
                                   {dataset.objects().begin(), dataset.objects().end()},
                                   record.load().source_bytes_read()});
  }
}

bool LoaderCore::Reaches(const std::string& cluster) const {
  return cluster.empty() || config_.clusters.empty() ||
         std::find(config_.clusters.begin(), config_.clusters.end(), cluster) !=
             config_.clusters.end();
}

DecisionOr<pb::Dataset> LoaderCore::CreateDataset(const pb::CreateDatasetRequest& request,
                                                  const std::string& uid, Now now) {
  CAPSTAN_RETURN_IF_ERROR(CheckCreateDataset(request));
  const std::string name = absl::StrCat(request.parent(), "/datasets/", request.dataset_id());
  const std::string body_hash = Sha256::Of(DeterministicBytes(request));
  Decision<pb::Dataset> decision;
  for (auto it = requests_.begin(); it != requests_.end();) {
    if (ToTime(it->second.expire_time()) > now.wall) {
      ++it;
      continue;
    }
    decision.step.deletes.push_back({Key("request", it->first), ""});
    it = requests_.erase(it);
  }
  if (!request.request_id().empty()) {
    const auto seen = requests_.find(request.request_id());
    if (seen != requests_.end()) {
      if (seen->second.body_hash() != body_hash) {
        return status::Error(
            absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
            absl::StrCat("request_id '", request.request_id(),
                         "' was used with another body within the last 24 h; use a "
                         "fresh UUID for a new request"));
      }
      decision.response = datasets_.at(seen->second.resource()).dataset();
      return decision;
    }
  }
  if (datasets_.count(name) != 0) {
    return status::Error(absl::StatusCode::kAlreadyExists, "DATASET_EXISTS",
                         absl::StrCat("dataset '", name, "' already exists; choose another id"),
                         {{"name", name}});
  }
  DatasetRecord record;
  record.set_schema_version(kSchemaVersion);
  pb::Dataset& dataset = *record.mutable_dataset();
  dataset = request.dataset();
  // Unchecked, and a later version may know them.
  dataset.DiscardUnknownFields();
  dataset.set_name(name);
  dataset.set_uid(uid);
  dataset.set_etag(absl::StrCat("\"", uid, "\""));
  dataset.clear_latest_version();
  *dataset.mutable_create_time() = ToProto(now.wall);
  decision.step.puts.push_back({DatasetKey(name), record.SerializeAsString()});
  if (!request.request_id().empty()) {
    RequestRecord seen;
    seen.set_schema_version(kSchemaVersion);
    seen.set_body_hash(body_hash);
    seen.set_resource(name);
    *seen.mutable_expire_time() = ToProto(now.wall + kRequestLife);
    decision.step.puts.push_back({Key("request", request.request_id()), seen.SerializeAsString()});
    requests_[request.request_id()] = seen;
  }
  decision.response = dataset;
  datasets_[name] = std::move(record);
  return decision;
}

absl::Status LoaderCore::VersionGone(const std::string& version, const std::string& newest) {
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "VERSION_GONE",
      absl::StrCat("version '", version, "' has left the Site, and its source has '", newest,
                   "' now; submit the Job again to use that"));
}

DecisionOr<pb::DataLoad> LoaderCore::EnsureLoad(const pb::EnsureDataLoadRequest& request,
                                                const std::string& new_id, Now now) {
  const auto found = datasets_.find(request.dataset());
  if (found == datasets_.end()) return status::NotFound(request.dataset());
  if (!Reaches(request.cluster())) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "SITE_NOT_REACHED",
                         absl::StrCat("cluster '", request.cluster(),
                                      "' reaches no Site of this "
                                      "data_loader"),
                         {{"cluster", request.cluster()}});
  }
  DatasetRecord& dataset = found->second;
  Decision<pb::DataLoad> decision;
  if (!request.version().empty()) {
    // A version is immutable: either a load has brought it, or it can't be made again by name.
    const std::string version = absl::StrCat(request.dataset(), "/versions/", request.version());
    const auto known = versions_.find(version);
    if (known == versions_.end()) return status::NotFound(version);
    if (!known->second.absent()) {
      for (const auto& [name, record] : loads_) {
        if (record.load().version() == version &&
            record.load().state() == pb::DataLoad::STATE_SUCCEEDED) {
          decision.response = record.load();
          return decision;
        }
      }
      return status::NotFound(version);
    }
  }
  if (!dataset.latest_load().empty()) {
    const pb::DataLoad& load = loads_.at(dataset.latest_load()).load();
    const bool left =
        load.state() == pb::DataLoad::STATE_SUCCEEDED && versions_.at(load.version()).absent();
    if (!request.version().empty() && load.state() == pb::DataLoad::STATE_SUCCEEDED && !left) {
      // The one that was asked for has left, and is not what its source has now.
      return VersionGone(absl::StrCat(request.dataset(), "/versions/", request.version()),
                         load.version());
    }
    if (!left && (load.state() != pb::DataLoad::STATE_FAILED || !request.retry_failed())) {
      decision.response = load;
      return decision;
    }
  }
  decision.response = NewLoad(dataset, new_id, now, decision.step);
  return decision;
}

const pb::DataLoad& LoaderCore::NewLoad(DatasetRecord& dataset, const std::string& new_id, Now now,
                                        Step& step) {
  LoadRecord record;
  record.set_schema_version(kSchemaVersion);
  pb::DataLoad& load = *record.mutable_load();
  load.set_name(absl::StrCat(ProjectOf(dataset.dataset().name()), "/dataLoads/", new_id));
  load.set_dataset(dataset.dataset().name());
  load.set_site(config_.site);
  load.set_state(pb::DataLoad::STATE_QUEUED);
  *load.mutable_create_time() = ToProto(now.wall);
  const std::string name = load.name();
  dataset.set_latest_load(name);
  step.puts.push_back({DatasetKey(dataset.dataset().name()), dataset.SerializeAsString()});
  loads_[name] = std::move(record);
  queued_.push_back(name);
  StartQueued(step);
  if (loads_.at(name).load().state() == pb::DataLoad::STATE_QUEUED) {
    PutLoad(loads_.at(name), step);
  }
  return loads_.at(name).load();
}

Step LoaderCore::LoadPlanned(const std::string& load, int64_t total_bytes) {
  Step step;
  if (running_.count(load) == 0) {
    const auto found = loads_.find(load);
    // One that waits for room is told when it is started again; nobody would ever tell this one.
    if (found == loads_.end() || IsFinal(found->second.load())) {
      step.after.push_back(
          AnswerPlan{load, status::Error(absl::StatusCode::kAborted, "LOAD_ENDED",
                                         absl::StrCat("'", load, "' has ended before"))});
    }
    return step;
  }
  LoadRecord& record = loads_.at(load);
  reserved_.erase(load);
  content::SiteSpace space{config_.site_limit_bytes, 0};
  for (const auto& [other, bytes] : reserved_) space.reserved_bytes += bytes;
  const absl::StatusOr<std::vector<std::string>> leaving = content::MakeRoom(
      space, Held(), total_bytes, absl::StrCat("Dataset '", record.load().dataset(), "'"));
  if (!leaving.ok()) {
    step.after.push_back(AnswerPlan{load, leaving.status()});
    return step;
  }
  for (const std::string& digest : *leaving) {
    for (auto& [name, version] : versions_) {
      if (version.version().manifest_digest() != digest || version.absent()) continue;
      version.set_absent(true);
      step.puts.push_back({VersionKey(name), version.SerializeAsString()});
    }
    step.after.push_back(EvictVersion{digest});
  }
  reserved_[load] = total_bytes;
  record.mutable_load()->set_state(pb::DataLoad::STATE_LOADING);
  record.mutable_load()->set_total_bytes(total_bytes);
  PutLoad(record, step);
  step.after.push_back(AnswerPlan{load, absl::OkStatus()});
  return step;
}

std::vector<content::HeldContent> LoaderCore::Held() const {
  std::map<std::string, content::HeldContent> held;
  std::map<std::string, std::string> digests;
  for (const auto& [name, record] : versions_) {
    if (record.absent()) continue;
    const std::string& digest = record.version().manifest_digest();
    digests[name] = digest;
    content::HeldContent& content = held[digest];
    content.key = digest;
    content.bytes = record.version().total_bytes();
    content.last_use = std::max(content.last_use, ToTime(record.last_use_time()));
  }
  for (const auto& [holder, pins] : pins_) {
    for (const auto& [node, resource] : pins) {
      const auto found = digests.find(resource);
      if (found == digests.end()) continue;
      held.at(found->second).jobs.push_back(holder.substr(0, holder.find('/')));
    }
  }
  // A load may be about to find that its Dataset's version is there already.
  for (const std::string& load : running_) {
    const std::string& dataset = loads_.at(load).load().dataset();
    const auto found = digests.find(datasets_.at(dataset).dataset().latest_version());
    if (found != digests.end()) held.at(found->second).jobs.push_back(load);
  }
  std::vector<content::HeldContent> list;
  list.reserve(held.size());
  for (auto& [digest, content] : held) list.push_back(std::move(content));
  return list;
}

Step LoaderCore::LoadProgressed(const std::string& load, int64_t loaded_bytes,
                                int64_t source_bytes_read, double bytes_per_second,
                                absl::optional<absl::Duration> eta) {
  Step step;
  if (running_.count(load) == 0) return step;
  LoadRecord& record = loads_.at(load);
  record.mutable_load()->set_loaded_bytes(loaded_bytes);
  record.mutable_load()->set_source_bytes_read(source_bytes_read);
  record.mutable_load()->set_bytes_per_second(bytes_per_second);
  record.mutable_load()->clear_eta();
  if (eta.has_value()) *record.mutable_load()->mutable_eta() = ToProto(*eta);
  PutLoad(record, step);
  return step;
}

Step LoaderCore::LoadPublishing(const std::string& load) {
  Step step;
  if (running_.count(load) == 0) return step;
  LoadRecord& record = loads_.at(load);
  record.mutable_load()->set_state(pb::DataLoad::STATE_PUBLISHING);
  PutLoad(record, step);
  return step;
}

Step LoaderCore::LoadPublished(const std::string& load, const std::string& manifest_digest,
                               int64_t total_bytes, int64_t file_count, int64_t source_bytes_read,
                               Now now) {
  Step step;
  if (running_.erase(load) == 0) return step;
  reserved_.erase(load);
  LoadRecord& record = loads_.at(load);
  pb::DataLoad& done = *record.mutable_load();
  DatasetRecord& dataset = datasets_.at(done.dataset());
  const std::string name =
      absl::StrCat(done.dataset(), "/versions/", content::VersionId(manifest_digest));
  if (versions_.count(name) == 0) {
    VersionRecord version;
    version.set_schema_version(kSchemaVersion);
    version.mutable_version()->set_name(name);
    version.mutable_version()->set_manifest_digest(manifest_digest);
    version.mutable_version()->set_total_bytes(total_bytes);
    version.mutable_version()->set_file_count(file_count);
    *version.mutable_version()->mutable_create_time() = ToProto(now.wall);
    versions_[name] = std::move(version);
  }
  for (auto& [other, version] : versions_) {
    // Datasets of equal content have one copy.
    if (version.version().manifest_digest() != manifest_digest) continue;
    version.set_absent(false);
    *version.mutable_last_use_time() = ToProto(now.wall);
    step.puts.push_back({VersionKey(other), version.SerializeAsString()});
  }
  dataset.mutable_dataset()->set_latest_version(name);
  step.puts.push_back({DatasetKey(done.dataset()), dataset.SerializeAsString()});
  done.set_state(pb::DataLoad::STATE_SUCCEEDED);
  done.set_version(name);
  done.set_total_bytes(total_bytes);
  done.set_loaded_bytes(total_bytes);
  done.set_source_bytes_read(source_bytes_read);
  done.clear_eta();
  *done.mutable_end_time() = ToProto(now.wall);
  PutLoad(record, step);
  step.after.push_back(ForgetLoad{load});
  TryWaiting(step);
  return step;
}

Step LoaderCore::LoadFailed(const std::string& load, const absl::Status& error, Now now) {
  Step step;
  if (running_.erase(load) == 0) return step;
  reserved_.erase(load);
  LoadRecord& record = loads_.at(load);
  pb::DataLoad& failed = *record.mutable_load();
  const std::string reason = status::Reason(error);
  failed.set_reason(reason.empty() ? "LOAD_FAILED" : reason);
  failed.set_message(std::string(error.message()));
  failed.clear_eta();
  if (reason == "SITE_FULL" && IsWaitedFor(load)) {
    failed.set_state(pb::DataLoad::STATE_QUEUED);
    failed.clear_total_bytes();
    PutLoad(record, step);
    // What it promised itself is nobody's now, but that alone is no room: only those queued go on.
    waiting_.push_back(load);
    StartQueued(step);
    return step;
  }
  failed.set_state(pb::DataLoad::STATE_FAILED);
  *failed.mutable_end_time() = ToProto(now.wall);
  PutLoad(record, step);
  step.after.push_back(ForgetLoad{load});
  TryWaiting(step);
  return step;
}

Decision<pb::Bundle> LoaderCore::BundleStored(const std::string& parent, const std::string& digest,
                                              int64_t total_bytes, int64_t file_count, Now now) {
  const std::string name = absl::StrCat(parent, "/bundles/", absl::StripPrefix(digest, "sha256:"));
  Decision<pb::Bundle> decision;
  const auto [it, added] = bundles_.emplace(name, BundleRecord());
  if (added) {
    it->second.set_schema_version(kSchemaVersion);
    pb::Bundle& bundle = *it->second.mutable_bundle();
    bundle.set_name(name);
    bundle.set_digest(digest);
    bundle.set_total_bytes(total_bytes);
    bundle.set_file_count(file_count);
    *bundle.mutable_create_time() = ToProto(now.wall);
    decision.step.puts.push_back({BundleKey(name), it->second.SerializeAsString()});
  }
  decision.response = it->second.bundle();
  return decision;
}

}  // namespace capstan::data_loader
