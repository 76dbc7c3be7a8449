// Issuing and renewing the own SVID, on simulated time, with a real signer and real files.
#include "services/credentials/own_identity.h"

#include <stdlib.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "services/credentials/adapters/certificate_authority.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/adapters/openssl_signer.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kLife = absl::Seconds(30);

// Issues what is asked, as the engine would, unless told to fail.
class IssuingSink final : public EventSink {
 public:
  IssuingSink(const Clock* clock, SecretSource* secrets) : clock_(clock) {
    auto authority = MakeCertificateAuthority("x.local", clock->Read().wall, secrets);
    root_ = authority->root;
    signer_ = *OpenSslSigner::Create(authority->root, authority->private_key);
  }

  void Submit(Event event, Callback done) override {
    ++asked_;
    if (failing_) return done(absl::UnavailableError("the store is away"));
    const IssueOwnSvid& own = std::get<IssueOwnSvid>(event);
    IssueOrder order;
    order.spiffe_id = "spiffe://x.local/svc/credentials";
    order.spki = own.key.spki;
    order.serial = own.key.serial;
    order.not_before = clock_->Read().wall;
    order.not_after = order.not_before + kLife;
    v1::Svid svid;
    svid.set_spiffe_id(order.spiffe_id);
    svid.add_certificate_chain(*signer_->Sign(order));
    svid.mutable_bundle()->set_trust_domain("x.local");
    svid.mutable_bundle()->add_roots(root_);
    *svid.mutable_expire_time() = ToProto(order.not_after);
    done(Answer(std::move(svid)));
  }

  bool failing_ = false;
  int asked_ = 0;

 private:
  const Clock* const clock_;
  std::string root_;
  std::unique_ptr<OpenSslSigner> signer_;
};

class OwnIdentityTest : public testing::Test {
 protected:
  OwnIdentityTest() {
    own_ = std::make_unique<OwnIdentity>(OwnIdentity::Deps{.sink = &sink_,
                                                           .secrets = &secrets_,
                                                           .io_strand = &strand_,
                                                           .log = &log_,
                                                           .folder = folder_.path() + "/identity",
                                                           .seed = 1});
  }

  absl::StatusOr<std::shared_ptr<rpc::Identity>> Start() {
    absl::StatusOr<std::shared_ptr<rpc::Identity>> result = absl::UnknownError("no answer");
    own_->Start([&](absl::StatusOr<std::shared_ptr<rpc::Identity>> got) { result = got; });
    strand_.RunReady();
    return result;
  }

  SimulatedClock clock_{
      Now{absl::FromUnixSeconds(1'800'000'000), BootTime::FromNanoseconds(1'000'000'000)}};
  SimulatedStrand strand_{&clock_};
  OpenSslSecretSource secrets_;
  IssuingSink sink_{&clock_, &secrets_};
  log::TestingSink log_sink_;
  const log::Logger log_{"credentials", &clock_, &log_sink_};
  const TemporaryFolder folder_;
  std::unique_ptr<OwnIdentity> own_;
};

TEST_F(OwnIdentityTest, RenewsUnderANewKeyAtAThirdOfItsLife) {
  const auto identity = Start();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ((*identity)->spiffe_id(), "spiffe://x.local/svc/credentials");
  const auto first = (*identity)->Get();
  strand_.Advance(absl::Seconds(9));
  EXPECT_EQ((*identity)->Get()->serial, first->serial);
  strand_.Advance(absl::Seconds(2));
  const auto second = (*identity)->Get();
  EXPECT_NE(second->serial, first->serial);
  EXPECT_NE(second->svid.key_pem, first->svid.key_pem);
  EXPECT_GT(second->not_after, first->not_after);
}

TEST_F(OwnIdentityTest, GoesOnTryingAndIsRenewedBeforeItsEnd) {
  const auto identity = Start();
  ASSERT_TRUE(identity.ok());
  const auto first = (*identity)->Get();
  sink_.failing_ = true;
  strand_.Advance(absl::Seconds(25));
  EXPECT_EQ((*identity)->Get()->serial, first->serial);
  EXPECT_GT(sink_.asked_, 3);
  sink_.failing_ = false;
  strand_.Advance(absl::Seconds(3));
  EXPECT_NE((*identity)->Get()->serial, first->serial);
  EXPECT_LT(clock_.Read().wall, first->not_after);
}

TEST_F(OwnIdentityTest, TellsWhyThereIsNone) {
  sink_.failing_ = true;
  EXPECT_EQ(Start().status().message(), "the store is away");
}

}  // namespace
}  // namespace capstan::credentials
