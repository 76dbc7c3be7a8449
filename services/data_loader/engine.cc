#include "services/data_loader/engine.h"

#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/engine/core_loop.h"
#include "libs/engine/submit_in_pieces.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr absl::Duration kReloadDelay = absl::Seconds(1);
// Of one answer.
constexpr int kMaxHolders = 100;
constexpr int kMaxSites = 10'000;

absl::StatusOr<pb::PinVersionResponse> Found(const Pinned& pinned, const std::string& directory) {
  if (!pinned.there.ok()) return pinned.there;
  pb::PinVersionResponse response;
  response.set_directory(directory);
  response.set_manifest_digest(pinned.manifest_digest);
  response.set_total_bytes(pinned.total_bytes);
  return response;
}

// `clusters/c/nodes/n` as `c/n`, and back. A name of another form is no Node's.
std::string NodeIdOf(const std::string& name) {
  const absl::StatusOr<resource::NodeName> parsed = resource::NodeName::Parse(name);
  return parsed.ok() ? absl::StrCat(parsed->cluster, "/", parsed->node) : "";
}
std::string NodeNameOf(const std::string& id) {
  const size_t slash = id.find('/');
  return resource::NodeName{id.substr(0, slash), id.substr(slash + 1)}.ToString();
}

}  // namespace

Engine::Engine(EngineConfig config, store::Store* store, Site* site, Strand* strand, Random random,
               log::Logger* logger, metrics::Registry* metrics)
    : config_(std::move(config)),
      store_(store),
      site_(site),
      strand_(strand),
      random_(random),
      logger_(logger) {
  if (metrics == nullptr) return;
  const auto counter = [&](const char* outcome) {
    return metrics->AddCounter("loads_total", "DataLoads that ended.", {{"outcome", outcome}});
  };
  loads_ = Loads{counter("loaded"), counter("failed"), counter("no_room")};
}

void Engine::Start(absl::AnyInvocable<void(absl::Status)> ready) {
  SetReports();
  if (!config_.leadership.has_value()) {
    ready_ = std::move(ready);
    const absl::Status taken = site_->TakeOver();
    if (!taken.ok()) return Refused(taken);
    return Read();
  }
  leadership_ = std::make_unique<store::Leadership>(store_, strand_, *config_.leadership);
  leadership_->Start({.on_gained =
                          [this] {
                            logger_->Info("acting at the Site", {{"epoch", leadership_->epoch()}});
                            const absl::Status taken = site_->TakeOver();
                            if (!taken.ok()) return Refused(taken);
                            Read();
                          },
                      .on_lost =
                          [this](const absl::Status& why) {
                            if (!stopped_) Refused(why);
                          }});
  ready(absl::OkStatus());
}

void Engine::Stop() {
  stopped_ = true;
  core_.reset();
  queue_.reset();
}

void Engine::Resign(store::DoneCallback done) {
  if (leadership_ == nullptr) {
    return strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }
  leadership_->Resign(std::move(done));
}

// The process can't act at the Site.
void Engine::Refused(const absl::Status& why) {
  Stop();
  if (ready_) return std::exchange(ready_, nullptr)(why);
  if (config_.on_lost) config_.on_lost(why);
}

void Engine::Read() {
  if (stopped_) return;
  engine::ReadAll(store_, kKeyPrefix,
                  [this, alive = std::weak_ptr<char>(alive_)](
                      absl::StatusOr<std::vector<store::KeyValue>> records) {
                    if (alive.expired() || stopped_) return;
                    if (!records.ok()) return Reload(records.status());
                    auto core = std::make_unique<LoaderCore>(config_.core);
                    for (const store::KeyValue& kv : *records) {
                      const absl::Status loaded = core->Load(kv);
                      if (loaded.ok()) continue;
                      // A record that this program can't read is for an operator to look at: going
                      // on without it could hand out what it forbids.
                      logger_->Error("stored record refused", {{"error", loaded}});
                      return Refused(loaded);
                    }
                    Ready(std::move(core));
                  });
}

