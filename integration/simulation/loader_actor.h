#ifndef CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/witness.h"
#include "services/data_loader/core/loader_core.h"

namespace capstan::simulation {

// The data_loader: its real core, on a Site that always works.
class LoaderActor final : public Process {
 public:
  LoaderActor(World* world, const MachineClock* clock, Witness* witness, const Mutants* mutants)
      : Process(world, "loader", clock), witness_(witness), mutants_(mutants) {}

  template <typename T>
  using Reply = std::function<void(absl::StatusOr<T>)>;

  void OpenOutput(const capstan::dataloader::v1::OpenOutputRequest& request,
                  const Reply<capstan::dataloader::v1::OpenOutputResponse>& reply);
  void CommitOutput(const capstan::dataloader::v1::CommitOutputRequest& request,
                    Reply<capstan::dataloader::v1::CommitOutputResponse> reply);
  void ReleasePins(const std::string& holder, const Reply<bool>& reply);

  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  void Submit(data_loader::Step step, std::function<void()> stored,
              std::function<void()> written = nullptr);

  Witness* const witness_;
  const Mutants* const mutants_;
  Disk disk_;
  int64_t copies_ = 0;
  std::unique_ptr<data_loader::LoaderCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_LOADER_ACTOR_H_
