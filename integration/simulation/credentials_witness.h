#ifndef CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::simulation {

// Sees all that credentials answers and publishes, and checks each time:
//  1. a serial is given once;
//  2. a join token gives certificates for one key only;
//  3. once a denial is acknowledged, and until somebody asks to take it back, nothing is issued to
//     that identity, nor to a Task at the word of that Node;
//  4. one Node at most holds live certificates of a Task;
//  5. the audit chain on disk is unbroken, and holds what was recorded of every act before that
//     act is answered, and forever;
//  6. a published policy is the committed one, and never older than the last one of that life.
class CredentialsWitness {
 public:
  CredentialsWitness(World* world, const Disk* disk) : world_(world), disk_(disk) {}

  // A life has begun, and has read the disk.
  void Loaded();
  // Just before the core takes an event.
  void Asked(const credentials::Event& event, credentials::CallId call);
  // As the caller is told. `audits` are the records of the act; `wall` is credentials' clock.
  void Answered(const credentials::Event& event, credentials::CallId call,
                const absl::StatusOr<credentials::Outcome>& outcome, absl::Time wall,
                const std::vector<store::Put>& audits);
  void Published(const capstan::credentials::v1::PolicySnapshot& policy);

  // Whether all that was acknowledged is on disk; if not, says why.
  bool AllStored(std::string* why) const;

  // Tasks that have got a certificate, each as often as it has.
  const std::vector<std::string>& tasks() const { return tasks_; }
  int64_t issued() const { return static_cast<int64_t>(serials_.size()); }

 private:
  void Issued(const credentials::Event& event, const credentials::IssueOrder& order,
              absl::Time wall);
  // Walks the chain from where it was walked to before.
  void WalkChain();

  struct Holder {
    std::string node;
    absl::Time not_after;
  };

  World* const world_;
  const Disk* const disk_;
  std::set<std::string> serials_;
  // By token: for which public key it was used.
  std::map<std::string, std::string> used_tokens_;
  std::set<std::string> denied_;
  // By identity: the latest call that takes a denial back.
  std::map<std::string, credentials::CallId> taken_back_;
  std::map<std::string, Holder> holders_;
  std::vector<std::string> tasks_;
  std::map<std::string, std::string> acts_;
  int64_t walked_ = 0;
  std::string hash_ = std::string(32, '\0');
  int64_t revision_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_