void Engine::Ready(std::unique_ptr<LoaderCore> core) {
  core_ = std::move(core);
  queue_ = std::make_unique<store::CommitQueue>(
      store_, strand_,
      leadership_ == nullptr ? absl::nullopt : absl::make_optional(leadership_->Guard()));
  Step step = core_->Resume();
  site_->CollectOutputs(core_->OutputFolders());
  site_->CollectLoads(core_->OpenLoads());
  for (const std::string& digest : core_->AbsentVersions()) {
    if (site_->HasVersion(digest)) Evict(digest);
  }
  Submit(std::move(step), [](absl::Status) {});
  if (ready_) std::exchange(ready_, nullptr)(absl::OkStatus());
  if (config_.on_leading) config_.on_leading();
}

void Engine::Reload(const absl::Status& why) {
  logger_->Warning("reading the store again", {{"error", why}});
  core_.reset();
  queue_.reset();
  strand_->RunAfter(kReloadDelay, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    Read();
  });
}

absl::Status Engine::NotReady() const {
  if (leadership_ != nullptr && !leadership_->Valid()) {
    return status::WithRetryDelay(
        status::Error(
            absl::StatusCode::kUnavailable, store::kReasonNotLeader,
            leadership_->holder().has_value()
                ? absl::StrCat("the data_loader at ", *leadership_->holder(), " acts at the Site")
                : "no data_loader acts at the Site"),
        kReloadDelay);
  }
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, "NOT_READY", "the data_loader reads its store"),
      kReloadDelay);
}

void Engine::SetReports() {
  const std::weak_ptr<char> alive = alive_;
  const auto report = [this, alive](auto decide) {
    if (alive.expired() || core_ == nullptr) return;
    Submit(decide(*core_), [](absl::Status) {});
  };
  site_->SetLoadReports(Site::LoadReports{
      .planned =
          [report](const std::string& load, int64_t total) {
            report([&](LoaderCore& core) { return core.LoadPlanned(load, total); });
          },
      .progressed =
          [report](const std::string& load, int64_t loaded, int64_t read, double rate,
                   absl::optional<absl::Duration> eta) {
            report([&](LoaderCore& core) {
              return core.LoadProgressed(load, loaded, read, rate, eta);
            });
          },
      .publishing =
          [report](const std::string& load) {
            report([&](LoaderCore& core) { return core.LoadPublishing(load); });
          },
      .done =
          [this, report](const std::string& load, absl::StatusOr<Published> result) {
            const Now now = strand_->clock().Read();
            // Equal content of another Dataset may have had to leave just before.
            if (result.ok() && !site_->HasVersion(result->manifest_digest)) {
              result = status::Error(absl::StatusCode::kAborted, "VERSION_EVICTED",
                                     "the version had to leave the Site while it was published; "
                                     "load it again");
            }
            if (!result.ok()) {
              logger_->Warning("load failed", {{"load", load}, {"error", result.status()}});
            }
            CountLoad(result.status());
            report([&](LoaderCore& core) {
              return result.ok()
                         ? core.LoadPublished(load, result->manifest_digest, result->total_bytes,
                                              result->file_count, result->source_bytes_read, now)
                         : core.LoadFailed(load, result.status(), now);
            });
          }});
}

void Engine::CountLoad(const absl::Status& ended) {
  if (!loads_.has_value()) return;
  const bool no_room = absl::IsResourceExhausted(ended);
  (ended.ok() ? loads_->loaded : no_room ? loads_->no_room : loads_->failed).Increment();
}

void Engine::Evict(const std::string& digest) {
  const absl::Status evicted = site_->EvictVersion(digest);
  if (evicted.ok()) {
    logger_->Info("version left the Site", {{"digest", digest}});
  } else {
    // Tried again when the store is next read; until then it takes room that is counted as free.
    logger_->Error("version can't be removed", {{"digest", digest}, {"error", evicted}});
  }
}

