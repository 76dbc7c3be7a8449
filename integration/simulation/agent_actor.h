#ifndef CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "integration/simulation/credentials_actor.h"
#include "integration/simulation/executor_actor.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "services/node_agent/core/agent_core.h"

namespace capstan::simulation {

// A node agent: its real core on a simulated machine.
class AgentActor final : public Process {
 public:
  AgentActor(Network* network, Machine* machine, std::string cluster, std::string node,
             ExecutorActor* executor, LoaderActor* loader, CredentialsActor* credentials);

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

  Network* const network_;
  Machine* const machine_;
  const std::string cluster_;
  const std::string node_;
  ExecutorActor* const executor_;
  LoaderActor* const loader_;
  CredentialsActor* const credentials_;
  Disk disk_;
  node_agent::SessionId next_session_ = 1;
  // Of this life.
  std::unique_ptr<node_agent::AgentCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
  std::shared_ptr<Pipe> up_;
  node_agent::SessionId session_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_AGENT_ACTOR_H_
