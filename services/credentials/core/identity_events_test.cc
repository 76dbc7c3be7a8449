// Tokens and certificates.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/core_harness.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

std::string Reason(const absl::optional<absl::StatusOr<Outcome>>& answer) {
  if (!answer.has_value()) return "no answer";
  return answer->ok() ? "OK" : status::Reason(answer->status());
}

const IssueOrder& Order(const absl::optional<absl::StatusOr<Outcome>>& answer) {
  return std::get<IssueOrder>(**answer);
}

RenewSvid Renewal(const std::string& path, const std::string& serial, CertifiableKey key) {
  RenewSvid event;
  event.call = 1;
  event.identity = *auth::SpiffeId::ParsePath(CoreHarness::kDomain, path);
  event.serial = serial;
  event.key = std::move(key);
  return event;
}

IssuePersonSvid PersonSvid(int64_t uid, CertifiableKey key) {
  IssuePersonSvid event;
  event.call = 1;
  event.unix_uid = uid;
  event.key = std::move(key);
  return event;
}

TEST(JoinTest, ATokenGivesItsIdentityForADayBackDatedALittle) {
  CoreHarness h;
  h.MakeToken("t", "/node/local/node-0");
  const auto answer = h.Apply(h.JoinEvent("t", "t", "key"));
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(Order(answer).spiffe_id, CoreHarness::Id("/node/local/node-0"));
  EXPECT_EQ(Order(answer).spki, "key");
  EXPECT_EQ(Order(answer).not_before, h.now().wall - absl::Seconds(10));
  EXPECT_EQ(Order(answer).not_after, h.now().wall + absl::Hours(24));
  EXPECT_EQ(h.disk().count(IssuedKey(Order(answer).serial)), 1u);
}

// A source of randomness that repeats itself: the one that is spent must stay so.
TEST(JoinTest, ATokensIdIsGivenOnce) {
  CoreHarness h;
  h.MakeToken("t", "/node/local/node-0");
  ASSERT_EQ(Reason(h.Apply(h.JoinEvent("t", "t", "key"))), "OK");
  EXPECT_EQ(Reason(h.MakeToken("t", "/node/local/node-0")), "TOKEN_ID_REPEATED");
  EXPECT_EQ(Reason(h.Apply(h.JoinEvent("t", "t", "other"))), "INVALID_JOIN_TOKEN");
}

TEST(JoinTest, BackDatesAShortLifeByATenth) {
  CoreHarness h({.svid_ttl = absl::Seconds(30)});
  h.MakeToken("t", "/svc/scheduler");
  const auto answer = h.Apply(h.JoinEvent("t", "t", "key"));
  EXPECT_EQ(Order(answer).not_before, h.now().wall - absl::Seconds(3));
  EXPECT_EQ(Order(answer).not_after, h.now().wall + absl::Seconds(30));
}

struct JoinCase {
  const char* name;
  // What is tried `after` the token was made (and spent with key "first", if `spent`).
  bool spent;
  absl::Duration after;
  const char* id;
  const char* secret;
  const char* key;
  const char* reason;
};

class JoinTableTest : public testing::TestWithParam<JoinCase> {};

TEST_P(JoinTableTest, AnswersAsExpectedAlsoAfterARestart) {
  for (const bool restart : {false, true}) {
    CoreHarness h;
    h.MakeToken("t", "/svc/scheduler");
    if (GetParam().spent) h.Apply(h.JoinEvent("t", "t", "first"));
    h.Advance(GetParam().after);
    if (restart) {
      ASSERT_TRUE(h.Reload().ok());
    }
    const auto answer = h.Apply(h.JoinEvent(GetParam().id, GetParam().secret, GetParam().key));
    EXPECT_EQ(Reason(answer), GetParam().reason) << "restart " << restart;
    ASSERT_TRUE(h.Chain().has_value());
    EXPECT_EQ(h.Chain()->back().act(), act::kJoin);
    EXPECT_EQ(h.Chain()->back().outcome_code() == 0, answer->ok());
  }
}

constexpr char kInvalid[] = "INVALID_JOIN_TOKEN";

