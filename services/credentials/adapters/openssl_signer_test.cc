#include "services/credentials/adapters/openssl_signer.h"

#include <openssl/pem.h>

#include <memory>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"
#include "services/credentials/adapters/certificate_authority.h"
#include "services/credentials/adapters/openssl_ptr.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/core/serial.h"

namespace capstan::credentials {
namespace {

using StorePtr = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>>;

CertificatePtr Decode(const std::string& der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  return CertificatePtr(d2i_X509(nullptr, &bytes, static_cast<long>(der.size())));
}

std::string Text(X509* certificate) {
  const std::unique_ptr<BIO, OpenSslFree<BIO_free_all>> memory(BIO_new(BIO_s_mem()));
  X509_print(memory.get(), certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

class OpenSslSignerTest : public testing::Test {
 protected:
  OpenSslSignerTest() {
    auto authority = MakeCertificateAuthority("capstan-01234567.local", now_, &source_);
    EXPECT_TRUE(authority.ok()) << authority.status();
    authority_ = *authority;
    auto signer = OpenSslSigner::Create(authority_.root, authority_.private_key);
    EXPECT_TRUE(signer.ok()) << signer.status();
    signer_ = *std::move(signer);
    key_.reset(EVP_EC_gen("P-256"));
    unsigned char* bytes = nullptr;
    const int size = i2d_PUBKEY(key_.get(), &bytes);
    order_.spki.assign(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
    OPENSSL_free(bytes);
    order_.spiffe_id = "spiffe://capstan-01234567.local/svc/scheduler";
    order_.serial = SerialFrom(*source_.Bytes(kSerialBytes));
    order_.not_before = now_ - absl::Seconds(10);
    order_.not_after = now_ + absl::Hours(24);
  }

  // X509_V_OK or OpenSSL's code.
  int Verify(X509* leaf, absl::Time when, int purpose = X509_PURPOSE_SSL_CLIENT) {
    const StorePtr store(X509_STORE_new());
    const CertificatePtr root = Decode(authority_.root);
    X509_STORE_add_cert(store.get(), root.get());
    const StoreContextPtr context(X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), leaf, nullptr);
    X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
    X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(when));
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
    X509_STORE_CTX_set_purpose(context.get(), purpose);
    X509_verify_cert(context.get());
    return X509_STORE_CTX_get_error(context.get());
  }

  OpenSslSecretSource source_;
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  CertificateAuthority authority_;
  std::unique_ptr<OpenSslSigner> signer_;
  KeyPtr key_;
  IssueOrder order_;
};

TEST_F(OpenSslSignerTest, MakesASvidThatVerifiesForClientAndServer) {
  const auto der = signer_->Sign(order_);
  ASSERT_TRUE(der.ok()) << der.status();
  const CertificatePtr leaf = Decode(*der);
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(Verify(leaf.get(), now_, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
  EXPECT_EQ(Verify(leaf.get(), now_, X509_PURPOSE_SSL_SERVER), X509_V_OK);
}

TEST_F(OpenSslSignerTest, HoldsTheSpiffeProfile) {
  const CertificatePtr leaf = Decode(*signer_->Sign(order_));
  EXPECT_EQ(X509_get_extension_flags(leaf.get()) & EXFLAG_CA, 0u);
  EXPECT_EQ(X509_get_key_usage(leaf.get()), static_cast<uint32_t>(KU_DIGITAL_SIGNATURE));
  EXPECT_EQ(X509_get_extended_key_usage(leaf.get()),
            static_cast<uint32_t>(XKU_SSL_CLIENT | XKU_SSL_SERVER));
  EXPECT_LT(X509_NAME_get_index_by_NID(X509_get_subject_name(leaf.get()), NID_commonName, -1), 0);
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(leaf.get(), NID_subject_alt_name, nullptr, nullptr));
  // One URI, and the DNS name that identifies no one.
  ASSERT_EQ(sk_GENERAL_NAME_num(names), 2);
  EXPECT_EQ(sk_GENERAL_NAME_value(names, 1)->type, GEN_DNS);
  const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, 0);
  ASSERT_EQ(name->type, GEN_URI);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(
                            ASN1_STRING_get0_data(name->d.uniformResourceIdentifier)),
                        static_cast<size_t>(ASN1_STRING_length(name->d.uniformResourceIdentifier))),
            order_.spiffe_id);
  GENERAL_NAMES_free(names);
  BIGNUM* serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(leaf.get()), nullptr);
  char* hex = BN_bn2hex(serial);
  EXPECT_EQ(absl::AsciiStrToLower(hex), order_.serial);
  OPENSSL_free(hex);
  BN_free(serial);
  EXPECT_NE(X509_get0_authority_key_id(leaf.get()), nullptr);
  EXPECT_NE(X509_get0_subject_key_id(leaf.get()), nullptr);
}

