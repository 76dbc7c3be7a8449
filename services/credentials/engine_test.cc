// The engine on simulated time over a store that fails on command.
#include "services/credentials/engine.h"

#include <memory>
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
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr char kDomain[] = "capstan-00000000.local";

// "Signs" by writing the order down.
class FakeSigner final : public Signer {
 public:
  absl::StatusOr<std::string> Sign(const IssueOrder& order) override {
    signed_.push_back(order.serial);
    return absl::StrCat(order.spiffe_id, " ", order.serial);
  }
  std::vector<std::string> signed_;
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() { Open(); }
  ~EngineTest() override { Close(); }

  void Open() {
    store_ = std::make_unique<store::MemoryStore>(&strand_, image_);
    metrics_ = std::make_unique<metrics::Registry>("credentials");
    FirstRun first_run;
    first_run.trust_domain.set_name(kDomain);
    first_run.trust_domain.add_roots("root");
    first_run.admin_uid = 1000;
    Engine::Options options;
    options.first_run = first_run;
    engine_ = std::make_unique<Engine>(
        std::move(options),
        Engine::Deps{.strand = &strand_,
                     .store = store_.get(),
                     .signer = &signer_,
                     .log = &log_,
                     .metrics = metrics_.get(),
                     .on_policy = [this](std::shared_ptr<const v1::PolicySnapshot> snapshot) {
                       policies_.push_back(std::move(snapshot));
                     }});
    engine_->Start([this](absl::Status status) { first_load_ = std::move(status); });
    strand_.RunReady();
  }

  void Close() {
    engine_.reset();
    store_.reset();
    strand_.RunReady();
  }

