#ifndef CAPSTAN_SERVICES_SCHEDULER_API_SIMULATION_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_SIMULATION_SERVICE_H_

#include "absl/status/status.h"
#include "proto/capstan/scheduler/v1/simulation_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "services/scheduler/api/api_deps.h"
#include "services/scheduler/batch_simulations.h"
#include "services/scheduler/core/core_config.h"

namespace capstan::scheduler {

inline constexpr int kMaxAlternatives = 64;
// Entries of `after` of all the Jobs of a request.
inline constexpr int kMaxAlternativeDependencies = 640;

// Everything that is wrong with the request whatever is stored.
absl::Status ValidateSimulateChanges(const CoreConfig& config,
                                     const capstan::scheduler::v1::SimulateChangesRequest& request);

class SimulationService final : public capstan::scheduler::v1::SimulationService::CallbackService {
 public:
  // `batches` outlives it.
  SimulationService(const ApiDeps& deps, const CoreConfig& config, BatchSimulations* batches)
      : deps_(deps), config_(config), batches_(batches) {}

  grpc::ServerWriteReactor<capstan::scheduler::v1::SimulateChangesResponse>* SimulateChanges(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::SimulateChangesRequest* request) override;

 private:
  const ApiDeps deps_;
  const CoreConfig config_;
  BatchSimulations* const batches_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_SIMULATION_SERVICE_H_
