#include "services/credentials/engine.h"

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/rpc/or_else.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/store_key.h"
#include "services/credentials/store_mirror.h"

namespace capstan::credentials {
namespace {

// Events waiting beyond which new ones are refused.
constexpr size_t kCongestedAt = 4096;
// What one transaction may hold, the turn key aside; the most operations that an event other than a
// Tick makes, with room; and bytes, of which the store takes three times as many.
constexpr size_t kMostOps = store::kMaxTxnOps - 1;
constexpr size_t kOrdinaryOps = 16;
constexpr size_t kMostBytes = store::kMaxTxnBytes / 3;
constexpr absl::Duration kReloadAfter = absl::Milliseconds(500);

absl::Status NotServing() {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, "NOT_SERVING",
                    "This process is still loading its state, or cannot reach its store."),
      absl::Milliseconds(500));
}

absl::Status OutcomeUnknown(const absl::Status& why) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
                    absl::StrCat("The change may or may not have been stored: ", why.message())),
      absl::Milliseconds(500));
}

void SetCall(Event* event, CallId call) {
  std::visit(
      [call](auto& e) {
        if constexpr (requires { e.call; }) e.call = call;
      },
      *event);
}

}  // namespace

Engine::Engine(Options options, Deps deps)
    : options_(std::move(options)),
      deps_(std::move(deps)),
      issued_(deps_.metrics->AddCounter("certificates_issued_total", "Certificates signed.")),
      tokens_(deps_.metrics->AddCounter("tokens_issued_total", "JWT-SVIDs signed.")),
      refusals_(deps_.metrics->AddCounter("refusals_total", "Events that were refused.")),
      conflicts_(deps_.metrics->AddCounter("commit_conflicts_total",
                                           "Transactions that another replica's came before.")),
      policy_revision_(
          deps_.metrics->AddGauge("policy_revision", "Revision of the policy in force.")),
      serving_(deps_.metrics->AddGauge("serving", "1 while this process can act.")),
      queue_length_(
          deps_.metrics->AddGauge("commit_queue_submissions", "Events waiting to be committed.")) {}

Engine::~Engine() {
  if (reload_timer_ != 0) deps_.strand->Cancel(reload_timer_);
  // Now, for the store may go next.
  mirror_ = nullptr;
  DropState();
}

void Engine::Start(absl::AnyInvocable<void(absl::Status)> on_first_load) {
  on_first_load_ = std::move(on_first_load);
  Load();
}

void Engine::Load() {
  ++term_;
  in_contact_ = true;
  mirror_ = std::make_unique<StoreMirror>(deps_.store, deps_.strand,
                                          StoreMirror::Options{.root = kKeyRoot,
                                                               .turn_key = kTurnKey,
                                                               .unkept_prefix = kAuditPrefix,
                                                               .replica = options_.replica});
  StoreMirror::Callbacks callbacks;
  callbacks.on_loaded = [this] { Loaded(); };
  callbacks.on_change = [this](const StoreMirror::Change& change) { OnForeignChange(change); };
  callbacks.on_contact = [this](bool contact) { OnContact(contact); };
  callbacks.on_failed = [this](const absl::Status& why) {
    deps_.log->Error("the store cannot be followed", {{"why", why}});
    if (!loaded_ && on_first_load_) std::exchange(on_first_load_, nullptr)(why);
    Reload(why);
  };
  mirror_->Start(std::move(callbacks));
}

bool Engine::Rebuild(CredentialsCore::Unstored unstored) {
  auto core = std::make_unique<CredentialsCore>(options_.core);
  if (absl::Status status = core->Load(mirror_->RecordList()); !status.ok()) {
    FailLoad(status);
    return false;
  }
  core->Restore(std::move(unstored));
  core_ = std::move(core);
  return true;
}

void Engine::Loaded() {
  if (!Rebuild({})) return;
  if (core_->initialised()) {
    if (options_.first_run.has_value() &&
        core_->trust_domain().name() != options_.first_run->trust_domain.name()) {
      // Another process made one between our look and our load; ours must not sign for it.
      return FailLoad(status::Error(absl::StatusCode::kAborted, "TRUST_DOMAIN_MADE_ELSEWHERE",
                                    "Another process has made the trust domain; start again."));
    }
    return BeginServing();
  }
  if (!options_.first_run.has_value()) {
    return FailLoad(status::Error(absl::StatusCode::kDataLoss, "TRUST_DOMAIN_LOST",
                                  "The store holds no trust domain."));
  }
  deps_.log->Info("first run: making the trust domain",
                  {{"trust_domain", options_.first_run->trust_domain.name()}});
  Push(*options_.first_run, [this] { BeginServing(); });
}