INSTANTIATE_TEST_SUITE_P(
    Cases, JoinTableTest,
    testing::Values(
        JoinCase{"fresh", false, absl::ZeroDuration(), "t", "t", "first", "OK"},
        JoinCase{"almost_expired", false, absl::Seconds(899), "t", "t", "first", "OK"},
        JoinCase{"expired", false, absl::Seconds(900), "t", "t", "first", kInvalid},
        JoinCase{"wrong_secret", false, absl::ZeroDuration(), "t", "x", "first", kInvalid},
        JoinCase{"unknown", false, absl::ZeroDuration(), "u", "u", "first", kInvalid},
        JoinCase{"empty", false, absl::ZeroDuration(), "", "", "first", kInvalid},
        JoinCase{"repeated", true, absl::Seconds(60), "t", "t", "first", "OK"},
        JoinCase{"repeated_late", true, absl::Seconds(61), "t", "t", "first", kInvalid},
        JoinCase{"other_key", true, absl::ZeroDuration(), "t", "t", "second", kInvalid},
        JoinCase{"repeated_wrong_secret", true, absl::ZeroDuration(), "t", "x", "first", kInvalid}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(JoinTest, ARefusalDoesNotSpendTheToken) {
  CoreHarness h;
  h.MakeToken("t", "/svc/scheduler");
  EXPECT_EQ(Reason(h.Apply(h.JoinEvent("t", "wrong", "thief"))), kInvalid);
  EXPECT_EQ(Reason(h.Apply(h.JoinEvent("t", "t", "owner"))), "OK");
}

TEST(JoinTest, EveryRefusalReadsTheSame) {
  CoreHarness h;
  h.MakeToken("t", "/svc/scheduler");
  h.Apply(h.JoinEvent("t", "t", "first"));
  const auto used = h.Apply(h.JoinEvent("t", "t", "second"));
  const auto unknown = h.Apply(h.JoinEvent("u", "u", "second"));
  EXPECT_EQ(used->status().ToString(), unknown->status().ToString());
}

TEST(JoinTest, ADeniedIdentityGetsNothingAndItsTokenStaysUnspent) {
  CoreHarness h;
  h.MakeToken("t", "/node/local/node-0");
  DenyIdentity deny;
  deny.principal = CoreHarness::Id("/person/1000");
  deny.spiffe_id = CoreHarness::Id("/node/local/");
  deny.reason = "lost";
  h.Apply(deny);
  EXPECT_EQ(Reason(h.Apply(h.JoinEvent("t", "t", "key"))), kInvalid);
  EXPECT_EQ(h.Chain()->back().resource(), "joinTokens/t");
}

// No order of joins, guesses, expiry, failed commits, lost answers and restarts gives one token's
// identity to two keys.
TEST(JoinTest, NoTokenServesTwoKeysUnderAnyOrderOfEvents) {
  int issued = 0;
  int lost_commits = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    CoreHarness h;
    std::map<std::string, std::set<std::string>> keys_of;
    for (int step = 0; step < 120; ++step) {
      const std::string id = absl::StrCat("t", random.Below(4));
      switch (random.Below(8)) {
        case 0:
          if (h.disk().count(JoinTokenKey(id)) == 0 && keys_of[id].empty()) {
            h.MakeToken(id, "/svc/scheduler", absl::Seconds(random.Between(1, 600)));
          }
          break;
        case 1:
          h.Advance(absl::Seconds(random.Between(0, 90)));
          break;
        case 2:
          ASSERT_TRUE(h.Reload().ok());
          break;
        case 3:
          if (const auto due = h.core().NextDeadline(); due.has_value()) {
            h.Advance(std::max(absl::ZeroDuration(), *due - h.now().boot));
            h.Apply(Tick{});
          }
          break;
        default: {
          const bool guess = random.OneIn(5);
          Join join = h.JoinEvent(id, guess ? "guess" : id, absl::StrCat("k", random.Below(3)));
          Step result = h.ApplyWithoutCommit(join);
          const bool fails = random.OneIn(6);
          // A failed commit may or may not have reached the disk; its answer never leaves.
          if (!fails || random.OneIn(2)) h.Commit(result);
          if (fails) {
            ++lost_commits;
            ASSERT_TRUE(h.Reload().ok());
            break;
          }
          const auto answer = h.AnswerIn(&result);
          ASSERT_TRUE(answer.has_value());
          if (answer->ok()) {
            ASSERT_FALSE(guess);
            ++issued;
            keys_of[id].insert(join.key.spki);
            ASSERT_LE(keys_of[id].size(), 1u) << "seed " << seed << " step " << step;
          }
        }
      }
      ASSERT_TRUE(h.Chain().has_value()) << "seed " << seed << " step " << step;
    }
  }
  // The property is not empty.
  EXPECT_GT(issued, 500);
  EXPECT_GT(lost_commits, 500);
}

TEST(TokenTest, LeavesTheStoreAfterItsEnd) {
  CoreHarness h;
  h.MakeToken("t", "/svc/scheduler", absl::Minutes(1));
  ASSERT_TRUE(h.core().NextDeadline().has_value());
  for (int i = 0; i < 5 && h.disk().count(JoinTokenKey("t")) > 0; ++i) {
    h.Advance(*h.core().NextDeadline() - h.now().boot);
    h.Apply(Tick{});
  }
  EXPECT_EQ(h.disk().count(JoinTokenKey("t")), 0u);
  EXPECT_FALSE(h.core().NextDeadline().has_value());
}

TEST(TokenTest, ManyEndsLeaveInTransactionsThatFit) {
  CoreHarness h;
  for (int i = 0; i < 500; ++i) h.MakeToken(absl::StrCat("t", i), "/svc/scheduler");
  h.Advance(absl::Hours(1));
  int ticks = 0;
  while (h.core().NextDeadline().has_value() && ticks < 100) {
    h.Apply(Tick{});
    EXPECT_LE(h.operations(), 128u);
    h.Advance(absl::Seconds(1));
    ++ticks;
  }
  EXPECT_EQ(h.disk().lower_bound(kJoinTokenPrefix)->first.rfind(kJoinTokenPrefix, 0),
            std::string::npos);
  EXPECT_LE(ticks, 10);
}

TEST(RenewTest, GivesTheSameIdentityUnderANewKeyAndSerial) {
  CoreHarness h;
  h.MakeToken("t", "/svc/scheduler");
  const std::string serial = Order(h.Apply(h.JoinEvent("t", "t", "old"))).serial;
  const auto answer = h.Apply(Renewal("/svc/scheduler", serial, h.Key("new")));
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(Order(answer).spiffe_id, CoreHarness::Id("/svc/scheduler"));
  EXPECT_EQ(Order(answer).spki, "new");
  EXPECT_NE(Order(answer).serial, serial);
}

TEST(RenewTest, DeniedIdsPrefixesAndSerialsAreRefused) {
  struct Case {
    const char* id;
    const char* serial;
    bool refused;
  };
  for (const Case& c :
       {Case{"/node/local/node-0", "", true}, Case{"/node/local/", "", true},
        Case{"/node/", "", true}, Case{"/node/local/node-00", "", false},
        Case{"/node/local/node", "", false}, Case{"", "4abc", true}, Case{"", "4abd", false}}) {
    CoreHarness h;
    DenyIdentity deny;
    deny.principal = CoreHarness::Id("/person/1000");
    if (*c.id != '\0') deny.spiffe_id = CoreHarness::Id(c.id);
    deny.serial = c.serial;
    deny.reason = "test";
    h.Apply(deny);
    ASSERT_TRUE(h.Reload().ok());
    EXPECT_EQ(Reason(h.Apply(Renewal("/node/local/node-0", "4abc", h.Key("k")))),
              c.refused ? "IDENTITY_DENIED" : "OK")
        << c.id << c.serial;
  }
}

TEST(RenewTest, APersonsSessionEnds) {
  CoreHarness h;
  auto answer = h.Apply(PersonSvid(1001, h.Key("k")));
  ASSERT_EQ(Reason(answer), "OK");
  EXPECT_EQ(Order(answer).not_after, h.now().wall + absl::Hours(1));
  std::string serial = Order(answer).serial;
  for (int i = 0; i < 24; ++i) {
    h.Advance(absl::Minutes(30));
    answer = h.Apply(Renewal("/person/1001", serial, h.Key("k")));
    ASSERT_EQ(Reason(answer), "OK") << i;
    serial = Order(answer).serial;
  }
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(Reason(h.Apply(Renewal("/person/1001", serial, h.Key("k")))), "SESSION_OVER");
  // A serial that is not known begins no session.
  EXPECT_EQ(Reason(h.Apply(Renewal("/person/1001", "4dead", h.Key("k")))), "SESSION_OVER");
  EXPECT_EQ(Reason(h.Apply(PersonSvid(1001, h.Key("k")))), "OK");
}

TEST(IssueTest, ASerialIsNeverUsedTwice) {
  CoreHarness h;
  CertifiableKey key = h.Key("k");
  EXPECT_EQ(Reason(h.Apply(PersonSvid(1, key))), "OK");
  EXPECT_EQ(Reason(h.Apply(PersonSvid(1, key))), "SERIAL_REPEATED");
}

TEST(IssueTest, TasksNeedTheirProject) {
  CoreHarness h;
  IssueTaskSvid event;
  event.call = 1;
  event.node = auth::SpiffeId::Node(CoreHarness::kDomain, "local", "node-0");
  event.task = auth::SpiffeId::Task(CoreHarness::kDomain, "default", "default", "uid-1", 1, "w", 0);
  event.key = h.Key("k");
  EXPECT_EQ(Reason(h.Apply(event)), "OK");
  event.task.project = "absent";
  event.key = h.Key("k");
  EXPECT_FALSE(h.Apply(event)->ok());
}

}  // namespace
}  // namespace capstan::credentials
