#ifndef CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "integration/simulation/credentials_actor.h"
#include "integration/simulation/executor_actor.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "libs/auth/spiffe_id.h"
#include "libs/session/task_id.h"
#include "services/node_agent/core/agent_core.h"

namespace capstan::simulation {

// A node agent: its real core on a simulated machine.
class AgentActor final : public Process {
 public:
  AgentActor(Network* network, Machine* machine, std::string cluster, std::string node,
             ExecutorActor* executor, LoaderActor* loader,
             std::vector<CredentialsActor*> credentials, const Mutants* mutants);

  const node_agent::AgentCore* core() const { return core_.get(); }
  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override;

 private:
  void Apply(const node_agent::Event& event);
  void CarryOut(const node_agent::Effect& effect);
  void Answer(const session::TaskId& id, node_agent::Ticket ticket, absl::Status status,
              node_agent::Answer answer = {});
  // Answers after the time that work on the machine takes.
  void AnswerSoon(const session::TaskId& id, node_agent::Ticket ticket, absl::Status status,
                  node_agent::Answer answer = {});
  void Dial();
  void Redial();
  void Observe();
  void IssueIdentity(const node_agent::IssueIdentity& order);
  // Asks for the Task's certificate, of any replica.
  void AskForSvid(const session::TaskId& id, std::function<void(const absl::Status&)> done);
  void RenewLater(const session::TaskId& id, int64_t kept, absl::Duration delay);
  void AskForToken(const session::TaskId& id);
  // What the mutant does too early.
  void RemoveInstanceOf(const session::TaskId& id);
  auth::SpiffeId Node() const;
  // As the data_loader knows it.
  std::string NodeId() const;
  static auth::SpiffeId Task(const session::TaskId& id);

  Network* const network_;
  Machine* const machine_;
  const std::string cluster_;
  const std::string node_;
  ExecutorActor* const executor_;
  LoaderActor* const loader_;
  const std::vector<CredentialsActor*> credentials_;
  const Mutants* const mutants_;
  Disk disk_;
  node_agent::SessionId next_session_ = 1;
  // Of this life.
  std::unique_ptr<node_agent::AgentCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
  std::shared_ptr<Pipe> up_;
  node_agent::SessionId session_ = 0;
  // Tasks whose certificates are renewed, each with the number of its order.
  std::map<session::TaskId, int64_t> kept_;
  int64_t next_kept_ = 1;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_
