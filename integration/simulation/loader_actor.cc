#include "integration/simulation/loader_actor.h"

#include <set>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "services/data_loader/core/records.pb.h"

namespace capstan::simulation {

namespace pb = ::capstan::dataloader::v1;

namespace {

absl::Status NotReady() { return absl::UnavailableError("the data_loader reads its store"); }

}  // namespace

LoaderActor::LoaderActor(World* world, const MachineClock* clock, const DatasetSources* sources,
                         Witness* witness, const Mutants* mutants)
    : Process(world, "loader", clock),
      witness_(witness),
      mutants_(mutants),
      site_(this, &disk_, sources, &witness->datasets(), mutants) {
  site_.SetReports(SiteReports());
}

DiskSite::Reports LoaderActor::SiteReports() {
  // What comes while the store is read again is lost.
  return {
      .planned =
          [this](const std::string& load, int64_t total_bytes) {
            if (core_ != nullptr) Submit(core_->LoadPlanned(load, total_bytes), [] {});
          },
      .progressed =
          [this](const std::string& load, int64_t loaded_bytes, int64_t source_bytes_read) {
            if (core_ == nullptr) return;
            Submit(core_->LoadProgressed(load, loaded_bytes, source_bytes_read,
                                         /*bytes_per_second=*/1, absl::nullopt),
                   [] {});
          },
      .publishing =
          [this](const std::string& load) {
            if (core_ != nullptr) Submit(core_->LoadPublishing(load), [] {});
          },
      .done =
          [this](const std::string& load, absl::StatusOr<DiskSite::Published> result) {
            if (core_ == nullptr) return;
            // Equal content of another Dataset may have had to leave just before.
            if (result.ok() && !site_.HasVersion(result->digest) && !mutants_->version_told_early) {
              result = status::Error(absl::StatusCode::kAborted, "VERSION_EVICTED",
                                     "the version had to leave the Site while it was published");
            }
            if (!result.ok()) {
              world().Log(name(), absl::StrCat(load, " failed: ", result.status().message()));
              witness_->datasets().LoadFailed(std::string(result.status().message()));
              return Submit(core_->LoadFailed(load, result.status(), Read()), [] {});
            }
            Submit(core_->LoadPublished(load, result->digest, result->total_bytes,
                                        /*file_count=*/1, result->source_bytes_read, Read()),
                   [] {});
          }};
}

void LoaderActor::OnStart() { ReadStore(); }

void LoaderActor::ReadStore() {
  core_ = std::make_unique<data_loader::LoaderCore>(data_loader::LoaderConfig{
      .site = "sites/shared", .clusters = {}, .site_limit_bytes = kSiteLimit});
  for (const store::KeyValue& kv : disk_.Read()) {
    if (mutants_->loader_forgets_pins &&
        absl::StartsWith(kv.key, absl::StrCat(data_loader::kKeyPrefix, "pin/"))) {
      continue;
    }
    if (!core_->Load(kv).ok()) world().Violate("loader: a record can't be loaded");
  }
  CommitPipe::Options options = CommitPipe::BehindIf(mutants_->loader_acts_first);
  options.on_failed = [this] { disk_.full ? Reload() : LoseStore(); };
  pipe_ = std::make_unique<CommitPipe>(this, &disk_, options);
  data_loader::Step step = core_->Resume();
  site_.CollectFolders(core_->OutputFolders());
  site_.CollectLoads(core_->OpenLoads());
  for (const std::string& digest : core_->AbsentVersions()) site_.EvictVersion(digest);
  witness_->datasets().CheckStored(disk_);
  Submit(std::move(step), [] {});
}

void LoaderActor::Reload() {
  world().Log(name(), "reads its store again: a commit found no room");
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
  Later(absl::Seconds(1), [this] { ReadStore(); });
}

void LoaderActor::OnCrash() {
  if (pipe_ != nullptr) pipe_->Crash();
  pipe_.reset();
  core_.reset();
  site_.Crash();
}

void LoaderActor::Submit(data_loader::Step step, std::function<void()> stored,
                         std::function<void()> written) {
  pipe_->Submit(
      std::move(step.puts), std::move(step.deletes),
      [this, after = std::move(step.after), stored = std::move(stored)](int64_t) {
        for (const data_loader::Effect& effect : after) {
          if (core_ != nullptr) CarryOut(effect);
        }
        stored();
      },
      std::move(written));
}

void LoaderActor::CarryOut(const data_loader::Effect& effect) {
  if (const auto* start = std::get_if<data_loader::StartLoad>(&effect)) {
    site_.StartLoad(*start);
  } else if (const auto* remove = std::get_if<data_loader::RemoveFolder>(&effect)) {
    site_.RemoveFolder(remove->folder);
  } else if (const auto* evict = std::get_if<data_loader::EvictVersion>(&effect)) {
    site_.EvictVersion(evict->manifest_digest);
  } else if (const auto* plan = std::get_if<data_loader::AnswerPlan>(&effect)) {
    AnswerPlan(*plan);
  } else if (const auto* forget = std::get_if<data_loader::ForgetLoad>(&effect)) {
    site_.ForgetLoad(forget->load);
  }
}

void LoaderActor::AnswerPlan(const data_loader::AnswerPlan& plan) {
  if (mutants_->eviction_ignores_pins && status::Reason(plan.admitted) == "SITE_FULL") {
    site_.EvictAny();
    return site_.AdmitLoad(plan.load, absl::OkStatus());
  }
  site_.AdmitLoad(plan.load, plan.admitted);
}

// As the engine names loads.
std::string LoaderActor::NewId() { return absl::StrCat("load-", world().random().Uuid4()); }

void LoaderActor::CreateDataset(const pb::CreateDatasetRequest& request,
                                const Reply<pb::Dataset>& reply) {
  if (core_ == nullptr) return reply(NotReady());
  auto made = core_->CreateDataset(request, world().random().Uuid4(), Read());
  if (!made.ok()) return reply(made.status());
  Submit(std::move(made->step), [reply, dataset = made->response] { reply(dataset); });
}

void LoaderActor::EnsureLoad(const pb::EnsureDataLoadRequest& request,
                             const Reply<pb::DataLoad>& reply) {
  if (core_ == nullptr) return reply(NotReady());
  auto ensured = core_->EnsureLoad(request, NewId(), Read());
  if (!ensured.ok()) {
    witness_->datasets().LoadFailed(std::string(ensured.status().message()));
    return reply(ensured.status());
  }
  Submit(std::move(ensured->step), [reply, load = ensured->response] { reply(load); });
}

void LoaderActor::GetLoad(const std::string& name, const Reply<pb::DataLoad>& reply) {
  data_loader::LoadRecord record;
  const auto stored = disk_.records.find(data_loader::LoadKey(name));
  if (stored == disk_.records.end() || !record.ParseFromString(stored->second)) {
    return reply(status::NotFound(name));
  }
  reply(record.load());
}

void LoaderActor::PinVersion(const pb::PinVersionRequest& request, const std::string& node,
                             const Reply<pb::PinVersionResponse>& reply) {
  if (core_ == nullptr) return reply(NotReady());
  auto decided = core_->PinVersion(request, node, NewId(), Read());
  if (!decided.ok()) return reply(decided.status());
  Submit(std::move(decided->step), [this, request, node, reply, pinned = decided->response] {
    if (!pinned.there.ok()) return reply(pinned.there);
    witness_->datasets().PinAcknowledged(request.holder(), node, request.version(),
                                         pinned.manifest_digest, disk_);
    pb::PinVersionResponse response;
    response.set_directory(DatasetWitness::Folder(pinned.manifest_digest));
    response.set_manifest_digest(pinned.manifest_digest);
    response.set_total_bytes(pinned.total_bytes);
    reply(response);
  });
}

void LoaderActor::ReleasePins(const std::string& holder, const std::string& node,
                              const Reply<bool>& reply) {
  if (core_ == nullptr) return reply(NotReady());
  witness_->datasets().ReleaseAsked(holder, node);
  Submit(core_->ReleasePins(holder, node, Read()), [reply] { reply(true); });
}

void LoaderActor::OpenOutput(const pb::OpenOutputRequest& request,
                             const Reply<pb::OpenOutputResponse>& reply) {
  if (core_ == nullptr) return reply(NotReady());
  if (mutants_->output_not_opened) {
    // The newest checkpoint, read without raising the generation above the first.
    pb::OpenOutputRequest first = request;
    first.set_generation(1);
    auto opened = core_->OpenOutput(first);
    if (!opened.ok()) return reply(opened.status());
    opened->response.set_staging_root(absl::StrCat("/site/outputs/", request.job_uid()));
    return Submit(std::move(opened->step),
                  [reply, response = opened->response] { reply(response); });
  }
  auto opened = core_->OpenOutput(request);
  if (!opened.ok()) return reply(opened.status());
  opened->response.set_staging_root(
      absl::StrCat("/site/outputs/", request.job_uid(), "/staging-", request.generation()));
  Submit(std::move(opened->step), [this, reply, response = opened->response] {
    const std::string& newest = response.resume_from().directory();
    if (!newest.empty() && !site_.HasFolder(newest.substr(newest.find("outputs/")))) {
      world().Violate(absl::StrCat(newest, " is to be begun from, and is not at the Site"));
    }
    reply(response);
  });
}

void LoaderActor::CommitOutput(const pb::CommitOutputRequest& request,
                               Reply<pb::CommitOutputResponse> reply) {
  if (core_ == nullptr) return reply(NotReady());
  pb::CommitOutputRequest asked = request;
  // With the mutant every generation writes as the first, which is the one left open.
  if (mutants_->output_not_opened) asked.set_generation(1);
  const auto before = core_->CheckCommit(asked);
  if (!before.ok()) return reply(before.status());
  if (before->has_value() && !mutants_->output_not_opened) {
    // Its record may still be on its way to the disk.
    return Submit({}, [reply, response = **before] { reply(response); });
  }
  // Copying the files takes a while, in which anything may happen.
  Later(world().random().Between(absl::Milliseconds(5), absl::Seconds(2)),
        [this, request, asked, reply = std::move(reply)] {
          // The copy that no record comes to name is collected when the store has been read.
          if (core_ == nullptr) return reply(NotReady());
          data_loader::StagedOutput staged;
          staged.request = asked;
          staged.manifest_digest = "sha256:" + std::string(64, 'a');
          staged.folder = absl::StrCat("outputs/", request.job_uid(), "/g", request.generation(),
                                       "-", ++copies_, "-s", request.checkpoint_step());
          staged.directory = "/site/" + staged.folder;
          site_.AddFolder(staged.folder);
          auto decided = core_->CommitOutput(staged, Read());
          if (!decided.ok()) {
            site_.RemoveFolder(staged.folder);
            return reply(decided.status());
          }
          std::function<void()> written;
          if (request.what_case() == pb::CommitOutputRequest::kCheckpointStep) {
            written = [witness = witness_, request] {
              witness->Committed(request.job_uid(), request.generation(),
                                 request.checkpoint_step());
            };
          }
          Submit(
              std::move(decided->step), [reply, response = decided->response] { reply(response); },
              std::move(written));
        });
}

}  // namespace capstan::simulation
