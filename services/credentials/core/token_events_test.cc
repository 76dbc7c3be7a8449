// Who gets a JWT-SVID, and what is in it.
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/core_harness.h"
#include "services/credentials/core/credentials_core.h"

namespace capstan::credentials {
namespace {

constexpr char kNode[] = "/node/local/node-0";
constexpr char kOtherNode[] = "/node/local/node-1";
constexpr char kTask[] = "/project/default/sa/train/job/j-1/gen/2/task/worker-3";
constexpr char kAccount[] = "/project/default/sa/train";

auth::SpiffeId IdOf(const std::string& path) {
  return *auth::SpiffeId::ParsePath(CoreHarness::kDomain, path);
}

std::string Reason(const absl::optional<absl::StatusOr<Outcome>>& answer) {
  if (!answer.has_value()) return "no answer";
  return answer->ok() ? "OK" : status::Reason(answer->status());
}

class TokenEventsTest : public testing::Test {
 protected:
  void MakeKeys() {
    for (const char* algorithm : kJwtAlgorithms) {
      v1::JwtKeyRecord record;
      record.set_key_id(std::string(algorithm) + "-key");
      record.set_algorithm(algorithm);
      record.set_public_jwk("{}");
      h_.Apply(JwtKeyMade{algorithm, record});
    }
  }

  std::string IssueSvid(const std::string& node = kNode, const std::string& task = kTask) {
    IssueTaskSvid event;
    event.call = 1;
    event.node = IdOf(node);
    event.serial = "4000";
    event.task = IdOf(task);
    event.key = h_.Key("task");
    return Reason(h_.Apply(event));
  }

  IssueTaskJwt Event(const std::string& node = kNode, const std::string& task = kTask) {
    IssueTaskJwt event;
    event.call = 1;
    event.node = IdOf(node);
    event.serial = "4000";
    event.task = IdOf(task);
    event.job = "projects/default/jobs/digits";
    event.audiences = {"aws"};
    event.ttl = absl::Minutes(5);
    event.algorithm = "ES256";
    event.token_id = "t-1";
    return event;
  }

  // Of the newest record.
  event::v1::AuditRecord LastAct() {
    const auto chain = h_.Chain();
    EXPECT_TRUE(chain.has_value() && !chain->empty());
    return chain->back();
  }

