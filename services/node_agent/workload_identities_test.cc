// What the Workload API answers, on simulated time.
#include "services/node_agent/workload_identities.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/signing_key.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/ports/fake_ports.h"

namespace capstan::node_agent {
namespace {

constexpr char kTask[] = "/project/p/sa/train/job/j/gen/1/task/w-0";

template <typename Message>
class Stream final : public WorkloadStream<Message> {
 public:
  absl::Status Write(Message message) override {
    if (!accepts.ok()) return accepts;
    messages.push_back(std::move(message));
    return absl::OkStatus();
  }
  void Finish(const absl::Status& status) override {
    if (ended.ok()) ended = status;
  }
  std::vector<Message> messages;
  absl::Status accepts;
  absl::Status ended;
};

class FakeTokens final : public TaskTokens {
 public:
  explicit FakeTokens(Strand* strand) : strand_(strand) {}
  void Issue(const IssueIdentity&, bool as_service_account, const std::vector<std::string>&,
             absl::AnyInvocable<void(absl::StatusOr<TaskToken>)> done) override {
    ++issued;
    if (held) {
      waiting.push_back(std::move(done));
      return;
    }
    absl::StatusOr<TaskToken> token =
        TaskToken{as_service_account ? "account" : "task", "t-" + std::to_string(issued),
                  strand_->clock().Read().wall + absl::Minutes(5)};
    if (!failure.ok()) token = failure;
    strand_->Post([done = std::move(done), token]() mutable { done(token); });
  }
  void GetKeys(absl::AnyInvocable<void(absl::StatusOr<TokenKeys>)> done) override {
    ++asked;
    absl::StatusOr<TokenKeys> answer = keys;
    if (!failure.ok()) answer = failure;
    strand_->Post([done = std::move(done), answer]() mutable { done(answer); });
  }
  TokenKeys keys;
  absl::Status failure;
  bool held = false;
  std::vector<absl::AnyInvocable<void(absl::StatusOr<TaskToken>)>> waiting;
  int issued = 0;
  int asked = 0;

 private:
  Strand* const strand_;
};

class WorkloadIdentitiesTest : public testing::Test {
 protected:
  WorkloadIdentitiesTest() : identity_(&strand_), tokens_(&strand_), logger_("t", &clock_, &sink_) {
    key_ = *jose::SigningKey::Generate(jose::kEs256);
    tokens_.keys = {"test.capstan.dev", jose::MakeKeySet({key_->public_jwk()}, "jwt-svid"),
                    absl::Minutes(2)};
    identities_ = std::make_unique<WorkloadIdentities>(WorkloadIdentities::Deps{
        .strand = &strand_,
        .identity = &identity_,
        .tokens = &tokens_,
        .logger = &logger_,
        .refused = [this](const std::string& id, const std::string&, const std::string& resource,
                          const absl::Status&) { refused_.push_back(id + " " + resource); }});
    order_.order.id = session::TaskId{"j", 1, "w", 0};
    order_.directory = "/identity";
    Renew();
  }

