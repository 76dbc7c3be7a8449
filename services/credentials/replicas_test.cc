// Two engines over one store, on simulated time: together they act as one would.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/auth/spiffe_id.h"
#include "libs/digest/sha256.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/core/store_key.h"
#include "services/credentials/engine.h"

namespace capstan::credentials {
namespace {

constexpr char kDomain[] = "capstan-00000000.local";

using Answers = std::shared_ptr<absl::optional<absl::StatusOr<Answer>>>;

class FakeSigner final : public Signer {
 public:
  absl::StatusOr<std::string> Sign(const IssueOrder& order) override {
    return absl::StrCat(order.spiffe_id, " ", order.serial);
  }
};

// Makes keys named after their replica and number, a second after it is asked.
class FakeJwtKeys final : public JwtKeys {
 public:
  FakeJwtKeys(std::string replica, Strand* strand)
      : replica_(std::move(replica)), strand_(strand) {}
  void Make(const std::string& algorithm,
            absl::AnyInvocable<void(absl::StatusOr<v1::JwtKeyRecord>)> done) override {
    v1::JwtKeyRecord record;
    record.set_key_id(absl::StrCat(replica_, "-", ++made_));
    record.set_algorithm(algorithm);
    record.set_public_jwk(record.key_id());
    strand_->RunAfter(absl::Seconds(1),
                      [record, done = std::move(done)]() mutable { done(record); });
  }
  void Open(const std::vector<v1::JwtKeyRecord>& records,
            absl::AnyInvocable<void(absl::Status)> done) override {
    open_.clear();
    for (const v1::JwtKeyRecord& record : records) open_.insert(record.key_id());
    done(absl::OkStatus());
  }
  absl::StatusOr<std::string> Sign(const JwtOrder& order) override {
    if (open_.count(order.key_id) == 0) return absl::UnavailableError("not open");
    return absl::StrCat("by ", order.key_id);
  }
  const std::set<std::string>& open() const { return open_; }

 private:
  const std::string replica_;
  Strand* const strand_;
  int made_ = 0;
  std::set<std::string> open_;
};

struct Replica {
  std::string name;
  std::unique_ptr<FakeJwtKeys> keys;
  std::unique_ptr<metrics::Registry> metrics;
  std::unique_ptr<Engine> engine;
  absl::optional<absl::Status> loaded;
  std::shared_ptr<const v1::PolicySnapshot> policy;
  absl::optional<JwtKeySet> published;
};

class ReplicasTest : public testing::Test {
 protected:
  ReplicasTest() {
    store_ = std::make_unique<store::MemoryStore>(&strand_, image_);
    for (int i = 0; i < 2; ++i) Start(i);
  }
  ~ReplicasTest() override {
    for (Replica& replica : replicas_) replica.engine.reset();
    store_.reset();
    strand_.RunReady();
  }

  void Start(int i) {
    Replica& replica = replicas_[i];
    replica = Replica();
    replica.name = absl::StrCat("r", i);
    replica.keys = std::make_unique<FakeJwtKeys>(replica.name, &strand_);
    replica.metrics = std::make_unique<metrics::Registry>("credentials");
    FirstRun first_run;
    first_run.trust_domain.set_name(kDomain);
    first_run.trust_domain.add_roots("root");
    first_run.admin_uid = 1000;
    Engine::Options options;
    options.replica = replica.name;
    options.core.jwt_keys = {.rotate_after = absl::Hours(2), .publish_before = absl::Minutes(30)};
    if (i == 0) options.first_run = first_run;
    replica.engine = std::make_unique<Engine>(
        std::move(options),
        Engine::Deps{
            .strand = &strand_,
            .store = store_.get(),
            .signer = &signer_,
            .jwt_keys = replica.keys.get(),
            .log = &log_,
            .metrics = replica.metrics.get(),
            .on_policy =
                [&replica](std::shared_ptr<const v1::PolicySnapshot> snapshot) {
                  replica.policy = std::move(snapshot);
                },
            .on_jwt_keys = [&replica](const JwtKeySet& keys) { replica.published = keys; }});
    replica.engine->Start([&replica](absl::Status status) { replica.loaded = std::move(status); });
    strand_.RunReady();
    EXPECT_TRUE(replica.loaded.has_value() && replica.loaded->ok());
  }