  CoreHarness h_;
};

TEST_F(TokenEventsTest, TheTasksNodeGetsATokenForTheTask) {
  MakeKeys();
  ASSERT_EQ(IssueSvid(), "OK");
  const auto answer = h_.Apply(Event());
  ASSERT_EQ(Reason(answer), "OK");
  const JwtOrder& order = std::get<JwtOrder>(**answer);
  EXPECT_EQ(order.key_id, "ES256-key");
  EXPECT_EQ(order.subject, CoreHarness::Id(kTask));
  EXPECT_EQ(order.audiences, (std::vector<std::string>{"aws"}));
  EXPECT_EQ(order.expires - order.issued_at, absl::Minutes(5));
  EXPECT_EQ(order.issued_at, h_.now().wall);
  EXPECT_EQ(order.task, IdOf(kTask));
  const auto record = LastAct();
  EXPECT_EQ(record.act(), act::kIssueTaskJwt);
  EXPECT_EQ(record.principal(), CoreHarness::Id(kNode));
  EXPECT_EQ(record.resource(), CoreHarness::Id(kTask));
  EXPECT_EQ(record.outcome_code(), 0);
  EXPECT_NE(record.message().find("t-1"), std::string::npos);
  EXPECT_NE(record.message().find("aws"), std::string::npos);
}

TEST_F(TokenEventsTest, TheServiceAccountIsTheSameForAllJobs) {
  MakeKeys();
  ASSERT_EQ(IssueSvid(), "OK");
  IssueTaskJwt event = Event();
  event.as_service_account = true;
  event.algorithm = "RS256";
  const auto answer = h_.Apply(event);
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(std::get<JwtOrder>(**answer).subject, CoreHarness::Id(kAccount));
  EXPECT_EQ(std::get<JwtOrder>(**answer).key_id, "RS256-key");
}

TEST_F(TokenEventsTest, NoTokenLivesLongerThanAnHour) {
  MakeKeys();
  ASSERT_EQ(IssueSvid(), "OK");
  IssueTaskJwt event = Event();
  event.ttl = absl::Hours(5);
  const auto answer = h_.Apply(event);
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(std::get<JwtOrder>(**answer).expires - h_.now().wall, absl::Hours(1));
}

TEST_F(TokenEventsTest, ANodeThatIsNotTheTasksIsRefusedAndRecorded) {
  MakeKeys();
  // No Node has the Task yet.
  EXPECT_EQ(Reason(h_.Apply(Event())), "NOT_THE_TASKS_NODE");
  ASSERT_EQ(IssueSvid(), "OK");
  EXPECT_EQ(Reason(h_.Apply(Event(kOtherNode))), "NOT_THE_TASKS_NODE");
  const auto record = LastAct();
  EXPECT_EQ(record.act(), act::kIssueTaskJwt);
  EXPECT_EQ(record.principal(), CoreHarness::Id(kOtherNode));
  EXPECT_EQ(record.outcome_code(), static_cast<int>(absl::StatusCode::kPermissionDenied));
  // Nor does it get the Task's SVID, by which it would become its Node.
  EXPECT_EQ(IssueSvid(kOtherNode), "NOT_THE_TASKS_NODE");
  EXPECT_EQ(LastAct().act(), act::kIssueTaskSvid);
  // The other ranks, and the next generation, may well run there.
  EXPECT_EQ(IssueSvid(kOtherNode, "/project/default/sa/train/job/j-1/gen/2/task/worker-4"), "OK");
  EXPECT_EQ(IssueSvid(kOtherNode, "/project/default/sa/train/job/j-1/gen/3/task/worker-3"), "OK");
  EXPECT_EQ(Reason(h_.Apply(Event())), "OK");
}

TEST_F(TokenEventsTest, TheNodeIsKnownAfterARestartAndUntilTheSvidHasExpired) {
  MakeKeys();
  ASSERT_EQ(IssueSvid(), "OK");
  ASSERT_TRUE(h_.Reload().ok());
  EXPECT_EQ(Reason(h_.Apply(Event(kOtherNode))), "NOT_THE_TASKS_NODE");
  EXPECT_EQ(Reason(h_.Apply(Event())), "OK");
  h_.Advance(absl::Hours(20));
  ASSERT_EQ(IssueSvid(), "OK");
  h_.Advance(absl::Hours(23));
  EXPECT_EQ(Reason(h_.Apply(Event())), "OK");
  // The first certificate's record leaves, the renewed one counts.
  h_.Apply(Tick{});
  EXPECT_EQ(IssueSvid(kOtherNode), "NOT_THE_TASKS_NODE");
  h_.Advance(absl::Hours(2));
  EXPECT_EQ(Reason(h_.Apply(Event())), "NOT_THE_TASKS_NODE");
  for (int i = 0; i < 5; ++i) {
    h_.Advance(absl::Hours(2));
    h_.Apply(Tick{});
  }
  EXPECT_EQ(IssueSvid(kOtherNode), "OK");
}

TEST_F(TokenEventsTest, TheDeniedGetNoTokens) {
  MakeKeys();
  ASSERT_EQ(IssueSvid(), "OK");
  for (const std::string& denied :
       {CoreHarness::Id(kAccount), CoreHarness::Id(kTask), CoreHarness::Id(kNode)}) {
    DenyIdentity deny;
    deny.call = 1;
    deny.principal = CoreHarness::Id("/person/1000");
    deny.spiffe_id = denied;
    ASSERT_EQ(Reason(h_.Apply(deny)), "OK");
    IssueTaskJwt event = Event();
    event.as_service_account = true;
    EXPECT_EQ(Reason(h_.Apply(event)), "IDENTITY_DENIED") << denied;
  }
}

TEST_F(TokenEventsTest, WithoutAKeyItIsAskedAgain) {
  ASSERT_EQ(IssueSvid(), "OK");
  const auto answer = h_.Apply(Event());
  EXPECT_EQ(Reason(answer), "NO_SIGNING_KEY");
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TokenEventsTest, ALookAsksForTheKeysThatAreMissingOnce) {
  const auto made = [&] {
    std::vector<std::string> algorithms;
    Step step = h_.ApplyWithoutCommit(Tick{});
    for (const Effect& effect : step.after) {
      if (const auto* make = std::get_if<MakeJwtKey>(&effect)) {
        algorithms.push_back(make->algorithm);
      }
    }
    h_.Commit(step);
    return algorithms;
  };
  EXPECT_EQ(made(), (std::vector<std::string>{"ES256", "RS256"}));
  EXPECT_TRUE(made().empty());
  MakeKeys();
  EXPECT_EQ(LastAct().act(), act::kMakeJwtKey);
  EXPECT_TRUE(made().empty());
  ASSERT_TRUE(h_.Reload().ok());
  EXPECT_EQ(h_.core().jwt_keys().keys().size(), 2u);
  EXPECT_TRUE(made().empty());
  h_.Advance(absl::Hours(24 * 29));
  ASSERT_TRUE(h_.core().NextDeadline().has_value());
  EXPECT_EQ(made(), (std::vector<std::string>{"ES256", "RS256"}));
  // A failure is tried again.
  h_.Apply(JwtKeyMade{"RS256", absl::UnavailableError("no entropy")});
  h_.Advance(JwtKeyring::kRetry);
  EXPECT_EQ(made(), (std::vector<std::string>{"RS256"}));
}

}  // namespace
}  // namespace capstan::credentials
