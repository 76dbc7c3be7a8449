#ifndef CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "integration/simulation/credentials_witness.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/event.h"

namespace capstan::simulation {

// Credentials: its real core on one disk. Keys and signatures are left out.
class CredentialsActor final : public Process {
 public:
  static constexpr char kDomain[] = "capstan-00000000.local";

  CredentialsActor(World* world, const MachineClock* clock, const Mutants* mutants);

  using Reply = std::function<void(absl::StatusOr<credentials::Outcome>)>;
  // The call and the serial, if the event has them, are set here.
  void Ask(credentials::Event event, Reply reply);

  CredentialsWitness& witness() { return witness_; }
  const CredentialsWitness& witness() const { return witness_; }
  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override;

 private:
  void Apply(const credentials::Event& event, credentials::CallId call);
  void CarryOut(const credentials::Effect& effect, const credentials::Event& event,
                const std::vector<store::Put>& audits);
  // Random; now and then one that was given before, which the core must refuse.
  std::string Serial();

  const Mutants* const mutants_;
  Disk disk_;
  CredentialsWitness witness_;
  std::vector<std::string> serials_;
  credentials::CallId next_call_ = 1;
  // Of this life.
  bool serving_ = false;
  std::unique_ptr<credentials::CredentialsCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
  std::map<credentials::CallId, Reply> calls_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_