  Answers Submit(int i, Event event) {
    auto answer = std::make_shared<absl::optional<absl::StatusOr<Answer>>>();
    replicas_[i].engine->Submit(std::move(event),
                                [answer](absl::StatusOr<Answer> got) { *answer = std::move(got); });
    return answer;
  }
  static credentials::CreateProject NewProject(const std::string& id) {
    credentials::CreateProject event;
    event.request.principal = absl::StrCat("spiffe://", kDomain, "/person/1000");
    event.project_id = id;
    event.uid = "uid";
    return event;
  }
  CreateJoinToken NewToken(const std::string& id) {
    CreateJoinToken make;
    make.principal = kSupervisor;
    make.identity = *auth::SpiffeId::ParsePath(kDomain, "/svc/scheduler");
    make.ttl = absl::Minutes(15);
    make.token_id = id;
    make.secret_sha256 = Sha256::Of("s");
    return make;
  }
  Join Redeem(const std::string& id) {
    Join join;
    join.token_id = id;
    join.secret_sha256 = Sha256::Of("s");
    const std::string serial = absl::StrFormat("4%031d", ++serials_);
    join.key = {.spki = serial, .serial = serial};
    return join;
  }
  // Every record of the audit chain, which must be whole.
  std::vector<event::v1::AuditRecord> Audit() {
    std::vector<event::v1::AuditRecord> records;
    store::RangeRequest range;
    range.key = kAuditPrefix;
    range.end = store::PrefixEnd(kAuditPrefix);
    range.limit = 10'000;
    store_->Range(range, [&](absl::StatusOr<store::RangeResult> found) {
      std::string hash(32, '\0');
      for (const store::KeyValue& kv : found->kvs) {
        event::v1::AuditRecord record;
        EXPECT_TRUE(record.ParseFromString(kv.value));
        EXPECT_EQ(record.previous_hash(), hash);
        EXPECT_EQ(record.sequence(), static_cast<int64_t>(records.size()) + 1);
        hash = Sha256::Of(kv.value);
        records.push_back(std::move(record));
      }
    });
    strand_.RunReady();
    return records;
  }
  double Conflicts() {
    double sum = 0;
    for (Replica& replica : replicas_) {
      sum += replica.metrics->AddCounter("commit_conflicts_total", "").value();
    }
    return sum;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  const log::Logger log_{"credentials", &clock_, &sink_};
  FakeSigner signer_;
  std::shared_ptr<store::MemoryImage> image_ = std::make_shared<store::MemoryImage>();
  std::unique_ptr<store::MemoryStore> store_;
  Replica replicas_[2];
  int serials_ = 0;
};

TEST_F(ReplicasTest, EachShowsWhatTheOtherHasCommitted) {
  const Answers made = Submit(0, NewProject("robots"));
  strand_.RunReady();
  ASSERT_TRUE(made->has_value() && (*made)->ok());
  ASSERT_NE(replicas_[1].policy, nullptr);
  EXPECT_EQ(replicas_[1].policy->projects_size(), 2);
  EXPECT_EQ(replicas_[1].policy->revision(), replicas_[0].policy->revision());
  DenyIdentity deny;
  deny.principal = absl::StrCat("spiffe://", kDomain, "/person/1000");
  deny.serial = "5f";
  deny.reason = "stolen";
  Submit(1, deny);
  strand_.RunReady();
  EXPECT_EQ(replicas_[0].policy->denied_serials_size(), 1);
  DeleteDenial allow;
  allow.principal = deny.principal;
  allow.serial = deny.serial;
  allow.reason = "found";
  Submit(0, allow);
  strand_.RunReady();
  EXPECT_EQ(replicas_[1].policy->denied_serials_size(), 0);
  const Answers twice = Submit(1, allow);
  strand_.RunReady();
  ASSERT_TRUE(twice->has_value());
  EXPECT_EQ(status::Reason((*twice)->status()), "NOT_DENIED");
}

TEST_F(ReplicasTest, AJoinTokenServesOnceThoughBothAreAskedAtOnce) {
  store_->SetCommitDelay(absl::Milliseconds(3));
  for (int round = 0; round < 20; ++round) {
    const std::string id = absl::StrCat("t", round);
    Submit(round % 2, NewToken(id));
    strand_.Advance(absl::Milliseconds(50));
    std::vector<Answers> answers;
    for (int attempt = 0; attempt < 6; ++attempt)
      answers.push_back(Submit(attempt % 2, Redeem(id)));
    strand_.Advance(absl::Milliseconds(200));
    int redeemed = 0;
    for (const Answers& answer : answers) {
      ASSERT_TRUE(answer->has_value());
      if ((*answer)->ok()) {
        ++redeemed;
      } else {
        EXPECT_EQ(status::Reason((*answer)->status()), "INVALID_JOIN_TOKEN");
      }
    }
    EXPECT_EQ(redeemed, 1) << id;
  }
  // The rounds have met each other, or this shows nothing.
  EXPECT_GE(Conflicts(), 10);
  Audit();
}

TEST_F(ReplicasTest, ATokenMadeAtOneIsGoodAtTheOtherAtOnce) {
  // A first refusal opens a window in which further ones are only counted; a token that this
  // replica has not heard of yet must not be among them.
  Submit(1, Redeem("unknown"));
  strand_.RunReady();
  store_->SetCommitDelay(absl::Milliseconds(3));
  const Answers made = Submit(0, NewToken("t"));
  const Answers joined = Submit(1, Redeem("t"));
  strand_.Advance(absl::Milliseconds(100));
  ASSERT_TRUE(made->has_value() && joined->has_value());
  // Which came first is open; if the token did, it is good.
  const Answers again = Submit(1, Redeem("t"));
  strand_.Advance(absl::Milliseconds(100));
  EXPECT_NE((*joined)->ok(), (*again)->ok());
}

TEST_F(ReplicasTest, NothingIsLostOrDoneTwiceUnderLoadOnBoth) {
  store_->SetCommitDelay(absl::Milliseconds(2));
  Random random(7);
  std::map<std::string, std::vector<Answers>> projects;
  std::vector<Answers> others;
  for (int i = 0; i < 300; ++i) {
    const int replica = static_cast<int>(random.Below(2));
    // The same few names from both, so that they compete.
    const std::string id = absl::StrCat("p", random.Below(60));
    projects[id].push_back(Submit(replica, NewProject(id)));
    const std::string token = absl::StrCat("x", i);
    others.push_back(Submit(replica, NewToken(token)));
    if (random.Below(3) == 0) strand_.Advance(absl::Milliseconds(random.Below(4)));
  }
  strand_.Advance(absl::Seconds(10));
  for (const auto& [id, answers] : projects) {
    int made = 0;
    for (const Answers& answer : answers) {
      ASSERT_TRUE(answer->has_value());
      made += (*answer)->ok() ? 1 : 0;
      if (!(*answer)->ok()) {
        EXPECT_EQ((*answer)->status().code(), absl::StatusCode::kAlreadyExists);
      }
    }
    EXPECT_EQ(made, 1) << id;
  }
  for (const Answers& answer : others) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_TRUE((*answer)->ok()) << (*answer)->status();
  }
  EXPECT_GT(Conflicts(), 0);
  ASSERT_NE(replicas_[0].policy, nullptr);
  ASSERT_NE(replicas_[1].policy, nullptr);
  EXPECT_EQ(replicas_[0].policy->SerializeAsString(), replicas_[1].policy->SerializeAsString());
  EXPECT_EQ(replicas_[0].policy->projects_size(), static_cast<int>(projects.size()) + 1);
  // A replica that starts anew finds the same.
  const std::string before = replicas_[0].policy->SerializeAsString();
  replicas_[1].engine.reset();
  Start(1);
  EXPECT_EQ(replicas_[1].policy->SerializeAsString(), before);
  Audit();
}

TEST_F(ReplicasTest, KeysMadeByOneAreServedByTheOther) {
  strand_.Advance(absl::Seconds(5));
  ASSERT_TRUE(replicas_[0].published.has_value() && replicas_[1].published.has_value());
  // Both have begun to make the first keys; one of each algorithm counts.
  EXPECT_EQ(replicas_[0].published->public_jwks.size(), 2u);
  EXPECT_EQ(replicas_[0].published->public_jwks, replicas_[1].published->public_jwks);
  EXPECT_EQ(replicas_[0].keys->open(), replicas_[1].keys->open());
  // The rotation: half an hour before the two are over the next ones are published, by whoever
  // comes first, and both have them.
  strand_.Advance(absl::Minutes(100));
  EXPECT_EQ(replicas_[0].published->public_jwks.size(), 4u);
  EXPECT_EQ(replicas_[0].published->public_jwks, replicas_[1].published->public_jwks);
  EXPECT_EQ(replicas_[0].published->sequence, replicas_[1].published->sequence);
  EXPECT_EQ(replicas_[0].keys->open(), replicas_[1].keys->open());
}

TEST_F(ReplicasTest, AReplicaThatIsGoneIsNotWaitedFor) {
  store_->SetCommitDelay(absl::Milliseconds(3));
  Submit(0, NewProject("half"));
  strand_.RunReady();
  // It dies with a transaction under way.
  replicas_[0].engine.reset();
  const BootTime before = clock_.Read().boot;
  const Answers made = Submit(1, NewProject("robots"));
  while (!made->has_value()) ASSERT_TRUE(strand_.RunNext());
  EXPECT_TRUE((*made)->ok());
  EXPECT_LE(clock_.Read().boot - before, absl::Milliseconds(20));
}

}  // namespace
}  // namespace capstan::credentials
