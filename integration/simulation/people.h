#ifndef CAPSTAN_INTEGRATION_SIMULATION_PEOPLE_H_
#define CAPSTAN_INTEGRATION_SIMULATION_PEOPLE_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/simulation/credentials_actor.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "libs/auth/spiffe_id.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/event_sink.h"

namespace capstan::simulation {

// People and Nodes that keep credentials busy: identities are denied and taken back, join tokens
// are made and used more than once, Nodes renew what they have and ask for Tasks of others. Never
// crashes.
class People final : public Process {
 public:
  // `nodes` are the identities to deny.
  People(Network* network, const MachineClock* clock, std::vector<CredentialsActor*> credentials,
         std::vector<auth::SpiffeId> nodes);

  // Makes Project `p`, and then does this and that until `end`, in true time.
  void Act(absl::Duration end);
  // Whether all that was begun has been brought to its end.
  bool Idle() const { return open_ == 0; }

 protected:
  void OnStart() override {}
  void OnCrash() override {}
  void OnAlarm() override {}

 private:
  using Done = std::function<void(const absl::StatusOr<credentials::Answer>&)>;
  // Once.
  void Ask(const credentials::Event& event, Done done);
  // Again and again, until there is an answer.
  void Insist(const credentials::Event& event, Done done);
  void Plan(absl::Duration end);
  void DenyForAWhile();
  void UseToken();
  void RenewNode();
  void AskForForeignTask();

  Network* const network_;
  const std::vector<CredentialsActor*> credentials_;
  const std::vector<auth::SpiffeId> nodes_;
  std::set<std::string> denied_;
  int64_t open_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_PEOPLE_H_