TEST_F(OpenSslSignerTest, RootSignsLeavesOfItsOwnDomainAlone) {
  const CertificatePtr root = Decode(authority_.root);
  EXPECT_NE(X509_get_extension_flags(root.get()) & EXFLAG_CA, 0u);
  EXPECT_EQ(X509_get_pathlen(root.get()), 0);
  EXPECT_EQ(X509_get_key_usage(root.get()), static_cast<uint32_t>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
  const std::string text = Text(root.get());
  EXPECT_NE(text.find("Name Constraints: critical"), std::string::npos) << text;
  EXPECT_NE(text.find("prime256v1"), std::string::npos) << text;

  order_.spiffe_id = "spiffe://other.local/svc/scheduler";
  const CertificatePtr stranger = Decode(*signer_->Sign(order_));
  EXPECT_EQ(Verify(stranger.get(), now_), X509_V_ERR_PERMITTED_VIOLATION);
}

TEST_F(OpenSslSignerTest, IsValidOnlyInItsTime) {
  const CertificatePtr leaf = Decode(*signer_->Sign(order_));
  EXPECT_EQ(Verify(leaf.get(), order_.not_before - absl::Seconds(1)),
            X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_EQ(Verify(leaf.get(), order_.not_before), X509_V_OK);
  EXPECT_EQ(Verify(leaf.get(), order_.not_after - absl::Seconds(1)), X509_V_OK);
  EXPECT_EQ(Verify(leaf.get(), order_.not_after + absl::Seconds(1)), X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_F(OpenSslSignerTest, SignsNothingButOurIds) {
  for (const char* id :
       {"", "spiffe://capstan-01234567.local", "https://capstan-01234567.local/svc/scheduler",
        "spiffe://capstan-01234567.local/svc/scheduler,DNS:example.com",
        "spiffe://capstan-01234567.local/../svc/scheduler"}) {
    order_.spiffe_id = id;
    EXPECT_FALSE(signer_->Sign(order_).ok()) << id;
  }
}

TEST_F(OpenSslSignerTest, RefusesAKeyThatIsNotTheRoots) {
  const auto other = MakeCertificateAuthority("capstan-01234567.local", now_, &source_);
  EXPECT_FALSE(OpenSslSigner::Create(authority_.root, other->private_key).ok());
  EXPECT_FALSE(OpenSslSigner::Create("", "").ok());
}

TEST_F(OpenSslSignerTest, SerialsAreLongPositiveAndDifferent) {
  std::set<std::string> serials;
  for (int i = 0; i < 1000; ++i) {
    const std::string serial = SerialFrom(*source_.Bytes(kSerialBytes));
    EXPECT_EQ(serial.size(), 32u);
    EXPECT_GE(serial[0], '4');
    EXPECT_LE(serial[0], '7');
    serials.insert(serial);
  }
  EXPECT_EQ(serials.size(), 1000u);
}

}  // namespace
}  // namespace capstan::credentials
