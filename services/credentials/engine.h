#ifndef CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/commit_queue.h"
#include "libs/store/leadership.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/jwt_keys.h"
#include "services/credentials/ports/signer.h"

namespace capstan::credentials {

// The strand of credentials: owns the core, persists what it decides, and only then signs, answers
// and publishes. All methods on the strand, construction and destruction included, but for Submit.
//
// It leads or waits to lead. When a commit fails or leadership is lost it drops the core, answers
// every open call with UNAVAILABLE, and loads again in its next term.
//
// Metrics, all with the prefix `capstan_credentials_`:
//   certificates_issued_total   certificates signed
//   tokens_issued_total         JWT-SVIDs signed
//   refusals_total              events that the core refused
//   policy_revision             revision of the policy in force
//   leading                     1 while this process leads and has loaded its state
//   commit_queue_submissions    steps waiting to be committed
class Engine final : public EventSink {
 public:
  struct Options {
    CoreConfig core;
    store::Leadership::Options leadership;
    // Applied if the store turns out to hold no trust domain.
    absl::optional<FirstRun> first_run;
  };
  struct Deps {
    // The one on which the store calls back.
    Strand* strand = nullptr;
    store::Store* store = nullptr;
    // Signs for the trust domain that is stored, or that `first_run` makes.
    Signer* signer = nullptr;
    // May be null: then no JWT-SVIDs are issued.
    JwtKeys* jwt_keys = nullptr;
    const log::Logger* log = nullptr;
    metrics::Registry* metrics = nullptr;
    // Called with each committed policy, with the loaded one at the beginning of a term, and with
    // null at its end.
    std::function<void(std::shared_ptr<const v1::PolicySnapshot>)> on_policy;
    // Called with each committed set of keys, and with the loaded one at the beginning of a term.
    std::function<void(const JwtKeySet&)> on_jwt_keys{};
  };
  Engine(Options options, Deps deps);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Begins to try to lead. `on_first_term` runs once: when the first term's state has been loaded
  // (and the first run's is committed), or with the error that makes loading impossible.
  void Start(absl::AnyInvocable<void(absl::Status)> on_first_term);

  // Calls that are open when the state is dropped get OUTCOME_UNKNOWN.
  void Submit(Event event, Callback done) override;

  // Records what was counted, gives up leadership; `done` runs when that is over. Once.
  void Stop(absl::AnyInvocable<void()> done);

  bool leading() const { return core_ != nullptr && loaded_; }

 private:
  void Load();
  void LoadPage(std::string from, int64_t revision, std::vector<store::KeyValue> records);
  void Loaded(const std::vector<store::KeyValue>& records);
  void FailLoad(const absl::Status& why);
  void BeginTerm();
  void Apply(const Event& event);
  void CarryOut(Effect* effect);
  void MakeKey(const std::string& algorithm);
  // Gives the keys to those who verify, and opens those that sign.
  void UseKeys(const JwtKeySet& keys);
  absl::StatusOr<Answer> Fulfil(Outcome outcome);
  void Reload(const absl::Status& why);
  void DropState();
  void ArmTimer();
  void OnTimer();
  void Flush(int rounds_left);
  void FinishStop();

  const Options options_;
  const Deps deps_;
  metrics::Counter issued_;
  metrics::Counter tokens_;
  metrics::Counter refusals_;
  metrics::Gauge policy_revision_;
  metrics::Gauge leading_;
  metrics::Gauge queue_length_;

  std::unique_ptr<store::Leadership> leadership_;
  // Raised whenever what was under way no longer counts.
  int64_t term_ = 0;
  std::unique_ptr<CredentialsCore> core_;
  bool loaded_ = false;
  bool stopping_ = false;
  std::unique_ptr<store::CommitQueue> queue_;
  CallId next_call_ = 1;
  std::map<CallId, Callback> calls_;
  Strand::TimerId timer_ = 0;
  BootTime timer_time_ = BootTime::InfiniteFuture();
  absl::AnyInvocable<void(absl::Status)> on_first_term_;
  absl::AnyInvocable<void()> on_stopped_;
  // Expires with the engine: tasks and callbacks hold it weakly.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_