  // Submits and returns where the answer will be.
  std::shared_ptr<absl::optional<absl::StatusOr<Answer>>> Submit(Event event) {
    auto answer = std::make_shared<absl::optional<absl::StatusOr<Answer>>>();
    engine_->Submit(std::move(event),
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

  credentials::IssuePersonSvid PersonSvid() {
    credentials::IssuePersonSvid event;
    event.unix_uid = 1000;
    event.key = {.spki = "key", .serial = absl::StrFormat("4%031d", ++serials_)};
    return event;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  const log::Logger log_{"credentials", &clock_, &sink_};
  FakeSigner signer_;
  std::shared_ptr<store::MemoryImage> image_ = std::make_shared<store::MemoryImage>();
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<metrics::Registry> metrics_;
  std::unique_ptr<Engine> engine_;
  absl::optional<absl::Status> first_load_;
  std::vector<std::shared_ptr<const v1::PolicySnapshot>> policies_;
  int serials_ = 0;
};

TEST_F(EngineTest, MakesTheTrustDomainAndServes) {
  ASSERT_TRUE(first_load_.has_value());
  ASSERT_TRUE(first_load_->ok()) << *first_load_;
  EXPECT_TRUE(engine_->serving());
  ASSERT_FALSE(policies_.empty());
  EXPECT_EQ(policies_.back()->projects_size(), 1);
}

TEST_F(EngineTest, SignsAnswersAndPublishesOnlyWhatIsCommitted) {
  const size_t published = policies_.size();
  store_->SetCommitDelay(absl::Seconds(1));
  const auto svid = Submit(PersonSvid());
  const auto project = Submit(NewProject("robots"));
  strand_.RunReady();
  EXPECT_FALSE(svid->has_value());
  EXPECT_TRUE(signer_.signed_.empty());
  EXPECT_EQ(policies_.size(), published);
  strand_.Advance(absl::Seconds(3));
  ASSERT_TRUE(svid->has_value());
  ASSERT_TRUE((*svid)->ok()) << (*svid)->status();
  EXPECT_EQ(std::get<v1::Svid>(***svid).spiffe_id(),
            absl::StrCat("spiffe://", kDomain, "/person/1000"));
  EXPECT_EQ(std::get<v1::Svid>(***svid).bundle().roots(0), "root");
  ASSERT_TRUE(project->has_value() && (*project)->ok());
  EXPECT_EQ(policies_.back()->projects_size(), 2);
}

TEST_F(EngineTest, AFailedCommitIsAnsweredAndForgotten) {
  store_->FailNextTxn(absl::UnavailableError("disk"));
  const auto svid = Submit(PersonSvid());
  const auto project = Submit(NewProject("robots"));
  strand_.RunReady();
  for (const auto& answer : {svid, project}) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_EQ(status::Reason((*answer)->status()), "OUTCOME_UNKNOWN");
  }
  EXPECT_TRUE(signer_.signed_.empty());
  EXPECT_FALSE(engine_->serving());
  EXPECT_EQ(policies_.back(), nullptr);
  const auto meanwhile = Submit(NewProject("robots"));
  strand_.RunReady();
  EXPECT_EQ(status::Reason((*meanwhile)->status()), "NOT_SERVING");

  strand_.Advance(absl::Seconds(5));
  ASSERT_TRUE(engine_->serving());
  const auto again = Submit(NewProject("robots"));
  strand_.RunReady();
  EXPECT_TRUE((*again)->ok()) << (*again)->status();
}

TEST_F(EngineTest, ACommitThatTookEffectAllTheSameIsThereAfterTheReload) {
  store_->FailNextTxnAfterCommit(absl::UnavailableError("connection"));
  const auto project = Submit(NewProject("robots"));
  strand_.RunReady();
  EXPECT_EQ(status::Reason((*project)->status()), "OUTCOME_UNKNOWN");
  strand_.Advance(absl::Seconds(5));
  const auto again = Submit(NewProject("robots"));
  strand_.RunReady();
  EXPECT_EQ((*again)->status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(policies_.back()->projects_size(), 2);
}

TEST_F(EngineTest, AFullDiskRefusesWithoutSigning) {
  store_->SetFull(true);
  const auto svid = Submit(PersonSvid());
  strand_.RunReady();
  ASSERT_TRUE(svid->has_value());
  EXPECT_FALSE((*svid)->ok());
  EXPECT_TRUE(signer_.signed_.empty());
  store_->SetFull(false);
  strand_.Advance(absl::Seconds(5));
  const auto again = Submit(PersonSvid());
  strand_.RunReady();
  EXPECT_TRUE((*again)->ok()) << (*again)->status();
}

TEST_F(EngineTest, ATokenSpentBeforeACrashStaysSpent) {
  credentials::CreateJoinToken make;
  make.principal = kSupervisor;
  make.identity = *auth::SpiffeId::ParsePath(kDomain, "/svc/scheduler");
  make.ttl = absl::Minutes(15);
  make.token_id = "t";
  make.secret_sha256 = Sha256::Of("s");
  Submit(make);
  credentials::Join join;
  join.token_id = "t";
  join.secret_sha256 = Sha256::Of("s");
  join.key = {.spki = "first", .serial = std::string(32, '4')};
  store_->SetCommitDelay(absl::Milliseconds(10));
  strand_.RunReady();
  strand_.Advance(absl::Milliseconds(50));
  const auto first = Submit(join);
  strand_.RunReady();
  // The process dies after the disk has it and before the answer leaves.
  store_->Crash(/*pending_that_commit=*/10);
  EXPECT_FALSE(first->has_value());
  Close();
  Open();
  strand_.Advance(absl::Seconds(5));
  ASSERT_TRUE(engine_->serving());
  join.key = {.spki = "second", .serial = std::string(32, '5')};
  const auto thief = Submit(join);
  join.key = {.spki = "first", .serial = std::string(32, '6')};
  const auto owner = Submit(join);
  strand_.Advance(absl::Seconds(1));
  ASSERT_TRUE(thief->has_value() && owner->has_value());
  EXPECT_EQ(status::Reason((*thief)->status()), "INVALID_JOIN_TOKEN");
  EXPECT_TRUE((*owner)->ok()) << (*owner)->status();
}

TEST_F(EngineTest, CallsOfAStoppedEngineAreAnswered) {
  bool stopped = false;
  const auto before = Submit(NewProject("robots"));
  engine_->Stop([&] { stopped = true; });
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(stopped);
  ASSERT_TRUE(before->has_value());
  const auto after = Submit(NewProject("planes"));
  strand_.RunReady();
  EXPECT_EQ(status::Reason((*after)->status()), "NOT_SERVING");
  EXPECT_EQ(policies_.back(), nullptr);
}

TEST_F(EngineTest, StoppingRecordsTheRefusalsThatWereOnlyCounted) {
  credentials::Join join;
  join.token_id = "unknown";
  for (int i = 0; i < 5; ++i) {
    join.key = {.spki = "k", .serial = absl::StrFormat("4%031d", ++serials_)};
    Submit(join);
  }
  strand_.RunReady();
  const auto count = [&] {
    size_t records = 0;
    store::RangeRequest range;
    range.key = kAuditPrefix;
    range.end = store::PrefixEnd(kAuditPrefix);
    store_->Range(range,
                  [&](absl::StatusOr<store::RangeResult> found) { records = found->kvs.size(); });
    strand_.RunReady();
    return records;
  };
  const size_t before = count();
  engine_->Stop([] {});
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(count(), before + 1);
}

TEST_F(EngineTest, LoadsMoreThanOnePage) {
  for (int i = 0; i < 900; ++i) Submit(NewProject(absl::StrCat("p", i)));
  for (int i = 0; i < 1500; ++i) Submit(PersonSvid());
  strand_.Advance(absl::Seconds(1));
  Close();
  Open();
  strand_.Advance(absl::Seconds(5));
  ASSERT_TRUE(engine_->serving());
  EXPECT_EQ(policies_.back()->projects_size(), 901);
}

TEST_F(EngineTest, AQuietEngineOnlyAsksWhetherItsStoreAnswers) {
  // One timer asks; nothing of the engine's own is armed.
  const size_t armed = strand_.armed();
  const auto svid = Submit(PersonSvid());
  strand_.RunReady();
  EXPECT_EQ(strand_.armed(), armed + 1);
}

}  // namespace
}  // namespace capstan::credentials
