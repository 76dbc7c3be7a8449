#ifndef CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/disk_site.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/witness.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::simulation {

// The data_loader: its real core, on a simulated Site. When its store finds no room it reads it
// again, as its engine does, while the Site goes on.
class LoaderActor final : public Process {
 public:
  LoaderActor(World* world, const MachineClock* clock, const DatasetSources* sources,
              Witness* witness, const Mutants* mutants);

  template <typename T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  void CreateDataset(const capstan::dataloader::v1::CreateDatasetRequest& request,
                     const Reply<capstan::dataloader::v1::Dataset>& reply);
  void EnsureLoad(const capstan::dataloader::v1::EnsureDataLoadRequest& request,
                  const Reply<capstan::dataloader::v1::DataLoad>& reply);
  // As it is stored.
  void GetLoad(const std::string& name, const Reply<capstan::dataloader::v1::DataLoad>& reply);
  // `node`: `<cluster>/<node>`.
  void PinVersion(const capstan::dataloader::v1::PinVersionRequest& request,
                  const std::string& node,
                  const Reply<capstan::dataloader::v1::PinVersionResponse>& reply);
  // Those of one Node, or, for good, of all if `node` is empty.
  void ReleasePins(const std::string& holder, const std::string& node, const Reply<bool>& reply);
  void OpenOutput(const capstan::dataloader::v1::OpenOutputRequest& request,
                  const Reply<capstan::dataloader::v1::OpenOutputResponse>& reply);
  void CommitOutput(const capstan::dataloader::v1::CommitOutputRequest& request,
                    Reply<capstan::dataloader::v1::CommitOutputResponse> reply);

  bool is_loading() const { return site_.is_loading(); }
  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

  // Of the Site: room for about two of the simulated Datasets.
  static constexpr int64_t kSiteLimit = 7 * DatasetSources::kPartBytes;

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  void ReadStore();
  // Drops the core, and reads the store again after a while.
  void Reload();
  DiskSite::Reports SiteReports();
  void Submit(data_loader::Step step, std::function<void()> stored,
              std::function<void()> written = nullptr);
  void CarryOut(const data_loader::Effect& effect);
  void AnswerPlan(const data_loader::AnswerPlan& plan);
  std::string NewId();

  Witness* const witness_;
  const Mutants* const mutants_;
  Disk disk_;
  DiskSite site_;
  int64_t copies_ = 0;
  // Of this life, and null while the store is to be read again.
  std::unique_ptr<data_loader::LoaderCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_