void Engine::CarryOut(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    if (const auto* start = std::get_if<StartLoad>(&effect)) {
      site_->StartLoad(*start);
    } else if (const auto* remove = std::get_if<RemoveFolder>(&effect)) {
      site_->RemoveFolder(remove->folder);
    } else if (const auto* evict = std::get_if<EvictVersion>(&effect)) {
      Evict(evict->manifest_digest);
    } else if (const auto* plan = std::get_if<AnswerPlan>(&effect)) {
      site_->AdmitLoad(plan->load, plan->admitted);
    } else if (const auto* forget = std::get_if<ForgetLoad>(&effect)) {
      site_->ForgetLoad(forget->load);
    }
  }
}

void Engine::Submit(Step step, absl::AnyInvocable<void(absl::Status)> stored) {
  // Pins of a Job on a thousand Nodes, requests of a busy day that have expired, small versions
  // that make room for a large one: each is decided again if a crash comes in between.
  engine::SubmitInPieces(*queue_, std::move(step.puts), std::move(step.deletes),
                         [this, after = std::move(step.after),
                          stored = std::move(stored)](absl::StatusOr<int64_t> revision) mutable {
                           if (revision.ok()) {
                             CrashPoint(crash::kLoaderStored);
                             CarryOut(after);
                             CrashPoint(crash::kLoaderAnswering);
                           }
                           stored(revision.status());
                           if (!revision.ok() && core_ != nullptr) Reload(revision.status());
                         });
}

template <typename T, typename R, typename Finish>
void Engine::Conclude(DecisionOr<T> decision, Answer<R> answer, Finish finish) {
  if (!decision.ok()) return answer(decision.status());
  Submit(std::move(decision->step),
         [response = std::move(decision->response), answer = std::move(answer),
          finish = std::move(finish)](absl::Status stored) mutable {
           if (!stored.ok()) return answer(stored);
           answer(finish(std::move(response)));
         });
}

void Engine::CreateDataset(const pb::CreateDatasetRequest& request, Answer<pb::Dataset> answer) {
  if (core_ == nullptr) return answer(NotReady());
  Conclude(core_->CreateDataset(request, random_.Uuid4(), strand_->clock().Read()),
           std::move(answer), [](pb::Dataset dataset) { return dataset; });
}

void Engine::EnsureLoad(const pb::EnsureDataLoadRequest& request, Answer<pb::DataLoad> answer) {
  if (core_ == nullptr) return answer(NotReady());
  // An id begins with a letter; a UUID may not.
  const std::string id = absl::StrCat("load-", random_.Uuid4());
  Conclude(core_->EnsureLoad(request, id, strand_->clock().Read()), std::move(answer),
           [](pb::DataLoad load) { return load; });
}

void Engine::PinVersion(const pb::PinVersionRequest& request, const std::string& node,
                        Answer<pb::PinVersionResponse> answer) {
  if (core_ == nullptr) return answer(NotReady());
  const std::string id = absl::StrCat("load-", random_.Uuid4());
  Conclude(core_->PinVersion(request, node, id, strand_->clock().Read()), std::move(answer),
           [this](const Pinned& pinned) {
             return Found(pinned, site_->VersionDirectory(pinned.manifest_digest));
           });
}

void Engine::PinBundle(const pb::PinBundleRequest& request, const std::string& node,
                       Answer<pb::PinVersionResponse> answer) {
  if (core_ == nullptr) return answer(NotReady());
  Conclude(core_->PinBundle(request, node), std::move(answer), [this](const Pinned& pinned) {
    return Found(pinned, site_->BundleDirectory(pinned.manifest_digest));
  });
}

void Engine::ReleasePins(const std::string& holder, const std::string& node,
                         Answer<pb::ReleasePinsResponse> answer) {
  if (core_ == nullptr) return answer(NotReady());
  Conclude(DecisionOr<pb::ReleasePinsResponse>(
               {core_->ReleasePins(holder, node, strand_->clock().Read()), {}}),
           std::move(answer), [](pb::ReleasePinsResponse response) { return response; });
}

