// Tokens that the platform has issued itself, shown to its own methods as HTTP's clients show them.
// It makes them for others to verify: whoever shows one is who its certificate says, or nobody.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/access/access_fixture.h"
#include "integration/access/method_catalog.h"
#include "integration/access/named_things.h"
#include "integration/access/raw_call.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/key_set.h"
#include "libs/jose/signing_key.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/access_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/token_service.pb.h"

namespace capstan::integration {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kElsewhere[] = "https://elsewhere.example";
// For a stream that is let in and has nothing to say.
constexpr absl::Duration kSilence = absl::Seconds(1);

struct Token {
  std::string what;
  std::string subject;
  std::string text;
};

class BearerTest : public AccessFixture {
 protected:
  // Good ones, for a part: of the running Task and its service account, for the part and for
  // somebody else, and of those who may do more than any Task, whom no token is made for.
  static std::vector<Token> TokensFor(const Part& part);
  // From credentials, asked by the Task's Node.
  static std::string Issued(const std::string& subject_kind, const std::string& audience);
  // By a key that signs the platform's tokens.
  static std::string Signed(const std::string& subject, const std::string& audience);
  static std::string TaskUri() {
    return Uri(absl::StrCat("/project/default/sa/default/job/", platform_->Get("serve").uid(),
                            "/gen/1/task/w-0"));
  }
  // 32 hex digits that no other test uses.
  static std::string NewTrace() {
    static int number = 0;
    return absl::StrCat("beabeabeabea", absl::Dec(++number, absl::kZeroPad20));
  }
};

std::string BearerTest::Issued(const std::string& subject_kind, const std::string& audience) {
  credentials::v1::IssueTaskJwtRequest request;
  request.set_job("projects/default/jobs/serve");
  request.set_service_account("projects/default/serviceAccounts/default");
  request.set_job_uid(platform_->Get("serve").uid());
  request.set_generation(1);
  request.set_group("w");
  request.add_audiences(audience);
  credentials::v1::IssueTaskJwtRequest::Subject subject;
  EXPECT_TRUE(credentials::v1::IssueTaskJwtRequest::Subject_Parse(subject_kind, &subject));
  request.set_subject(subject);
  const auto node = rpc::Identity::Load(platform_->data_dir() + "/node_agent/identity").value();
  credentials::v1::JwtSvid token;
  const grpc::Status issued =
      RawAnswer(DialAlone(PartNamed("credentials").address, CredentialsOf(node, "credentials")),
                "/capstan.credentials.v1.TokenService/IssueTaskJwt", request, kPatience, &token);
  EXPECT_TRUE(issued.ok()) << issued.error_message();
  return token.token();
}

std::string BearerTest::Signed(const std::string& subject, const std::string& audience) {
  EXPECT_GE(authority_->private_keys().size(), 2u) << "no key of tokens is stored";
  if (authority_->private_keys().size() < 2) return "";
  jose::Claims claims;
  claims.issuer = absl::StrCat("https://", openid_address());
  claims.subject = subject;
  claims.audiences = {audience};
  claims.issued_at = Now();
  claims.expires = Now() + absl::Hours(1);
  claims.id = "signed-by-a-test";
  // The CA's comes first.
  const std::string& jwk = authority_->private_keys()[1];
  const auto key = jose::SigningKey::FromPrivateJwk(
      absl::StrContains(jwk, "\"EC\"") ? jose::kEs256 : jose::kRs256, jwk);
  EXPECT_TRUE(key.ok()) << key.status();
  return key->Sign(jose::EncodeClaims(claims, {})).value();
}

std::vector<Token> BearerTest::TokensFor(const Part& part) {
  const std::string own = Uri(PathOf(part.name));
  const std::string account = Uri("/project/default/sa/default");
  return {
      {"a Task's, for the part", TaskUri(), Issued("SUBJECT_TASK", own)},
      {"a Task's, for another audience", TaskUri(), Issued("SUBJECT_TASK", kElsewhere)},
      {"a service account's, for the part", account, Issued("SUBJECT_SERVICE_ACCOUNT", own)},
      {"an admin's, for the part", Uri("/person/0"), Signed(Uri("/person/0"), own)},
      {"the scheduler's, for the part", Uri("/svc/scheduler"), Signed(Uri("/svc/scheduler"), own)},
  };
}

// What is shown below would be taken by anyone who takes the platform's tokens: nothing is refused
// for a bad signature.
TEST_F(BearerTest, TheTokensAreGoodOnes) {
  credentials::v1::JwtBundle bundle;
  ASSERT_TRUE(RawAnswer(DialAlone(PartNamed("credentials").address,
                                  CredentialsOf(Person("0"), "credentials")),
                        "/capstan.credentials.v1.TokenService/GetJwtBundle",
                        credentials::v1::GetJwtBundleRequest(), kPatience, &bundle)
                  .ok());
  const auto keys = jose::KeySet::Parse(bundle.jwks());
  ASSERT_TRUE(keys.ok()) << keys.status();
  for (const Part& part : parts()) {
    const std::string own = Uri(PathOf(part.name));
    for (const Token& token : TokensFor(part)) {
      const bool elsewhere = absl::StrContains(token.what, "another audience");
      const auto valid = jose::ValidateJwtSvid(token.text, *keys, authority_->trust_domain(),
                                               elsewhere ? kElsewhere : own, Now());
      ASSERT_TRUE(valid.ok()) << part.name << ", " << token.what << ": " << valid.status();
      EXPECT_EQ(valid->claims.subject, token.subject);
      const auto by_part =
          jose::ValidateJwtSvid(token.text, *keys, authority_->trust_domain(), own, Now());
      EXPECT_EQ(by_part.ok(), !elsewhere) << by_part.status();
    }
  }
}

// In the place of a certificate: the connection ends in the handshake, however good the token is,
// and no handler sees it.
TEST_F(BearerTest, ATokenIsNoCertificate) {
  int calls = 0;
  for (const Part& part : parts()) {
    for (const Token& token : TokensFor(part)) {
      for (const auto& [what, credentials] :
           std::vector<std::pair<std::string, std::shared_ptr<grpc::ChannelCredentials>>>{
               {"no certificate", StrangersCredentials()},
               {"plaintext", grpc::InsecureChannelCredentials()}}) {
        SCOPED_TRACE(absl::StrCat(part.name, ", ", what, ", ", token.what));
        const std::string trace = NewTrace();
        const int64_t before = Counter(part, "handshakes_refused_total{side=\"server\"}");
        for (const Method& method : part.methods) {
          ++calls;
          const grpc::Status status =
              RawCall(DialAlone(part.address, credentials), method.path,
                      *NamedThings::Absent(method), kPatience, {trace, "", token.text});
          EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE)
              << method.path << ": " << status.error_message();
        }
        // Plaintext is no handshake. The last one's refusal may still be under way.
        const int64_t expected =
            what == "plaintext" ? 0 : static_cast<int64_t>(part.methods.size());
        EXPECT_TRUE(platform_->Await([&] {
          return Counter(part, "handshakes_refused_total{side=\"server\"}") - before >= expected;
        }));
        EXPECT_THAT(AccessLogOf(part), Not(HasSubstr(trace)));
      }
    }
  }
  std::printf("%d calls with a token and no certificate\n", calls);
  EXPECT_GT(calls, 800);
}

