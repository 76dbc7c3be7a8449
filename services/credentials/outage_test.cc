// What an outage of credentials costs the other parts, on the code that renews, stores, loads and
// verifies their SVIDs, with lives as credentials' core gives them by default.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/principal.h"
#include "libs/auth/svid_renewer.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/server.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/executor/v1/agent_session.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.pb.h"
#include "services/credentials/adapters/certificate_authority.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/adapters/openssl_signer.h"
#include "services/credentials/core/core_harness.h"

namespace capstan::credentials {
namespace {

constexpr char kExecutorToScheduler[] = "/capstan.scheduler.v1.ExecutorSession/Connect";
constexpr char kAgentToExecutor[] = "/capstan.executor.v1.AgentSession/Connect";
constexpr char kRenewSvid[] = "/capstan.credentials.v1.IdentityService/RenewSvid";

class NoAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry&) override { return absl::OkStatus(); }
};

// Credentials: its core decides, its signer signs, while it is up.
class Issuer {
 public:
  Issuer(CoreConfig config, SimulatedClock* clock) : core_(config), clock_(clock) {
    clock_->StepWall(core_.now().wall - clock_->Read().wall);
    authority_ =
        MakeCertificateAuthority(CoreHarness::kDomain, core_.now().wall, &secrets_).value();
    signer_ = OpenSslSigner::Create(authority_.root, authority_.private_key).value();
  }

  // The first identity of a part, by a join token.
  rpc::Svid Join(const std::string& path) {
    const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
    const std::string token = absl::StrCat("t", ++tokens_);
    CatchUp();
    core_.MakeToken(token, path);
    credentials::Join event = core_.JoinEvent(token, token, key.PublicKey());
    return auth::MakeSvid(key, Sign(core_.Apply(event)));
  }

  // Renewal over mTLS: who asks is verified as the server does it.
  absl::StatusOr<v1::Svid> Renew(const rpc::Identity& identity, const std::string& request) {
    if (!up) return absl::UnavailableError("credentials is down");
    CatchUp();
    const auto shown = identity.Get();
    const absl::Status verified =
        rpc::VerifyChain(shown->svid.chain[0], {}, {authority_.root}, clock_->Read().wall);
    if (!verified.ok()) return verified;
    RenewSvid event;
    event.call = 1;
    event.identity = shown->id;
    event.serial = shown->serial;
    event.key = core_.Key(rpc::PublicKeyOfRequest(request).value());
    ++renewals;
    return Sign(core_.Apply(event));
  }

  v1::PolicySnapshot Policy() { return core_.core().Snapshot(); }

  bool up = true;
  int renewals = 0;

 private:
  void CatchUp() { core_.Advance(clock_->Read().wall - core_.now().wall); }

  v1::Svid Sign(const absl::optional<absl::StatusOr<Outcome>>& answer) {
    EXPECT_TRUE(answer.has_value() && answer->ok());
    v1::Svid svid;
    svid.add_certificate_chain(signer_->Sign(std::get<IssueOrder>(**answer)).value());
    svid.mutable_bundle()->add_roots(authority_.root);
    return svid;
  }

  CoreHarness core_;
  SimulatedClock* const clock_;
  OpenSslSecretSource secrets_;
  CertificateAuthority authority_;
  std::unique_ptr<OpenSslSigner> signer_;
  int tokens_ = 0;
};

// One part: what is on its disk outlives Restart, everything else does not.
class Part {
 public:
  Part(const std::string& path, Issuer* issuer, SimulatedClock* clock, SimulatedStrand* strand)
      : path_(path), issuer_(issuer), clock_(clock), strand_(strand), random_(1) {
    static int number = 0;
    folder_ = absl::StrCat(::testing::TempDir(), "/outage", getpid(), "-", ++number);
    EXPECT_TRUE(rpc::Identity::Store(folder_, issuer->Join(path)).ok());
    Restart();
  }

