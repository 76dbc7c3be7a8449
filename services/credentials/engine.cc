#include "services/credentials/engine.h"

#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/or_else.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr int64_t kPage = 2'000;

absl::Status NotLeading() {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, "NOT_LEADING",
                    "This process does not lead, or is still loading its state."),
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
      policy_revision_(
          deps_.metrics->AddGauge("policy_revision", "Revision of the policy in force.")),
      leading_(deps_.metrics->AddGauge("leading", "1 while this process leads.")),
      queue_length_(
          deps_.metrics->AddGauge("commit_queue_submissions", "Steps waiting to be committed.")) {}

Engine::~Engine() { DropState(); }

void Engine::Start(absl::AnyInvocable<void(absl::Status)> on_first_term) {
  on_first_term_ = std::move(on_first_term);
  leadership_ = std::make_unique<store::Leadership>(deps_.store, deps_.strand, options_.leadership);
  leadership_->Start({.on_gained = [this] { Load(); },
                      .on_lost =
                          [this](const absl::Status& why) {
                            if (!stopping_) {
                              deps_.log->Warning("leadership lost", {{"why", why}});
                            }
                            DropState();
                            deps_.on_policy(nullptr);
                            FinishStop();
                          }});
}

void Engine::Load() {
  ++term_;
  deps_.log->Info("leading; loading the state", {{"epoch", leadership_->epoch()}});
  LoadPage(kKeyRoot, 0, {});
}

void Engine::LoadPage(std::string from, int64_t revision, std::vector<store::KeyValue> records) {
  store::RangeRequest request;
  request.key = std::move(from);
  request.end = store::PrefixEnd(kKeyRoot);
  request.limit = kPage;
  request.revision = revision;
  deps_.store->Range(std::move(request), [this, alive = std::weak_ptr<char>(alive_), term = term_,
                                          records = std::move(records)](
                                             absl::StatusOr<store::RangeResult> page) mutable {
    if (alive.expired() || term != term_) return;
    if (!page.ok()) return FailLoad(page.status());
    const bool more = page->more;
    std::string next;
    if (more) {
      next = page->kvs.back().key;
      // The chain itself is read only by the audit service: the core needs its head alone.
      next = next.rfind(kAuditPrefix, 0) == 0 ? store::PrefixEnd(kAuditPrefix) : next + '\0';
    }
    for (store::KeyValue& kv : page->kvs) {
      if (kv.key.rfind(kAuditPrefix, 0) != 0) records.push_back(std::move(kv));
    }
    if (more) return LoadPage(std::move(next), page->revision, std::move(records));
    Loaded(records);
  });
}

void Engine::Loaded(const std::vector<store::KeyValue>& records) {
  auto core = std::make_unique<CredentialsCore>(options_.core);
  if (absl::Status status = core->Load(records); !status.ok()) return FailLoad(status);
  queue_ = std::make_unique<store::CommitQueue>(deps_.store, deps_.strand, leadership_->Guard());
  core_ = std::move(core);
  if (!core_->initialised()) {
    if (!options_.first_run.has_value()) {
      return FailLoad(status::Error(absl::StatusCode::kDataLoss, "TRUST_DOMAIN_LOST",
                                    "The store holds no trust domain."));
    }
    deps_.log->Info("first run: making the trust domain",
                    {{"trust_domain", options_.first_run->trust_domain.name()}});
    Apply(*options_.first_run);
  } else if (options_.first_run.has_value() &&
             core_->trust_domain().name() != options_.first_run->trust_domain.name()) {
    // Another process made one between our look and our term; ours must not sign for it.
    return FailLoad(status::Error(absl::StatusCode::kAborted, "TRUST_DOMAIN_MADE_ELSEWHERE",
                                  "Another process has made the trust domain; start again."));
  }
  // Behind the first run's step, if there is one.
  queue_->Submit({}, {}, [this](absl::StatusOr<int64_t> revision) {
    if (!revision.ok()) return Reload(revision.status());
    BeginTerm();
  });
}

void Engine::BeginTerm() {
  loaded_ = true;
  leading_.Set(1);
  auto snapshot = std::make_shared<const v1::PolicySnapshot>(core_->Snapshot());
  policy_revision_.Set(static_cast<double>(snapshot->revision()));
  deps_.on_policy(std::move(snapshot));
  if (deps_.jwt_keys != nullptr) {
    UseKeys(core_->jwt_keys().Published());
    // Makes the keys that are missing.
    Apply(Tick{});
  }
  ArmTimer();
  if (on_first_term_) std::exchange(on_first_term_, nullptr)(absl::OkStatus());
}