absl::StatusOr<ReadableContent> Engine::CheckRead(const pb::ContentRef& content,
                                                  const std::string& node) const {
  if (core_ == nullptr) return NotReady();
  return core_->CheckRead(content, node);
}

absl::StatusOr<pb::FindPeersResponse> Engine::FindPeers(const pb::FindPeersRequest& request,
                                                        const std::string& node) {
  const absl::Status readable = CheckRead(request.content(), node).status();
  if (!readable.ok()) return readable;
  const BootTime now = strand_->clock().Read().boot;
  const std::string& digest = request.content().manifest_digest();
  for (const std::string& wrong : request.wrong()) {
    if (peers_.ReportWrong(digest, NodeIdOf(wrong), now)) {
      logger_->Error(
          "a Node gives wrong bytes; it is not asked for this content any more",
          {{"node", wrong}, {"content", request.content().resource()}, {"reporter", node}});
    }
  }
  PeerQuestion question;
  question.node = node;
  question.address = request.address();
  question.copy = {digest, request.have_bytes(), request.total_bytes(), false};
  for (const std::string& avoid : request.avoid()) question.avoid.insert(NodeIdOf(avoid));
  pb::FindPeersResponse response;
  for (const ChosenPeer& chosen : peers_.Find(question, now)) {
    pb::Peer& peer = *response.add_peers();
    peer.set_node(NodeNameOf(chosen.node));
    peer.set_address(chosen.address);
  }
  return response;
}

absl::Status Engine::AnnounceCopies(const pb::AnnounceCopiesRequest& request,
                                    const std::string& node) {
  // Said again until one hears it that acts at the Site.
  if (core_ == nullptr) return NotReady();
  NodeCopies said;
  said.node = node;
  said.address = request.address();
  said.uploads = request.uploads();
  said.max_uploads = request.max_uploads();
  for (const pb::CopyOnNode& copy : request.copies()) {
    said.copies.push_back(
        {copy.manifest_digest(), copy.have_bytes(), copy.total_bytes(), copy.whole()});
  }
  peers_.Announce(said, strand_->clock().Read().boot);
  return absl::OkStatus();
}

absl::StatusOr<pb::ListVersionSitesResponse> Engine::ListVersionSites(
    const std::string& version) const {
  if (core_ == nullptr) return NotReady();
  absl::StatusOr<LoaderCore::VersionState> state = core_->FindVersion(version);
  if (!state.ok()) return state.status();
  const int64_t total = state->version.total_bytes();
  std::map<std::string, pb::VersionSite> sites;
  for (const PeerDirectory::KnownCopy& known :
       peers_.Copies(state->version.manifest_digest(), strand_->clock().Read().boot)) {
    pb::VersionSite& site = sites[known.node];
    site.set_state(known.wrong        ? pb::VersionSite::STATE_WRONG
                   : known.copy.whole ? pb::VersionSite::STATE_WHOLE
                                      : pb::VersionSite::STATE_GROWING);
    site.set_have_bytes(known.copy.have_bytes);
    site.set_bytes_per_second(known.bytes_per_second);
    if (!known.copy.whole) {
      site.set_source(known.source.empty() ? config_.core.site : NodeNameOf(known.source));
    }
  }
  pb::ListVersionSitesResponse response;
  pb::VersionSite& here = *response.add_sites();
  here.set_site(config_.core.site);
  here.set_state(!state->absent            ? pb::VersionSite::STATE_WHOLE
                 : state->loaded_bytes > 0 ? pb::VersionSite::STATE_GROWING
                                           : pb::VersionSite::STATE_ABSENT);
  here.set_have_bytes(state->absent ? state->loaded_bytes : total);
  for (const auto& [node, holders] : state->holders) {
    pb::VersionSite& site = node.empty() ? here : sites[node];
    if (site.state() == pb::VersionSite::STATE_UNSPECIFIED) {
      site.set_state(pb::VersionSite::STATE_PINNED);
    }
    for (const std::string& holder : holders) {
      if (site.holders_size() < kMaxHolders) site.add_holders(holder);
    }
  }
  for (auto& [node, site] : sites) {
    if (response.sites_size() >= kMaxSites) break;
    site.set_site(NodeNameOf(node));
    *response.add_sites() = std::move(site);
  }
  *response.mutable_version() = std::move(state->version);
  return response;
}

