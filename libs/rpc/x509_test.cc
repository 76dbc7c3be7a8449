#include "libs/rpc/x509.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509_issue.h"

namespace capstan::rpc {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class X509Test : public ::testing::Test {
 protected:
  const TestAuthority authority_{"test.capstan.dev", kNow};
};

TEST_F(X509Test, KeysKeepTheirPem) {
  const PrivateKey key = PrivateKey::Generate().value();
  const PrivateKey again = PrivateKey::FromPem(key.ToPem()).value();
  EXPECT_EQ(again.ToPem(), key.ToPem());
  EXPECT_EQ(again.PublicKey(), key.PublicKey());
  EXPECT_NE(PrivateKey::Generate().value().PublicKey(), key.PublicKey());
  EXPECT_THAT(key.ToPem(), HasSubstr("BEGIN PRIVATE KEY"));
}

TEST_F(X509Test, OtherKeysAreRefused) {
  EXPECT_FALSE(PrivateKey::FromPem("").ok());
  EXPECT_FALSE(PrivateKey::FromPem("-----BEGIN PRIVATE KEY-----\nAAAA\n").ok());
  // Ed25519, of RFC 8410.
  EXPECT_FALSE(
      PrivateKey::FromPem("-----BEGIN PRIVATE KEY-----\n"
                          "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
                          "-----END PRIVATE KEY-----\n")
          .ok());
}

TEST_F(X509Test, RequestsProveTheirKey) {
  const PrivateKey key = PrivateKey::Generate().value();
  const std::string request = MakeCertificateRequest(key).value();
  EXPECT_EQ(PublicKeyOfRequest(request).value(), key.PublicKey());
  EXPECT_FALSE(PublicKeyOfRequest(request + "x").ok());
  EXPECT_FALSE(PublicKeyOfRequest("").ok());
  // Another's key under my signature.
  const PrivateKey other = PrivateKey::Generate().value();
  const std::string forged = absl::StrReplaceAll(request, {{key.PublicKey(), other.PublicKey()}});
  ASSERT_NE(forged, request);
  EXPECT_EQ(PublicKeyOfRequest(forged).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(X509Test, LeavesSayWhatWasAskedFor) {
  const Svid svid = authority_.Issue("/node/c1/n1", absl::Hours(24));
  const Certificate leaf = ParseCertificate(svid.chain[0]).value();
  EXPECT_EQ(leaf.uri, "spiffe://test.capstan.dev/node/c1/n1");
  EXPECT_EQ(leaf.not_before, kNow - absl::Hours(1));
  EXPECT_EQ(leaf.not_after, kNow + absl::Hours(24));
  EXPECT_FALSE(leaf.is_ca);
  EXPECT_FALSE(leaf.self_issued);
  EXPECT_EQ(leaf.public_key, PrivateKey::FromPem(svid.key_pem).value().PublicKey());
  EXPECT_GE(leaf.serial.size(), 24u);
  EXPECT_EQ(leaf.serial.find_first_not_of("0123456789abcdef"), std::string::npos);
  const Certificate root = ParseCertificate(authority_.root()).value();
  EXPECT_TRUE(root.is_ca);
  EXPECT_TRUE(root.self_issued);
  EXPECT_EQ(root.uri, "spiffe://test.capstan.dev");
}

TEST_F(X509Test, OnlyWholeCertificatesParse) {
  const std::string leaf = authority_.Issue("/svc/scheduler").chain[0];
  for (size_t length = 0; length < leaf.size(); ++length) {
    EXPECT_FALSE(ParseCertificate(leaf.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(ParseCertificate(leaf + '\0').ok());
}

TEST_F(X509Test, PemKeepsOrder) {
  const std::string a = authority_.Issue("/svc/a").chain[0];
  const std::string b = authority_.Issue("/svc/b").chain[0];
  const std::string pem = CertificatesToPem({a, b});
  EXPECT_EQ(CertificatesFromPem(pem).value(), (std::vector<std::string>{a, b}));
  const std::string key = PrivateKey::Generate().value().ToPem();
  EXPECT_EQ(CertificatesFromPem(key + pem).value().size(), 2u);
  EXPECT_TRUE(CertificatesFromPem("").value().empty());
  EXPECT_FALSE(CertificatesFromPem(pem.substr(0, pem.size() - 40)).ok());
  std::string many;
  for (int i = 0; i < 65; ++i) many += CertificatesToPem({a});
  EXPECT_FALSE(CertificatesFromPem(many).ok());
}

TEST_F(X509Test, ChainsVerifyAtTheGivenTime) {
  const Svid svid = authority_.Issue("/svc/scheduler", absl::Hours(24));
  const auto verify = [&](absl::Time at) {
    return VerifyChain(svid.chain[0], {}, svid.bundle, at);
  };
  EXPECT_EQ(verify(kNow), absl::OkStatus());
  EXPECT_EQ(verify(kNow + absl::Hours(25)).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(verify(kNow + absl::Hours(25)).message(), HasSubstr("expired"));
  EXPECT_THAT(verify(kNow - absl::Hours(2)).message(), HasSubstr("not yet valid"));
  const TestAuthority other("test.capstan.dev", kNow);
  EXPECT_EQ(VerifyChain(svid.chain[0], {}, {other.root()}, kNow).code(),
            absl::StatusCode::kUnauthenticated);
  // During a change of roots any one of the bundle will do.
  EXPECT_EQ(VerifyChain(svid.chain[0], {}, {other.root(), authority_.root()}, kNow),
            absl::OkStatus());
  // What the peer sends as intermediates is not trusted.
  EXPECT_FALSE(VerifyChain(svid.chain[0], {authority_.root()}, {other.root()}, kNow).ok());
  EXPECT_FALSE(VerifyChain(svid.chain[0], {}, {}, kNow).ok());
  EXPECT_FALSE(VerifyChain("junk", {}, svid.bundle, kNow).ok());
}

TEST_F(X509Test, ALeafSignsNothing) {
  const Svid svid = authority_.Issue("/svc/scheduler");
  const PrivateKey leaf_key = PrivateKey::FromPem(svid.key_pem).value();
  CertificateSpec spec;
  spec.uri = "spiffe://test.capstan.dev/svc/credentials";
  spec.public_key = leaf_key.PublicKey();
  spec.not_before = kNow - absl::Hours(1);
  spec.not_after = kNow + absl::Hours(1);
  const std::string forged = IssueCertificate(spec, svid.chain[0], leaf_key).value();
  EXPECT_EQ(VerifyChain(forged, svid.chain, svid.bundle, kNow).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(X509Test, IssuingRefusesWhatDoesNotBelongTogether) {
  CertificateSpec spec;
  spec.uri = "spiffe://test.capstan.dev/svc/a";
  spec.public_key = authority_.key().PublicKey();
  spec.not_before = kNow;
  spec.not_after = kNow + absl::Hours(1);
  EXPECT_FALSE(IssueCertificate(spec, authority_.root(), PrivateKey::Generate().value()).ok());
  spec.uri = "spiffe://test.capstan.dev/svc/a,URI:spiffe://test.capstan.dev/svc/b";
  EXPECT_FALSE(IssueCertificate(spec, authority_.root(), authority_.key()).ok());
}

TEST_F(X509Test, BundleHashIsOfTheConcatenation) {
  EXPECT_EQ(BundleSha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(BundleSha256({"a", "bc"}), Sha256Hex("abc"));
}

}  // namespace
}  // namespace capstan::rpc