void Engine::BeginServing() {
  loaded_ = true;
  deps_.log->Info("serving what the store holds", {{"records", mirror_->records().size()}});
  PublishChanges();
  // Makes the keys that are missing.
  if (deps_.jwt_keys != nullptr) Push(Tick{});
  ShowState();
  ArmTimer();
  if (on_first_load_) std::exchange(on_first_load_, nullptr)(absl::OkStatus());
}

void Engine::FailLoad(const absl::Status& why) {
  deps_.log->Error("cannot load the state", {{"why", why}});
  if (on_first_load_) std::exchange(on_first_load_, nullptr)(why);
  Reload(why);
}

void Engine::Submit(Event event, Callback done) {
  // Shared, so that whichever way the task ends answers the caller.
  auto callback = std::make_shared<Callback>(std::move(done));
  deps_.strand->Post(rpc::OrElse(
      [this, alive = std::weak_ptr<char>(alive_), event = std::move(event), callback]() mutable {
        if (alive.expired() || !serving() || stopping_) return (*callback)(NotServing());
        if (pending_.size() + in_flight_.size() > kCongestedAt) {
          return (*callback)(status::WithRetryDelay(
              status::Error(absl::StatusCode::kResourceExhausted, "OVERLOADED",
                            "Too many changes wait to be stored."),
              absl::Seconds(1)));
        }
        const CallId call = next_call_++;
        SetCall(&event, call);
        calls_[call] = std::move(*callback);
        Push(std::move(event));
      },
      [callback] { (*callback)(NotServing()); }));
}

void Engine::Push(Event event, absl::AnyInvocable<void()> committed) {
  if (std::holds_alternative<Tick>(event)) tick_pending_ = true;
  pending_.push_back({std::move(event), std::move(committed)});
  queue_length_.Set(static_cast<double>(pending_.size() + in_flight_.size()));
  ScheduleFlush();
}

void Engine::ScheduleFlush() {
  if (flush_scheduled_) return;
  flush_scheduled_ = true;
  // Not at once: what the tasks behind this one submit goes along.
  deps_.strand->Post([this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    flush_scheduled_ = false;
    Flush();
  });
}

void Engine::Flush() {
  if (core_ == nullptr || !in_flight_.empty() || pending_.empty()) return;
  unstored_ = core_->unstored();
  // What several events do to one key is one operation: nobody sees what lies between them.
  std::map<std::string, store::Op> ops;
  size_t bytes = 0;
  const Now now = deps_.strand->clock().Read();
  while (!pending_.empty()) {
    const bool tick = std::holds_alternative<Tick>(pending_.front().event);
    // A Tick may fill a transaction by itself.
    if (!in_flight_.empty() &&
        (tick || ops.size() + kOrdinaryOps > kMostOps || bytes > kMostBytes)) {
      break;
    }
    if (std::holds_alternative<FirstRun>(pending_.front().event) && core_->initialised()) {
      return FailLoad(status::Error(absl::StatusCode::kAborted, "TRUST_DOMAIN_MADE_ELSEWHERE",
                                    "Another process has made the trust domain; start again."));
    }
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    Step step = core_->Apply(pending.event, now);
    for (store::Put& put : step.puts) {
      bytes += put.key.size() + put.value.size();
      std::string key = put.key;
      ops.insert_or_assign(std::move(key), std::move(put));
    }
    for (store::Delete& gone : step.deletes) {
      std::string key = gone.key;
      ops.insert_or_assign(std::move(key), std::move(gone));
    }
    in_flight_.push_back({std::move(pending), std::move(step.after)});
    if (tick) break;
  }
  Commit(std::move(ops));
}

void Engine::Commit(std::map<std::string, store::Op> ops) {
  std::vector<store::Op> list;
  list.reserve(ops.size());
  for (auto& [key, op] : ops) list.push_back(std::move(op));
  mirror_->Commit(std::move(list), [this](absl::StatusOr<bool> committed) {
    if (!committed.ok()) return Reload(committed.status());
    if (*committed) {
      Committed();
    } else {
      Conflicted();
    }
  });
}