// Beside a certificate that gives no right: the same refusal, word for word, as without the token,
// and it is the certificate that is logged as who called.
TEST_F(BearerTest, BesideACertificateATokenGivesNothing) {
  int refused = 0;
  // Nobody's role; a service that there is not; a Node of another Cluster, without a grant.
  for (const char* path : {"/person/4004", "/svc/impostor", "/node/elsewhere/n1"}) {
    const auto identity = Identity(path);
    for (const Part& part : parts()) {
      const std::vector<Token> tokens = TokensFor(part);
      const std::string trace = NewTrace();
      const auto channel = DialAlone(part.address, CredentialsOf(identity, part.name));
      for (const Method& method : part.methods) {
        const auto request = NamedThings::Absent(method);
        const grpc::Status without = RawCall(channel, method.path, *request, kSilence);
        if (!IsRefusal(without)) continue;
        for (const Token& token : tokens) {
          SCOPED_TRACE(absl::StrCat(path, " calls ", method.path, " with ", token.what));
          ++refused;
          const grpc::Status with =
              RawCall(channel, method.path, *request, kPatience, {trace, "", token.text});
          EXPECT_EQ(with.error_code(), without.error_code()) << with.error_message();
          EXPECT_EQ(with.error_message(), without.error_message());
          EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(with)),
                    status::Reason(rpc::FromGrpcStatus(without)));
        }
      }
      EXPECT_TRUE(platform_->Await([&] { return absl::StrContains(AccessLogOf(part), trace); }))
          << part.name << " logs no call by its trace";
      for (const absl::string_view line : absl::StrSplit(AccessLogOf(part), '\n')) {
        if (!absl::StrContains(line, trace)) continue;
        EXPECT_THAT(std::string(line), HasSubstr(Uri(path)));
      }
    }
  }
  std::printf("%d calls refused with a token as without\n", refused);
  EXPECT_GT(refused, 800);
}

// Beside one that gives a right, the right stays what it was and nobody else's comes to it.
TEST_F(BearerTest, WhoHasARightHasItWithAnyToken) {
  const Part& part = PartNamed("credentials");
  const auto channel = DialAlone(part.address, CredentialsOf(Person(kViewer), part.name));
  for (const Token& token : TokensFor(part)) {
    credentials::v1::CallerAccess caller;
    const grpc::Status status = RawAnswer(
        channel, "/capstan.credentials.v1.AccessService/GetCallerAccess",
        credentials::v1::GetCallerAccessRequest(), kPatience, &caller, {"", "", token.text});
    ASSERT_TRUE(status.ok()) << token.what << ": " << status.error_message();
    EXPECT_EQ(caller.principal(), Uri(absl::StrCat("/person/", kViewer))) << token.what;
    ASSERT_EQ(caller.roles_size(), 1) << token.what;
    EXPECT_EQ(caller.roles(0).project(), "projects/default") << token.what;
    EXPECT_EQ(caller.roles(0).role(), credentials::v1::RoleBinding::ROLE_VIEWER) << token.what;
  }
}

// The joining port asks nobody for a certificate, and serves joining alone, by join tokens.
TEST_F(BearerTest, TheJoiningPortTakesNoTokenOfATask) {
  const auto channel = DialAlone(endpoints_->join_address(), StrangersCredentials());
  const std::vector<Token> tokens = TokensFor(PartNamed("credentials"));
  for (const Method& method : AllMethods()) {
    for (const Token& token : tokens) {
      const grpc::Status status = RawCall(channel, method.path, *NamedThings::Absent(method),
                                          kPatience, {"", "", token.text});
      EXPECT_EQ(status.error_code(), method.service == "capstan.credentials.v1.JoinService"
                                         ? StatusCode::INVALID_ARGUMENT
                                         : StatusCode::UNIMPLEMENTED)
          << method.path << " with " << token.what << ": " << status.error_message();
    }
  }
}

}  // namespace
}  // namespace capstan::integration
