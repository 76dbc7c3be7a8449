#ifndef CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::simulation {

// Sees what the replicas of credentials store, sign, answer and publish, and checks each time:
//  1. a serial is given once;
//  2. a join token gives certificates for one key only;
//  3. once a denial is in the audit chain, and until its end is, nothing is issued to that
//  identity,
//     nor to a Task at the word of that Node;
//  4. one Node at most holds live certificates of a Task; a Node gets certificates and tokens only
//     of Tasks that were placed on it, and none lives longer than is configured;
//  5. after every transaction the audit chain is unbroken; an act is answered, and a certificate
//     signed, once it is stored, and stays so;
//  6. a published policy and published keys are ones that were committed, and never older than the
//     last ones of that replica's life;
//  7. only the newest active key signs, and only after it was published for as long as is
//     configured; every token can be verified with the stored keys until its end.
class CredentialsWitness {
 public:
  struct Lives {
    absl::Duration certificate;
    absl::Duration task_certificate;
    absl::Duration token;
    absl::Duration publish_before;
  };
  CredentialsWitness(World* world, const Disk* disk, Lives lives)
      : world_(world), disk_(disk), lives_(lives) {}

  // A replica begins a life.
  void Started(const std::string& replica);
  // A transaction has taken effect.
  void Stored();
  // A wall clock of a replica was set by much more than clocks may differ: times of certificates
  // and keys mean no more what they did.
  void ClockStepped() { clocks_agree_ = false; }
  // The scheduler's order for the Task has come to its Node.
  void Placed(const std::string& task, const std::string& node) { placed_.insert({task, node}); }
  bool IsPlaced(const std::string& task, const std::string& node) const {
    return placed_.count({task, node}) != 0;
  }

  // A replica gets an event; returns its ticket.
  int64_t Asked(const credentials::Event& event);
  // Its answer is OK.
  void Answered(const credentials::Event& event, int64_t ticket);
  void Signed(const credentials::Event& event, const credentials::IssueOrder& order);
  // By which key it really was.
  void Signed(const credentials::Event& event, const credentials::JwtOrder& order,
              const std::string& key_id);
  void Published(const std::string& replica,
                 const capstan::credentials::v1::PolicySnapshot& policy);
  void Published(const std::string& replica, const credentials::JwtKeySet& keys);

  // Whether all that was acknowledged is stored; if not, says why.
  bool AllStored(std::string* why) const;

  // Tasks that have got a certificate, each as often as it has.
  const std::vector<std::string>& tasks() const { return tasks_; }
  int64_t issued() const { return static_cast<int64_t>(serials_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  void WalkChain();
  void Walk(const event::v1::AuditRecord& record);
  void WalkKeys();
  void WalkPolicy();
  void CheckPlacement(const credentials::Event& event);

  struct Certificate {
    std::string node;
    absl::Time decided;
    absl::Time not_after;
  };
  struct Shown {
    int64_t policy = 0;
    int64_t keys = 0;
  };

  World* const world_;
  const Disk* const disk_;
  const Lives lives_;
  bool clocks_agree_ = true;
  std::set<std::string> serials_;
  // By token: for which public key it was used.
  std::map<std::string, std::string> used_tokens_;
  // Acknowledged, and as the chain has it.
  std::set<std::string> denied_;
  std::set<std::string> chain_denied_;
  // By identity: the latest event that takes a denial back.
  std::map<std::string, int64_t> taken_back_;
  int64_t next_ticket_ = 1;
  std::map<std::string, std::vector<Certificate>> holders_;
  std::vector<std::string> tasks_;
  std::set<std::pair<std::string, std::string>> placed_;
  // The chain, from its first record.
  std::vector<std::string> chain_;
  std::string hash_ = std::string(32, '\0');
  // What is denied, by revision; the public keys, by sequence.
  std::map<int64_t, std::set<std::string>> policies_;
  std::map<int64_t, std::set<std::string>> key_sets_;
  // By key: until when tokens live that it has signed, in true time; and all that were stored.
  std::map<std::string, absl::Duration> token_ends_;
  std::set<std::string> keys_;
  int64_t tokens_ = 0;
  std::map<std::string, Shown> shown_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_WITNESS_H_