void Engine::Committed() {
  std::vector<InFlight> done = std::exchange(in_flight_, {});
  queue_length_.Set(static_cast<double>(pending_.size()));
  const int64_t term = term_;
  CrashPoint(crash::kCredentialsCommitted);
  for (InFlight& event : done) {
    if (std::holds_alternative<Tick>(event.pending.event)) tick_pending_ = false;
    for (Effect& effect : event.after) {
      CarryOut(&effect);
      // An answer may have led to the end of this term.
      if (term != term_) return;
    }
    if (event.pending.committed) event.pending.committed();
    if (term != term_) return;
  }
  if (loaded_) {
    // Contact came back while the transaction was under way.
    if (published_policy_ < 0) PublishChanges();
    ArmTimer();
  }
  if (!pending_.empty()) ScheduleFlush();
}

void Engine::Conflicted() {
  conflicts_.Increment();
  // What the core has decided did not happen; the events are decided again, in their order.
  for (auto it = in_flight_.rbegin(); it != in_flight_.rend(); ++it) {
    pending_.push_front(std::move(it->pending));
  }
  in_flight_.clear();
  if (!Rebuild(std::move(unstored_))) return;
  if (loaded_) PublishChanges();
  ScheduleFlush();
}

void Engine::OnForeignChange(const StoreMirror::Change& change) {
  if (core_ == nullptr) return;
  if (change.deleted) {
    if (!Rebuild(core_->unstored())) return;
  } else if (absl::Status loaded = core_->Load(change.puts); !loaded.ok()) {
    return FailLoad(loaded);
  }
  if (!loaded_) return;
  PublishChanges();
  ArmTimer();
}

void Engine::OnContact(bool contact) {
  in_contact_ = contact;
  ShowState();
  if (contact) {
    deps_.log->Info("the store answers again");
    published_policy_ = -1;
    if (loaded_) PublishChanges();
    return;
  }
  deps_.log->Warning("the store does not answer; this process no longer says what the policy is");
  deps_.on_policy(nullptr);
}

void Engine::PublishChanges() {
  // What is decided and not yet committed is nobody's to know.
  if (!in_contact_ || !in_flight_.empty()) return;
  auto snapshot = std::make_shared<const v1::PolicySnapshot>(core_->Snapshot());
  if (snapshot->revision() != published_policy_) {
    published_policy_ = snapshot->revision();
    policy_revision_.Set(static_cast<double>(snapshot->revision()));
    deps_.on_policy(std::move(snapshot));
  }
  if (deps_.jwt_keys == nullptr) return;
  const JwtKeySet keys = core_->jwt_keys().Published();
  if (keys.sequence != published_keys_) UseKeys(keys);
}

void Engine::CarryOut(Effect* effect) {
  if (auto* publish = std::get_if<PublishPolicy>(effect)) {
    published_policy_ = publish->snapshot->revision();
    policy_revision_.Set(static_cast<double>(published_policy_));
    deps_.on_policy(std::move(publish->snapshot));
    return;
  }
  if (const auto* make = std::get_if<MakeJwtKey>(effect)) return MakeKey(make->algorithm);
  if (const auto* keys = std::get_if<PublishJwtKeys>(effect)) return UseKeys(*keys->keys);
  Reply& reply = std::get<Reply>(*effect);
  auto call = calls_.find(reply.call);
  if (call == calls_.end()) return;
  Callback done = std::move(call->second);
  calls_.erase(call);
  if (!reply.outcome.ok()) {
    refusals_.Increment();
    return done(reply.outcome.status());
  }
  done(Fulfil(*std::move(reply.outcome)));
  CrashPoint(crash::kCredentialsAnswered);
}

void Engine::MakeKey(const std::string& algorithm) {
  if (deps_.jwt_keys == nullptr) return;
  deps_.jwt_keys->Make(algorithm, [this, alive = std::weak_ptr<char>(alive_), term = term_,
                                   algorithm](absl::StatusOr<v1::JwtKeyRecord> record) {
    if (alive.expired() || term != term_) return;
    if (!record.ok()) {
      deps_.log->Error("no key for tokens", {{"algorithm", algorithm}, {"cause", record.status()}});
    }
    Push(JwtKeyMade{algorithm, std::move(record)});
  });
}

void Engine::UseKeys(const JwtKeySet& keys) {
  published_keys_ = keys.sequence;
  if (deps_.on_jwt_keys) deps_.on_jwt_keys(keys);
  if (deps_.jwt_keys == nullptr) return;
  deps_.jwt_keys->Open(core_->jwt_keys().keys(), [log = deps_.log](const absl::Status& opened) {
    if (!opened.ok()) {
      log->Error("a key for tokens cannot be opened", {{"cause", opened}});
    }
  });
}

