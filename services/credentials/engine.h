#ifndef CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_

#include <cstdint>
#include <deque>
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
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/jwt_keys.h"
#include "services/credentials/ports/signer.h"
#include "services/credentials/store_mirror.h"

namespace capstan::credentials {

// The strand of credentials: owns the core, persists what it decides, and only then signs, answers
// and publishes. All methods on the strand, construction and destruction included, but for Submit.
//
// Any number of replicas serve at once over one store. Each decides on what it knows of all the
// others' commits; a transaction that turns out not to be on top of them does nothing, and its
// events are decided again. So the replicas act as one would, only with more processes that may
// die. When a commit's outcome is not known the engine drops the core, answers every open call with
// UNAVAILABLE, and loads again.
//
// Metrics, all with the prefix `capstan_credentials_`:
//   certificates_issued_total   certificates signed
//   tokens_issued_total         JWT-SVIDs signed
//   refusals_total              events that the core refused
//   policy_revision             revision of the policy in force
//   serving                     1 while this process has its state and the store answers it
//   commit_queue_submissions    events waiting to be committed
//   commit_conflicts_total      transactions that another replica's came before
class Engine final : public EventSink {
 public:
  struct Options {
    CoreConfig core;
    // What the turn key says when this process has put it; for people.
    std::string replica;
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
    // Called with each committed policy, whoever has committed it, with the loaded one, and with
    // null when this process can no longer say what the policy is.
    std::function<void(std::shared_ptr<const v1::PolicySnapshot>)> on_policy;
    // Called with each committed set of keys, and with the loaded one.
    std::function<void(const JwtKeySet&)> on_jwt_keys{};
  };
  Engine(Options options, Deps deps);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Begins to load. `on_first_load` runs once: when the state is there (and the first run's is
  // committed), or with the error that makes that impossible.
  void Start(absl::AnyInvocable<void(absl::Status)> on_first_load);

  // Calls that are open when the state is dropped get OUTCOME_UNKNOWN.
  void Submit(Event event, Callback done) override;

  // Records what was counted; `done` runs when that is over. Once.
  void Stop(absl::AnyInvocable<void()> done);

  bool serving() const { return core_ != nullptr && loaded_ && in_contact_; }

 private:
  // An event on its way into the store.
  struct Pending {
    Event event;
    // Runs after the event's effects. May be null.
    absl::AnyInvocable<void()> committed;
  };
  struct InFlight {
    Pending pending;
    std::vector<Effect> after;
  };

  void Load();
  void Loaded();
  void BeginServing();
  void FailLoad(const absl::Status& why);
  void Push(Event event, absl::AnyInvocable<void()> committed = nullptr);
  void ScheduleFlush();
  void Flush();
  void Commit(std::map<std::string, store::Op> ops);
  void Committed();
  void Conflicted();
  // Makes the core anew from what the store holds. False if it cannot be loaded.
  bool Rebuild(CredentialsCore::Unstored unstored);
  void OnForeignChange(const StoreMirror::Change& change);
  void OnContact(bool contact);
  void PublishChanges();
  void CarryOut(Effect* effect);
  void MakeKey(const std::string& algorithm);
  // Gives the keys to those who verify, and opens those that sign.
  void UseKeys(const JwtKeySet& keys);
  absl::StatusOr<Answer> Fulfil(Outcome outcome);
  void Reload(const absl::Status& why);
  void DropState();
  void ArmTimer();
  void FlushWindows(int rounds_left);
  void FinishStop();
  void ShowState();

  const Options options_;
  const Deps deps_;
  metrics::Counter issued_;
  metrics::Counter tokens_;
  metrics::Counter refusals_;
  metrics::Counter conflicts_;
  metrics::Gauge policy_revision_;
  metrics::Gauge serving_;
  metrics::Gauge queue_length_;

  // Raised whenever what was under way no longer counts.
  int64_t term_ = 0;
  std::unique_ptr<StoreMirror> mirror_;
  std::unique_ptr<CredentialsCore> core_;
  bool loaded_ = false;
  bool in_contact_ = true;
  bool stopping_ = false;
  bool flush_scheduled_ = false;
  bool tick_pending_ = false;
  std::deque<Pending> pending_;
  // Decided by the core and not yet known to be committed; `unstored_` is from before them.
  std::vector<InFlight> in_flight_;
  CredentialsCore::Unstored unstored_;
  // Of what on_policy and on_jwt_keys were told last; -1 for nothing.
  int64_t published_policy_ = -1;
  int64_t published_keys_ = -1;
  CallId next_call_ = 1;
  std::map<CallId, Callback> calls_;
  Strand::TimerId timer_ = 0;
  Strand::TimerId reload_timer_ = 0;
  BootTime timer_time_ = BootTime::InfiniteFuture();
  absl::AnyInvocable<void(absl::Status)> on_first_load_;
  absl::AnyInvocable<void()> on_stopped_;
  // Expires with the engine: tasks and callbacks hold it weakly.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ENGINE_H_