  void Restart() {
    renewer_ = nullptr;
    access_ = nullptr;
    policy_ = std::make_unique<auth::PolicyHolder>();
    identity_ = rpc::Identity::Load(folder_).value();
    access_ = std::make_unique<auth::PolicyAccess>(identity_->trust_domain(), policy_.get(), clock_,
                                                   &audit_);
    renewer_ = std::make_unique<auth::SvidRenewer>(
        identity_, strand_, &random_,
        [this](const std::string& request, auth::SvidRenewer::Done done) {
          strand_->Post([this, request, done = std::move(done)]() mutable {
            done(issuer_->Renew(*identity_, request));
          });
        });
    renewer_->Start();
    ++starts_;
  }
  // As the watcher would.
  void HearPolicy() {
    policy_->Set(std::make_shared<auth::Policy>(issuer_->Policy(), clock_->Read().boot));
  }

  const std::string& path() const { return path_; }
  int starts() const { return starts_; }
  const rpc::Identity& identity() const { return *identity_; }
  auth::Access& access() { return *access_; }
  absl::Duration Left() const { return identity_->Get()->not_after - clock_->Read().wall; }

 private:
  const std::string path_;
  Issuer* const issuer_;
  SimulatedClock* const clock_;
  SimulatedStrand* const strand_;
  Random random_;
  NoAudit audit_;
  std::string folder_;
  int starts_ = 0;
  std::unique_ptr<auth::PolicyHolder> policy_;
  std::shared_ptr<rpc::Identity> identity_;
  std::unique_ptr<auth::PolicyAccess> access_;
  std::unique_ptr<auth::SvidRenewer> renewer_;
};

// What `verifier` makes of what `shown` shows in a handshake.
absl::Status Verify(const Part& verifier, const Part& shown, absl::Time now) {
  return rpc::VerifyChain(shown.identity().Get()->svid.chain[0], {},
                          verifier.identity().Get()->svid.bundle, now);
}

// A session on which leases are renewed: connections end with their age, and either side's restart.
class Link {
 public:
  Link(Part* client, Part* server, std::string method, SimulatedClock* clock)
      : client_(client), server_(server), method_(std::move(method)), clock_(clock) {}

  // One renewal of the leases: over the open connection, or a new one.
  absl::Status Renew() {
    const Now now = clock_->Read();
    const int starts = client_->starts() + server_->starts();
    if (caller_.has_value() && now.boot < until_ && starts == starts_) {
      return server_->access().Recheck(*caller_);
    }
    caller_.reset();
    absl::Status verified = Verify(*client_, *server_, now.wall);
    if (verified.ok()) verified = Verify(*server_, *client_, now.wall);
    if (!verified.ok()) return verified;
    const auto shown = client_->identity().Get();
    absl::StatusOr<auth::Caller> caller = server_->access().Authorize(
        {client_->identity().spiffe_id(), shown->serial, shown->not_after, ""}, method_, nullptr);
    if (!caller.ok()) return caller.status();
    caller_ = *std::move(caller);
    until_ = now.boot + std::min(rpc::ConnectionAge(*server_->identity().Get(), now.wall),
                                 shown->not_after - now.wall);
    starts_ = starts;
    return absl::OkStatus();
  }

 private:
  Part* const client_;
  Part* const server_;
  const std::string method_;
  SimulatedClock* const clock_;
  absl::optional<auth::Caller> caller_;
  BootTime until_;
  int starts_ = 0;
};

class Platform {
 public:
  explicit Platform(CoreConfig config) : issuer(config, &clock) {}