absl::StatusOr<Answer> Engine::Fulfil(Outcome outcome) {
  if (auto* order = std::get_if<IssueOrder>(&outcome)) {
    // The bundle belongs to the answer: who gets an SVID can verify others with it.
    CAPSTAN_ASSIGN_OR_RETURN(std::string leaf, deps_.signer->Sign(*order));
    CrashPoint(crash::kCredentialsSigned);
    issued_.Increment();
    v1::Svid svid;
    svid.set_spiffe_id(order->spiffe_id);
    svid.add_certificate_chain(std::move(leaf));
    const v1::TrustDomainRecord& trust_domain = core_->trust_domain();
    svid.mutable_bundle()->set_trust_domain(trust_domain.name());
    *svid.mutable_bundle()->mutable_roots() = trust_domain.roots();
    svid.mutable_bundle()->set_sequence(trust_domain.bundle_sequence());
    *svid.mutable_expire_time() = ToProto(order->not_after);
    return Answer(std::move(svid));
  }
  if (const auto* order = std::get_if<JwtOrder>(&outcome)) {
    if (deps_.jwt_keys == nullptr) return absl::UnimplementedError("no tokens are issued");
    v1::JwtSvid svid;
    CAPSTAN_ASSIGN_OR_RETURN(*svid.mutable_token(), deps_.jwt_keys->Sign(*order));
    tokens_.Increment();
    svid.set_spiffe_id(order->subject);
    *svid.mutable_expire_time() = ToProto(order->expires);
    return Answer(std::move(svid));
  }
  if (auto* token = std::get_if<TokenMade>(&outcome)) return Answer(std::move(*token));
  if (auto* project = std::get_if<v1::Project>(&outcome)) return Answer(std::move(*project));
  if (auto* binding = std::get_if<v1::RoleBinding>(&outcome)) return Answer(std::move(*binding));
  return Answer(Done{});
}

void Engine::Reload(const absl::Status& why) {
  deps_.log->Warning("the state is dropped and loaded again", {{"why", why}});
  DropState();
  deps_.on_policy(nullptr);
  if (stopping_) return FinishStop();
  if (reload_timer_ != 0) return;
  reload_timer_ = deps_.strand->RunAfter(kReloadAfter, [this] {
    reload_timer_ = 0;
    Load();
  });
}

void Engine::DropState() {
  ++term_;
  loaded_ = false;
  tick_pending_ = false;
  published_policy_ = -1;
  published_keys_ = -1;
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  timer_time_ = BootTime::InfiniteFuture();
  if (mirror_ != nullptr) {
    mirror_->Stop();
    // Not from within one of its callbacks.
    deps_.strand->Post([mirror = std::shared_ptr<StoreMirror>(std::move(mirror_))] {});
  }
  core_.reset();
  pending_.clear();
  in_flight_.clear();
  ShowState();
  std::map<CallId, Callback> calls = std::move(calls_);
  calls_.clear();
  for (auto& [call, done] : calls) {
    done(OutcomeUnknown(absl::UnavailableError("the store did not say")));
  }
}

void Engine::ShowState() {
  serving_.Set(serving() ? 1 : 0);
  queue_length_.Set(static_cast<double>(pending_.size() + in_flight_.size()));
}

void Engine::ArmTimer() {
  const BootTime next = tick_pending_ ? BootTime::InfiniteFuture()
                                      : core_->NextDeadline().value_or(BootTime::InfiniteFuture());
  if (next == timer_time_) return;
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  timer_time_ = next;
  if (next == BootTime::InfiniteFuture()) return;
  timer_ = deps_.strand->RunAt(next, [this, alive = std::weak_ptr<char>(alive_), term = term_] {
    if (alive.expired() || term != term_) return;
    timer_ = 0;
    timer_time_ = BootTime::InfiniteFuture();
    Push(Tick{});
  });
}

void Engine::Stop(absl::AnyInvocable<void()> done) {
  stopping_ = true;
  on_stopped_ = std::move(done);
  // Each round closes at most 32 windows.
  FlushWindows(/*rounds_left=*/16);
}

void Engine::FlushWindows(int rounds_left) {
  if (!serving() || rounds_left == 0) return FinishStop();
  Push(Tick{.flush = true}, [this, rounds_left] { FlushWindows(rounds_left - 1); });
}

void Engine::FinishStop() {
  if (!on_stopped_) return;
  if (reload_timer_ != 0) deps_.strand->Cancel(std::exchange(reload_timer_, 0));
  DropState();
  deps_.on_policy(nullptr);
  std::exchange(on_stopped_, nullptr)();
}

}  // namespace capstan::credentials