void Engine::FailLoad(const absl::Status& why) {
  deps_.log->Error("cannot load the state", {{"why", why}});
  if (on_first_term_) std::exchange(on_first_term_, nullptr)(why);
  Reload(why);
}

void Engine::Submit(Event event, Callback done) {
  // Shared, so that whichever way the task ends answers the caller.
  auto callback = std::make_shared<Callback>(std::move(done));
  deps_.strand->Post(rpc::OrElse(
      [this, alive = std::weak_ptr<char>(alive_), event = std::move(event), callback]() mutable {
        if (alive.expired() || !leading() || stopping_ || !leadership_->Valid()) {
          return (*callback)(NotLeading());
        }
        if (queue_->congested()) {
          return (*callback)(status::WithRetryDelay(
              status::Error(absl::StatusCode::kResourceExhausted, "OVERLOADED",
                            "Too many changes wait to be stored."),
              absl::Seconds(1)));
        }
        const CallId call = next_call_++;
        SetCall(&event, call);
        calls_[call] = std::move(*callback);
        Apply(event);
      },
      [callback] { (*callback)(NotLeading()); }));
}

void Engine::Apply(const Event& event) {
  Step step = core_->Apply(event, deps_.strand->clock().Read());
  queue_->Submit(std::move(step.puts), std::move(step.deletes),
                 [this, after = std::move(step.after)](absl::StatusOr<int64_t> revision) mutable {
                   if (!revision.ok()) return Reload(revision.status());
                   const int64_t term = term_;
                   for (Effect& effect : after) {
                     CarryOut(&effect);
                     // An answer may have led to the end of this term.
                     if (term != term_) return;
                   }
                 });
  queue_length_.Set(static_cast<double>(queue_->waiting()));
  if (loaded_) ArmTimer();
}

void Engine::CarryOut(Effect* effect) {
  if (auto* publish = std::get_if<PublishPolicy>(effect)) {
    policy_revision_.Set(static_cast<double>(publish->snapshot->revision()));
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
}

void Engine::MakeKey(const std::string& algorithm) {
  if (deps_.jwt_keys == nullptr) return;
  deps_.jwt_keys->Make(algorithm, [this, alive = std::weak_ptr<char>(alive_), term = term_,
                                   algorithm](absl::StatusOr<v1::JwtKeyRecord> record) {
    if (alive.expired() || term != term_) return;
    if (!record.ok()) {
      deps_.log->Error("no key for tokens", {{"algorithm", algorithm}, {"cause", record.status()}});
    }
    Apply(JwtKeyMade{algorithm, std::move(record)});
  });
}

void Engine::UseKeys(const JwtKeySet& keys) {
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
  if (stopping_) return;
  leadership_->StepDown(why);
}

void Engine::DropState() {
  ++term_;
  loaded_ = false;
  leading_.Set(0);
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  timer_time_ = BootTime::InfiniteFuture();
  queue_.reset();
  core_.reset();
  std::map<CallId, Callback> calls = std::move(calls_);
  calls_.clear();
  for (auto& [call, done] : calls) {
    done(OutcomeUnknown(absl::UnavailableError("the process no longer leads")));
  }
}

void Engine::ArmTimer() {
  const BootTime next = core_->NextDeadline().value_or(BootTime::InfiniteFuture());
  if (next == timer_time_) return;
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  timer_time_ = next;
  if (next == BootTime::InfiniteFuture()) return;
  timer_ = deps_.strand->RunAt(next, [this, alive = std::weak_ptr<char>(alive_), term = term_] {
    if (alive.expired() || term != term_) return;
    timer_ = 0;
    timer_time_ = BootTime::InfiniteFuture();
    OnTimer();
  });
}

void Engine::OnTimer() {
  if (leading()) Apply(Tick{});
}

void Engine::Stop(absl::AnyInvocable<void()> done) {
  stopping_ = true;
  if (leadership_ == nullptr) return done();
  on_stopped_ = std::move(done);
  // Each round closes at most 32 windows.
  Flush(/*rounds_left=*/16);
}

void Engine::Flush(int rounds_left) {
  if (!leading() || rounds_left == 0) return FinishStop();
  Apply(Tick{.flush = true});
  queue_->Submit({}, {}, [this, rounds_left](absl::StatusOr<int64_t> revision) {
    Flush(revision.ok() ? rounds_left - 1 : 0);
  });
}

void Engine::FinishStop() {
  if (!on_stopped_) return;
  leadership_->Resign(
      [done = std::exchange(on_stopped_, nullptr)](absl::Status) mutable { done(); });
}

}  // namespace capstan::credentials
