#include "services/credentials/api/join_token.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "services/credentials/ports/fake_secret_source.h"

namespace capstan::credentials {
namespace {

// Keeps the event and answers at once.
class RecordingSink final : public EventSink {
 public:
  void Submit(Event event, Callback done) override {
    event_ = std::get<CreateJoinToken>(std::move(event));
    done(Answer(TokenMade{"spiffe://x/svc/scheduler", absl::UnixEpoch()}));
  }
  CreateJoinToken event_;
};

TEST(ParseJoinTokenTest, TakesExactlyTheForm) {
  const std::string id(32, 'a');
  const std::string secret(64, '0');
  const std::string hash(64, 'f');
  const auto parts = ParseJoinToken(absl::StrCat(id, ".", secret, ".", hash));
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->id, id);
  EXPECT_EQ(parts->secret, secret);
  EXPECT_EQ(parts->bundle_sha256, hash);
  for (const std::string& text :
       {std::string(), std::string("."), id, absl::StrCat(id, ".", secret),
        absl::StrCat(id, ".", secret, ".", hash, "."),
        absl::StrCat(id, ".", secret, ".", hash, "0"),
        absl::StrCat(id, ".", secret, ".", hash.substr(1)),
        absl::StrCat("A", id.substr(1), ".", secret, ".", hash),
        absl::StrCat(id, ".", secret.substr(1), "\n.", hash),
        absl::StrCat(" ", id, ".", secret, ".", hash)}) {
    const absl::Status status = ParseJoinToken(text).status();
    EXPECT_EQ(status::Reason(status), "INVALID_JOIN_TOKEN") << text;
    // The text may hold a secret.
    EXPECT_EQ(status.ToString().find(secret), std::string::npos);
  }
}

TEST(JoinTokenMakerTest, SendsOnlyTheSecretsHash) {
  RecordingSink sink;
  FakeSecretSource secrets(7);
  JoinTokenMaker maker(&sink, &secrets, "x", std::string(64, 'f'));
  std::string text;
  maker.Make("someone", "/svc/scheduler", absl::Minutes(1),
             [&](absl::StatusOr<v1::JoinToken> token) { text = token->token(); });
  const auto parts = ParseJoinToken(text);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(sink.event_.token_id, parts->id);
  EXPECT_EQ(sink.event_.secret_sha256, Sha256::Of(parts->secret));
  EXPECT_EQ(sink.event_.principal, "someone");
  EXPECT_EQ(sink.event_.identity.Path(), "/svc/scheduler");
  EXPECT_EQ(parts->bundle_sha256, std::string(64, 'f'));
}

TEST(JoinTokenMakerTest, MakesTokensForPartsAlone) {
  JoinTokenMaker maker(nullptr, nullptr, "x", "");
  for (const char* path : {"/svc/scheduler", "/executor/local", "/node/local/node-0.example"}) {
    EXPECT_TRUE(maker.Validate(path).ok()) << path;
  }
  for (const char* path : {"", "/", "svc/scheduler", "/svc/credentials", "/person/1000", "/svc/a/b",
                           "/node/local", "/svc/../x", "spiffe://x/svc/scheduler",
                           "/project/p/sa/a/job/u/gen/1/task/w-0", "/project/p/sa/a"}) {
    EXPECT_EQ(status::Reason(maker.Validate(path)), "INVALID_FIELD") << path;
  }
}

}  // namespace
}  // namespace capstan::credentials
