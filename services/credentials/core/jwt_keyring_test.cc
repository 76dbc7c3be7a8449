// How keys follow one another, on simulated time.
#include "services/credentials/core/jwt_keyring.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

absl::Time At(absl::Duration since) { return absl::FromUnixSeconds(1'800'000'000) + since; }

// A keyring with its disk.
class Keys {
 public:
  explicit Keys(const JwtKeyConfig& config = {})
      : config_(config), keyring_(std::make_unique<JwtKeyring>(config)) {}

  JwtKeyring& ring() { return *keyring_; }

  // What the engine does: makes what is due.
  void Look(absl::Time now) {
    for (const std::string& algorithm : keyring_->TakeDue(now)) Make(algorithm, now);
    Step step;
    keyring_->Prune(now, &step);
    Commit(step);
  }

  void Make(const std::string& algorithm, absl::Time now) {
    v1::JwtKeyRecord record;
    record.set_algorithm(algorithm);
    record.set_key_id(absl::StrCat(algorithm, "-", ++made_));
    record.set_public_jwk(record.key_id());
    Step step;
    keyring_->Add(record, now, &step);
    Commit(step);
  }

  void Restart() {
    keyring_ = std::make_unique<JwtKeyring>(config_);
    for (const auto& [key, value] : disk_) {
      if (key == kJwtKeysHeadKey) {
        v1::JwtKeysHeadRecord head;
        ASSERT_TRUE(head.ParseFromString(value));
        keyring_->Load(head);
      } else {
        v1::JwtKeyRecord record;
        ASSERT_TRUE(record.ParseFromString(value));
        keyring_->Load(record);
      }
    }
  }

  std::string Signer(const std::string& algorithm, absl::Time now) {
    const v1::JwtKeyRecord* key = keyring_->Signer(algorithm, now);
    return key == nullptr ? "none" : key->key_id();
  }
  bool IsPublished(const std::string& id) {
    for (const std::string& jwk : keyring_->Published().public_jwks) {
      if (jwk == id) return true;
    }
    return false;
  }

 private:
  void Commit(const Step& step) {
    for (const store::Put& put : step.puts) disk_[put.key] = put.value;
    for (const store::Delete& erase : step.deletes) disk_.erase(erase.key);
  }

  const JwtKeyConfig config_;
  std::map<std::string, std::string> disk_;
  std::unique_ptr<JwtKeyring> keyring_;
  int made_ = 0;
};

TEST(JwtKeyringTest, TheFirstKeySignsAtOnce) {
  Keys keys;
  EXPECT_EQ(keys.ring().NextChange(), absl::InfiniteFuture());
  EXPECT_EQ(keys.Signer("ES256", At(absl::ZeroDuration())), "none");
  EXPECT_EQ(keys.ring().TakeDue(At(absl::ZeroDuration())),
            (std::vector<std::string>{"ES256", "RS256"}));
  // It is under way.
  EXPECT_TRUE(keys.ring().TakeDue(At(absl::Hours(1))).empty());
  keys.Make("ES256", At(absl::Hours(1)));
  EXPECT_EQ(keys.Signer("ES256", At(absl::Hours(1))), "ES256-1");
  EXPECT_EQ(keys.Signer("RS256", At(absl::Hours(1))), "none");
  EXPECT_TRUE(keys.IsPublished("ES256-1"));
  EXPECT_EQ(keys.Signer("HS256", At(absl::Hours(1))), "none");
}

TEST(JwtKeyringTest, AFailureIsTriedAgainAMinuteLater) {
  Keys keys;
  const absl::Time start = At(absl::ZeroDuration());
  keys.ring().TakeDue(start);
  keys.ring().Failed("RS256", start);
  EXPECT_EQ(keys.ring().NextChange(), start + absl::Minutes(1));
  EXPECT_TRUE(keys.ring().TakeDue(start + absl::Seconds(59)).empty());
  EXPECT_EQ(keys.ring().TakeDue(start + absl::Minutes(1)), (std::vector<std::string>{"RS256"}));
}

TEST(JwtKeyringTest, KeysOverlap) {
  Keys keys;
  const absl::Time start = At(absl::ZeroDuration());
  keys.Look(start);
  const absl::Time due = start + absl::Hours(24 * 29);
  EXPECT_EQ(keys.ring().NextChange(), due);
  keys.Look(due - absl::Seconds(1));
  EXPECT_EQ(keys.ring().keys().size(), 2u);
  keys.Look(due);
  EXPECT_EQ(keys.ring().keys().size(), 4u);
  // Published, and not yet signing.
  const absl::Time change = start + absl::Hours(24 * 30);
  EXPECT_TRUE(keys.IsPublished("ES256-3"));
  EXPECT_EQ(keys.Signer("ES256", change - absl::Nanoseconds(1)), "ES256-1");
  EXPECT_EQ(keys.Signer("ES256", change), "ES256-3");
  // The old one stays until its last token is dead.
  const absl::Time dead = change + absl::Hours(1) + JwtKeyring::kLinger;
  keys.Look(dead - absl::Nanoseconds(1));
  EXPECT_TRUE(keys.IsPublished("ES256-1"));
  keys.Look(dead);
  EXPECT_FALSE(keys.IsPublished("ES256-1"));
  EXPECT_EQ(keys.ring().keys().size(), 2u);
}

TEST(JwtKeyringTest, AKeyThatComesLateIsKnownAsLongBeforeItSigns) {
  Keys keys;
  const absl::Time start = At(absl::ZeroDuration());
  keys.Look(start);
  // The process was away for a year.
  keys.Restart();
  const absl::Time back = start + absl::Hours(24 * 365);
  EXPECT_EQ(keys.Signer("ES256", back), "ES256-1");
  keys.Look(back);
  EXPECT_EQ(keys.Signer("ES256", back + absl::Hours(24) - absl::Seconds(1)), "ES256-1");
  EXPECT_EQ(keys.Signer("ES256", back + absl::Hours(24)), "ES256-3");
}

TEST(JwtKeyringTest, AClockThatStepsBackFindsAPublishedKey) {
  Keys keys;
  keys.Look(At(absl::ZeroDuration()));
  EXPECT_EQ(keys.Signer("ES256", At(-absl::Hours(100))), "ES256-1");
}

TEST(JwtKeyringTest, SequenceRisesWithEveryChangeAndSurvives) {
  Keys keys;
  keys.Look(At(absl::ZeroDuration()));
  EXPECT_EQ(keys.ring().Published().sequence, 2);
  keys.Restart();
  EXPECT_EQ(keys.ring().Published().sequence, 2);
  keys.Look(At(absl::Hours(24 * 29)));
  EXPECT_EQ(keys.ring().Published().sequence, 4);
}

// Over years, with restarts and looks at odd times: whatever is signed can be verified, by one who
// fetches the keys no more often than he is told to, until it is dead.
TEST(JwtKeyringTest, EveryTokenCanBeVerifiedForItsWholeLife) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const JwtKeyConfig config{.rotate_after = absl::Hours(10 + random.Below(200)),
                              .publish_before = absl::Hours(1 + random.Below(9)),
                              .max_token_ttl = absl::Minutes(1 + random.Below(60))};
    Keys keys(config);
    absl::Time now = At(absl::ZeroDuration());
    struct Token {
      std::string key;
      absl::Time expires;
    };
    std::vector<Token> tokens;
    // What a verifier has fetched, and when.
    std::map<std::string, bool> fetched;
    absl::Time fetched_at = absl::InfinitePast();
    for (int i = 0; i < 3000; ++i) {
      if (random.Below(50) == 0) keys.Restart();
      keys.Look(now);
      const auto published = keys.ring().Published();
      EXPECT_LE(published.refresh_hint, config.publish_before / 4);
      EXPECT_LE(published.public_jwks.size(), 6u);
      if (now - fetched_at >= published.refresh_hint) {
        fetched.clear();
        for (const std::string& jwk : published.public_jwks) fetched[jwk] = true;
        fetched_at = now;
      }
      for (const char* algorithm : kJwtAlgorithms) {
        const std::string signer = keys.Signer(algorithm, now);
        ASSERT_TRUE(fetched.count(signer) > 0) << "seed " << seed << ": " << signer;
        tokens.push_back({signer, now + config.max_token_ttl});
      }
      std::vector<Token> live;
      for (const Token& token : tokens) {
        if (token.expires <= now) continue;
        ASSERT_TRUE(keys.IsPublished(token.key)) << "seed " << seed << ": " << token.key;
        live.push_back(token);
      }
      tokens = live;
      now += absl::Minutes(1 + random.Below(120));
    }
  }
}

}  // namespace
}  // namespace capstan::credentials
