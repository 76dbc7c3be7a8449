#ifndef CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "integration/simulation/credentials_witness.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/process_strand.h"
#include "integration/simulation/remote_store.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "services/credentials/core/event.h"
#include "services/credentials/engine.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/jwt_keys.h"
#include "services/credentials/ports/signer.h"

namespace capstan::simulation {

// A replica of credentials: its real engine over a store that others share. Signatures are left
// out: what is signed, and by which key, is told to the witness.
class CredentialsActor final : public Process {
 public:
  static constexpr char kDomain[] = "capstan-00000000.local";
  static CredentialsWitness::Lives Lives();

  CredentialsActor(Network* network, const MachineClock* clock, std::string name,
                   StoreServer* server, CredentialsWitness* witness, const Mutants* mutants);

  using Reply = std::function<void(absl::StatusOr<credentials::Answer>)>;
  // The call and the serial, if the event has them, are set here.
  void Ask(credentials::Event event, Reply reply);

  CredentialsWitness& witness() { return *witness_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override {}

 private:
  class Signer final : public credentials::Signer {
   public:
    explicit Signer(CredentialsActor* actor) : actor_(actor) {}
    absl::StatusOr<std::string> Sign(const credentials::IssueOrder& order) override;

   private:
    CredentialsActor* const actor_;
  };
  // Keys that are only names, of one life.
  class JwtKeys final : public credentials::JwtKeys {
   public:
    explicit JwtKeys(CredentialsActor* actor) : actor_(actor) {}
    void Make(
        const std::string& algorithm,
        absl::AnyInvocable<void(absl::StatusOr<credentials::v1::JwtKeyRecord>)> done) override;
    void Open(const std::vector<credentials::v1::JwtKeyRecord>& records,
              absl::AnyInvocable<void(absl::Status)> done) override;
    absl::StatusOr<std::string> Sign(const credentials::JwtOrder& order) override;

   private:
    CredentialsActor* const actor_;
    std::set<std::string> open_;
    // Of the mutant: the one that signed first.
    std::string first_;
  };
  class NoLog final : public log::Sink {
   public:
    void Write(const log::Record&) override {}
  };

  // Random; now and then one that was given before, which the core must refuse.
  std::string Serial();

  Network* const network_;
  StoreServer* const server_;
  CredentialsWitness* const witness_;
  const Mutants* const mutants_;
  NoLog no_log_;
  std::vector<std::string> serials_;
  // What was signed last, for who answers with it.
  absl::optional<credentials::IssueOrder> signed_;
  absl::optional<credentials::JwtOrder> signed_token_;
  std::string signed_by_;
  // Of this life, in the order in which they are made.
  std::unique_ptr<ProcessStrand> strand_;
  std::unique_ptr<log::Logger> logger_;
  std::unique_ptr<metrics::Registry> metrics_;
  std::unique_ptr<RemoteStore> store_;
  std::unique_ptr<Signer> signer_;
  std::unique_ptr<JwtKeys> jwt_keys_;
  std::unique_ptr<credentials::Engine> engine_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_CREDENTIALS_ACTOR_H_