absl::Status Engine::CheckReader(const pb::CheckReaderRequest& request,
                                 const std::string& node) const {
  const std::string reader = NodeIdOf(request.reader());
  if (reader.substr(0, reader.find('/')) != node.substr(0, node.find('/')) ||
      !peers_.Has(node, request.content().manifest_digest(), strand_->clock().Read().boot)) {
    return status::NotFound(request.content().resource());
  }
  return CheckRead(request.content(), reader).status();
}

void Engine::CheckCommit(const pb::CommitOutputRequest& request,
                         Answer<absl::optional<pb::CommitOutputResponse>> answer) {
  using Before = absl::optional<pb::CommitOutputResponse>;
  if (core_ == nullptr) return answer(NotReady());
  absl::StatusOr<Before> before = core_->CheckCommit(request);
  if (!before.ok() || !before->has_value()) return answer(std::move(before));
  // What a twin of this call has decided may still be on its way to the store.
  Decision<Before> again;
  again.response = *std::move(before);
  Conclude(DecisionOr<Before>(std::move(again)), std::move(answer),
           [](Before response) { return response; });
}

void Engine::BundleReceived(const std::string& parent, const Published& published,
                            Answer<pb::Bundle> answer) {
  if (core_ == nullptr) return answer(NotReady());
  Conclude(DecisionOr<pb::Bundle>(core_->BundleStored(parent, published.manifest_digest,
                                                      published.total_bytes, published.file_count,
                                                      strand_->clock().Read())),
           std::move(answer), [](pb::Bundle bundle) { return bundle; });
}

void Engine::OpenOutput(const pb::OpenOutputRequest& request,
                        Answer<pb::OpenOutputResponse> answer) {
  if (core_ == nullptr) return answer(NotReady());
  Conclude(
      core_->OpenOutput(request), std::move(answer),
      [this, request](pb::OpenOutputResponse response) -> absl::StatusOr<pb::OpenOutputResponse> {
        absl::StatusOr<std::string> staging =
            site_->OpenStaging(request.job_uid(), request.generation());
        if (!staging.ok()) return staging.status();
        response.set_staging_root(*std::move(staging));
        return response;
      });
}

void Engine::CommitOutput(const pb::CommitOutputRequest& request,
                          Answer<pb::CommitOutputResponse> answer) {
  CheckCommit(request,
              [this, alive = std::weak_ptr<char>(alive_), request, answer = std::move(answer)](
                  absl::StatusOr<absl::optional<pb::CommitOutputResponse>> before) mutable {
                if (!before.ok()) return answer(before.status());
                if (before->has_value()) return answer(**std::move(before));
                site_->CopyOutput(request, [this, alive, answer = std::move(answer)](
                                               absl::StatusOr<StagedOutput> staged) mutable {
                  if (alive.expired()) return;
                  if (!staged.ok()) return answer(staged.status());
                  OutputReceived(*staged, std::move(answer));
                });
              });
}

void Engine::OutputReceived(const StagedOutput& staged, Answer<pb::CommitOutputResponse> answer) {
  // A copy that no record comes to name is collected when the engine is ready again.
  if (core_ == nullptr) return answer(NotReady());
  auto decision = core_->CommitOutput(staged, strand_->clock().Read());
  if (!decision.ok()) site_->RemoveFolder(staged.folder);
  Conclude(std::move(decision), std::move(answer),
           [](pb::CommitOutputResponse response) { return response; });
}

}  // namespace capstan::data_loader