  void Renew() {
    const rpc::Svid svid = authority_.Issue(kTask);
    identity_.svids["/identity"] = TaskSvid{svid.chain, svid.key_pem, svid.bundle};
  }
  void Serve() {
    identities_->Serve(order_);
    strand_.RunReady();
  }
  absl::StatusOr<::JWTSVIDResponse> Fetch(const std::string& audience, const std::string& id = "") {
    absl::StatusOr<::JWTSVIDResponse> answer = absl::UnknownError("unanswered");
    ::JWTSVIDRequest request;
    if (!audience.empty()) request.add_audience(audience);
    request.set_spiffe_id(id);
    identities_->FetchJwtSvid(order_.order.id, request,
                              [&](absl::StatusOr<::JWTSVIDResponse> got) { answer = got; });
    strand_.RunReady();
    return answer;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  const rpc::TestAuthority authority_;
  absl::optional<jose::SigningKey> key_;
  FakeTaskIdentity identity_;
  FakeTokens tokens_;
  log::TestingSink sink_;
  log::Logger logger_;
  std::vector<std::string> refused_;
  KeepIdentity order_;
  std::unique_ptr<WorkloadIdentities> identities_;
};

TEST_F(WorkloadIdentitiesTest, AStreamHasTheWholeStateAtOnceAndAfterEachChange) {
  Serve();
  const auto stream = std::make_shared<Stream<::X509SVIDResponse>>();
  identities_->FetchX509Svid(order_.order.id, stream);
  ASSERT_EQ(stream->messages.size(), 1u);
  EXPECT_EQ(stream->messages[0].svids(0).spiffe_id(),
            std::string("spiffe://test.capstan.dev") + kTask);
  // Nothing new, nothing said.
  identities_->Renewed(order_.order.id);
  strand_.RunReady();
  EXPECT_EQ(stream->messages.size(), 1u);
  Renew();
  identities_->Renewed(order_.order.id);
  strand_.RunReady();
  ASSERT_EQ(stream->messages.size(), 2u);
  EXPECT_NE(stream->messages[0].svids(0).x509_svid(), stream->messages[1].svids(0).x509_svid());
  EXPECT_TRUE(stream->ended.ok());
  identities_->Close(order_.order.id);
  EXPECT_EQ(stream->ended.code(), absl::StatusCode::kUnavailable);
}

TEST_F(WorkloadIdentitiesTest, AStreamThatCameFirstWaitsForTheSvid) {
  identities_->Serve(order_);
  const auto stream = std::make_shared<Stream<::X509SVIDResponse>>();
  const auto bundles = std::make_shared<Stream<::X509BundlesResponse>>();
  const auto keys = std::make_shared<Stream<::JWTBundlesResponse>>();
  identities_->FetchX509Svid(order_.order.id, stream);
  identities_->FetchX509Bundles(order_.order.id, bundles);
  identities_->FetchJwtBundles(order_.order.id, keys);
  EXPECT_TRUE(stream->messages.empty());
  strand_.RunReady();
  EXPECT_EQ(stream->messages.size(), 1u);
  ASSERT_EQ(bundles->messages.size(), 1u);
  EXPECT_EQ(bundles->messages[0].bundles().at("spiffe://test.capstan.dev"), authority_.root());
  ASSERT_EQ(keys->messages.size(), 1u);
  EXPECT_EQ(keys->messages[0].bundles().at("spiffe://test.capstan.dev"), tokens_.keys.jwks);
}

TEST_F(WorkloadIdentitiesTest, APeerThatDoesNotReadIsEndedAndOthersAreNot) {
  Serve();
  const auto slow = std::make_shared<Stream<::X509SVIDResponse>>();
  const auto good = std::make_shared<Stream<::X509SVIDResponse>>();
  identities_->FetchX509Svid(order_.order.id, slow);
  identities_->FetchX509Svid(order_.order.id, good);
  slow->accepts = absl::ResourceExhaustedError("full");
  Renew();
  identities_->Renewed(order_.order.id);
  strand_.RunReady();
  EXPECT_EQ(slow->ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(good->messages.size(), 2u);
}

TEST_F(WorkloadIdentitiesTest, StreamsAreBounded) {
  Serve();
  std::vector<std::shared_ptr<Stream<::X509SVIDResponse>>> streams;
  for (size_t i = 0; i <= WorkloadIdentities::kMaxStreams; ++i) {
    streams.push_back(std::make_shared<Stream<::X509SVIDResponse>>());
    identities_->FetchX509Svid(order_.order.id, streams.back());
  }
  EXPECT_TRUE(streams.front()->ended.ok());
  EXPECT_EQ(status::Reason(streams.back()->ended), "OVERLOADED");
}

TEST_F(WorkloadIdentitiesTest, WhoIsNotServedHasNoIdentity) {
  const auto stream = std::make_shared<Stream<::X509SVIDResponse>>();
  identities_->FetchX509Svid(order_.order.id, stream);
  EXPECT_EQ(stream->ended.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Fetch("aws").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(identities_->ValidateJwtSvid(order_.order.id, {}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(WorkloadIdentitiesTest, TokensAreKeptForHalfOfTheirLives) {
  Serve();
  const auto first = Fetch("aws");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->svids_size(), 2);
  EXPECT_EQ(first->svids(0).hint(), "task");
  EXPECT_EQ(first->svids(1).hint(), "service-account");
  EXPECT_EQ(tokens_.issued, 2);
  strand_.Advance(absl::Seconds(149));
  EXPECT_EQ(Fetch("aws")->SerializeAsString(), first->SerializeAsString());
  EXPECT_EQ(tokens_.issued, 2);
  EXPECT_TRUE(Fetch("gcp").ok());
  EXPECT_EQ(tokens_.issued, 4);
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Fetch("aws").ok());
  EXPECT_EQ(tokens_.issued, 6);
  // However many audiences it thinks up.
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Fetch("a-" + std::to_string(i)).ok());
  tokens_.failure = absl::UnavailableError("credentials is away");
  EXPECT_TRUE(Fetch("a-199").ok());
  EXPECT_EQ(Fetch("a-0").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(WorkloadIdentitiesTest, AsksForNoIdentityButTheTasks) {
  Serve();
  EXPECT_EQ(Fetch("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Fetch("two words").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(refused_.empty());
  const std::string account = "spiffe://test.capstan.dev/project/p/sa/train";
  const auto one = Fetch("aws", account);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->svids_size(), 1);
  EXPECT_EQ(one->svids(0).spiffe_id(), "account");
  EXPECT_EQ(Fetch("aws", account + "2").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused_, (std::vector<std::string>{std::string("spiffe://test.capstan.dev") + kTask +
                                                " " + account + "2"}));
}

TEST_F(WorkloadIdentitiesTest, CallsThatWaitAreBoundedAndEndWithTheTask) {
  Serve();
  tokens_.held = true;
  std::vector<absl::Status> answers(WorkloadIdentities::kMaxPending + 1);
  for (absl::Status& answer : answers) {
    ::JWTSVIDRequest request;
    request.add_audience("aws");
    identities_->FetchJwtSvid(
        order_.order.id, request,
        [&answer](const absl::StatusOr<::JWTSVIDResponse>& got) { answer = got.status(); });
  }
  EXPECT_EQ(status::Reason(answers.back()), "OVERLOADED");
  EXPECT_TRUE(answers.front().ok());
  identities_->Close(order_.order.id);
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable);
  }
  // Answers that come late go nowhere.
  for (auto& done : tokens_.waiting) done(absl::UnavailableError("late"));
}

TEST_F(WorkloadIdentitiesTest, KeysAreAskedForAsOftenAsIsSaidAndChangesArePushed) {
  Serve();
  const auto stream = std::make_shared<Stream<::JWTBundlesResponse>>();
  identities_->FetchJwtBundles(order_.order.id, stream);
  EXPECT_EQ(tokens_.asked, 1);
  strand_.Advance(absl::Minutes(20));
  EXPECT_EQ(tokens_.asked, 11);
  EXPECT_EQ(stream->messages.size(), 1u);
  const auto next = jose::SigningKey::Generate(jose::kEs256);
  tokens_.keys.jwks = jose::MakeKeySet({key_->public_jwk(), next->public_jwk()}, "jwt-svid");
  strand_.Advance(absl::Minutes(2));
  EXPECT_EQ(stream->messages.size(), 2u);
  // Away: with back-off, and the last ones stay.
  tokens_.failure = absl::UnavailableError("credentials is away");
  tokens_.asked = 0;
  strand_.Advance(absl::Hours(1));
  EXPECT_LT(tokens_.asked, 130);
  const std::string token =
      *next->Sign(jose::EncodeClaims({.issuer = "",
                                      .subject = "spiffe://test.capstan.dev/svc/x",
                                      .audiences = {"aws"},
                                      .expires = clock_.Read().wall + absl::Minutes(1),
                                      .issued_at = clock_.Read().wall,
                                      .id = ""},
                                     {}));
  ::ValidateJWTSVIDRequest request;
  request.set_audience("aws");
  request.set_svid(token);
  const auto valid = identities_->ValidateJwtSvid(order_.order.id, request);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->spiffe_id(), "spiffe://test.capstan.dev/svc/x");
  EXPECT_EQ(valid->claims().fields().at("sub").string_value(), valid->spiffe_id());
  request.set_audience("gcp");
  EXPECT_EQ(identities_->ValidateJwtSvid(order_.order.id, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  identities_->Close(order_.order.id);
  strand_.Advance(absl::Hours(1));
  EXPECT_EQ(strand_.armed(), 0u);
}

}  // namespace
}  // namespace capstan::node_agent
