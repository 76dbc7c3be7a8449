#ifndef CAPSTAN_SERVICES_DATA_LOADER_ENGINE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ENGINE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/store/commit_queue.h"
#include "libs/store/leadership.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/peer.pb.h"
#include "proto/capstan/dataloader/v1/site.pb.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/core/peer_directory.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

struct EngineConfig {
  LoaderConfig core;
  // Of a store that several processes share: which of them acts at the Site. Unset where one
  // process owns the store.
  absl::optional<store::Leadership::Options> leadership;
  // Told on the strand, where several share the store: that this process acts at the Site from now
  // on; that it must not any more, and why. What it has under way on the Site's files can't be
  // called back, so it should end.
  std::function<void()> on_leading;
  std::function<void(const absl::Status& why)> on_lost;
};

// The data_loader's strand: owns the core, stores what it decides, then acts and answers. Methods
// are called on the strand; each answers once, on the strand, after what it says is durable. Until
// this process leads and the store has been read, and again after a failed commit until it has been
// read anew, calls are answered with UNAVAILABLE.
class Engine {
 public:
  template <typename T>
  using Answer = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // All pointers must outlive the engine; `store` calls back on `strand`; `metrics` may be null.
  Engine(EngineConfig config, store::Store* store, Site* site, Strand* strand, Random random,
         log::Logger* logger, metrics::Registry* metrics = nullptr);

  // Reads the store and takes up what was under way, as soon as this process leads. Answers once
  // the engine is ready; where several share the store, at once.
  void Start(absl::AnyInvocable<void(absl::Status)> ready);
  // Answers no more calls; to be followed by Resign once the Site has stopped.
  void Stop();
  // Lets another process lead.
  void Resign(store::DoneCallback done);

  void CreateDataset(const capstan::dataloader::v1::CreateDatasetRequest& request,
                     Answer<capstan::dataloader::v1::Dataset> answer);
  void EnsureLoad(const capstan::dataloader::v1::EnsureDataLoadRequest& request,
                  Answer<capstan::dataloader::v1::DataLoad> answer);
  // `node` is the calling Node, `<cluster>/<node>`; empty if it is none.
  void PinVersion(const capstan::dataloader::v1::PinVersionRequest& request,
                  const std::string& node,
                  Answer<capstan::dataloader::v1::PinVersionResponse> answer);
  void PinBundle(const capstan::dataloader::v1::PinBundleRequest& request, const std::string& node,
                 Answer<capstan::dataloader::v1::PinVersionResponse> answer);
  void ReleasePins(const std::string& holder, const std::string& node,
                   Answer<capstan::dataloader::v1::ReleasePinsResponse> answer);
  void BundleReceived(const std::string& parent, const Published& published,
                      Answer<capstan::dataloader::v1::Bundle> answer);
  void OpenOutput(const capstan::dataloader::v1::OpenOutputRequest& request,
                  Answer<capstan::dataloader::v1::OpenOutputResponse> answer);
  void CommitOutput(const capstan::dataloader::v1::CommitOutputRequest& request,
                    Answer<capstan::dataloader::v1::CommitOutputResponse> answer);

  // Where content lies that the Node may read.
  absl::StatusOr<ReadableContent> CheckRead(const capstan::dataloader::v1::ContentRef& content,
                                            const std::string& node) const;
  // Peers that the Node should ask for content that it may read; what it says of others is taken
  // up. Names in requests have been checked.
  absl::StatusOr<capstan::dataloader::v1::FindPeersResponse> FindPeers(
      const capstan::dataloader::v1::FindPeersRequest& request, const std::string& node);
  absl::Status AnnounceCopies(const capstan::dataloader::v1::AnnounceCopiesRequest& request,
                              const std::string& node);
  // Where a version is, by what is stored and what Nodes say.
  absl::StatusOr<capstan::dataloader::v1::ListVersionSitesResponse> ListVersionSites(
      const std::string& version) const;
  // Whether `node` may give the content to the request's reader.
  absl::Status CheckReader(const capstan::dataloader::v1::CheckReaderRequest& request,
                           const std::string& node) const;
  // Whether the content of a commit may come, or the answer if it was committed before; once that
  // is stored.
  void CheckCommit(const capstan::dataloader::v1::CommitOutputRequest& request,
                   Answer<absl::optional<capstan::dataloader::v1::CommitOutputResponse>> answer);
  // Commits content that has come, whose writer lives until this returns; removes it if it is too
  // late.
  void OutputReceived(const StagedOutput& staged,
                      Answer<capstan::dataloader::v1::CommitOutputResponse> answer);

 private:
  void Read();
  void Ready(std::unique_ptr<LoaderCore> core);
  void CountLoad(const absl::Status& ended);
  // Drops the core and reads the store again after a while.
  void Reload(const absl::Status& why);
  void SetReports();
  void Evict(const std::string& digest);
  void CarryOut(const std::vector<Effect>& effects);
  void Submit(Step step, absl::AnyInvocable<void(absl::Status)> stored);
  // Stores the decision's step, carries it out, and answers with `finish(response)`.
  template <typename T, typename R, typename Finish>
  void Conclude(DecisionOr<T> decision, Answer<R> answer, Finish finish);
  absl::Status NotReady() const;
  void Refused(const absl::Status& why);

  // Loads that ended, by outcome.
  struct Loads {
    metrics::Counter loaded;
    metrics::Counter failed;
    metrics::Counter no_room;
  };

  const EngineConfig config_;
  store::Store* const store_;
  Site* const site_;
  Strand* const strand_;
  Random random_;
  log::Logger* const logger_;
  absl::optional<Loads> loads_;
  absl::AnyInvocable<void(absl::Status)> ready_;
  std::unique_ptr<LoaderCore> core_;
  // What Nodes say; it does not depend on the store.
  PeerDirectory peers_;
  std::unique_ptr<store::CommitQueue> queue_;
  // Null where one process owns the store.
  std::unique_ptr<store::Leadership> leadership_;
  bool stopped_ = false;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ENGINE_H_