  // A minute, in which leases are renewed and whoever watches the policy hears it.
  void Minute() {
    strand.Advance(absl::Minutes(1));
    if (!issuer.up) return;
    scheduler.HearPolicy();
    executor.HearPolicy();
  }
  // To just before the parts renew their first SVIDs.
  void RunUntilJustBeforeRenewal() {
    const auto first = scheduler.identity().Get();
    const absl::Time due = first->not_before + (first->not_after - first->not_before) / 3;
    while (clock.Read().wall + absl::Minutes(2) < due) Minute();
    strand.Advance(due - absl::Seconds(1) - clock.Read().wall);
    ASSERT_EQ(issuer.renewals, 0);
  }
  // Of all parts with each other, and of the sessions.
  absl::Status Talk() {
    const absl::Time now = clock.Read().wall;
    for (const Part* verifier : parts) {
      for (const Part* shown : parts) {
        if (absl::Status status = Verify(*verifier, *shown, now); !status.ok()) return status;
      }
    }
    absl::Status status = up.Renew();
    return status.ok() ? down.Renew() : status;
  }
  // A person's call to the scheduler.
  absl::Status AskAsPerson() {
    return scheduler.access()
        .Authorize({auth::SpiffeId::Person(CoreHarness::kDomain, "1000").ToString(), "0a",
                    clock.Read().wall + absl::Hours(1), ""},
                   kRenewSvid, nullptr)
        .status();
  }

  SimulatedClock clock;
  SimulatedStrand strand{&clock};
  Issuer issuer;
  Part scheduler{"/svc/scheduler", &issuer, &clock, &strand};
  Part executor{"/executor/local", &issuer, &clock, &strand};
  Part agent{"/node/local/node-0", &issuer, &clock, &strand};
  Link up{&executor, &scheduler, kExecutorToScheduler, &clock};
  Link down{&agent, &executor, kAgentToExecutor, &clock};
  const std::vector<Part*> parts{&scheduler, &executor, &agent};
};

TEST(OutageTest, TwelveHoursFromJustBeforeARenewalWithRestartsLoseNoLease) {
  Platform platform{CoreConfig()};
  platform.RunUntilJustBeforeRenewal();
  ASSERT_TRUE(platform.Talk().ok());
  EXPECT_TRUE(platform.AskAsPerson().ok());
  platform.issuer.up = false;
  for (int minute = 1; minute <= 12 * 60; ++minute) {
    platform.Minute();
    // Each part is restarted every 90 min, and all at once in the middle.
    for (size_t i = 0; i < platform.parts.size(); ++i) {
      if (minute % 90 == static_cast<int>(30 * i) || minute == 6 * 60) platform.parts[i]->Restart();
    }
    const absl::Status talk = platform.Talk();
    ASSERT_TRUE(talk.ok()) << "minute " << minute << ": " << talk;
    // People are refused once the policy has expired, and only they.
    const absl::Status person = platform.AskAsPerson();
    if (minute <= 6) continue;
    ASSERT_EQ(status::Reason(person), "POLICY_EXPIRED") << person;
  }
  EXPECT_EQ(platform.issuer.renewals, 0);
  for (const Part* part : platform.parts) {
    EXPECT_GT(part->starts(), 5);
    EXPECT_GT(part->Left(), absl::Hours(3)) << part->path();
  }
  platform.issuer.up = true;
  for (int minute = 0; minute < 6; ++minute) platform.Minute();
  EXPECT_EQ(platform.issuer.renewals, 3);
  for (const Part* part : platform.parts) EXPECT_GT(part->Left(), absl::Hours(23)) << part->path();
  EXPECT_TRUE(platform.Talk().ok());
  EXPECT_TRUE(platform.AskAsPerson().ok());
}

TEST(OutageTest, WithALifeTooShortTheVerificationRefuses) {
  CoreConfig config;
  config.svid_ttl = absl::Hours(6);
  Platform platform{config};
  platform.RunUntilJustBeforeRenewal();
  platform.issuer.up = false;
  int minute = 0;
  while (platform.Talk().ok()) {
    ASSERT_LT(++minute, 12 * 60);
    platform.Minute();
  }
  // Two thirds of six hours.
  EXPECT_GT(minute, 4 * 60 - 5);
  EXPECT_LT(minute, 4 * 60 + 5);
  EXPECT_EQ(platform.Talk().code(), absl::StatusCode::kUnauthenticated);
  // Nor does credentials renew what has run out: the parts need join tokens.
  platform.issuer.up = true;
  for (int i = 0; i < 10; ++i) platform.Minute();
  EXPECT_EQ(platform.issuer.renewals, 0);
  EXPECT_EQ(platform.Talk().code(), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace capstan::credentials
