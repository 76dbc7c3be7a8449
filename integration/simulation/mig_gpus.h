#ifndef CAPSTAN_INTEGRATION_SIMULATION_MIG_GPUS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_MIG_GPUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/step.h"

namespace capstan::simulation {

// The GPUs in MIG mode of a simulated machine, with the instances that stand on them: what
// services/node_agent/ports/mig_devices.h promises, by the slices that a driver would look at. Each
// instance that is made has a name that none had before.
class MigGpus {
 public:
  using MigInstance = capstan::type::v1::MigInstance;

  // `models` by number of the GPU, of libs/mig/profiles.h.
  MigGpus(std::string machine, std::vector<std::string> models)
      : machine_(std::move(machine)), models_(std::move(models)) {}

  const std::vector<std::string>& models() const { return models_; }

  // See MigDevices::Make. What stands in the way and is none of `others` is removed, and told in
  // `removed`.
  absl::StatusOr<std::string> Make(const node_agent::MakeMigInstance& order,
                                   std::vector<MigInstance>* removed);
  // True if it was there.
  bool Remove(const MigInstance& instance);
  // A boot: none is left.
  void Clear() { made_.clear(); }

  // What a program finds as the device of that name.
  absl::optional<MigInstance> Find(absl::string_view name) const;
  bool empty() const { return made_.empty(); }
  // All that stand there, in words.
  std::string Left() const;

 private:
  const std::string machine_;
  const std::vector<std::string> models_;
  std::map<std::string, MigInstance> made_;  // by name
  int64_t next_ = 1;
};

// `3g.40gb at 4 of GPU 0`.
std::string MigInstanceInWords(const capstan::type::v1::MigInstance& instance);

// Whether instances of one GPU can stand there together; of another model none can.
bool CanStandTogether(absl::string_view model,
                      const std::vector<capstan::type::v1::MigInstance>& instances);

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_MIG_GPUS_H_
