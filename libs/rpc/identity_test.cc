#include "libs/rpc/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"

namespace capstan::rpc {
namespace {

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    static int number = 0;
    folder_ = absl::StrCat(::testing::TempDir(), "/identity", getpid(), "-", ++number);
  }
  std::string ReadSvid() const {
    std::ifstream in(folder_ + "/svid.pem");
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  void WriteSvid(const std::string& text) const { std::ofstream(folder_ + "/svid.pem") << text; }

  const TestAuthority authority_;
  std::string folder_;
};

TEST_F(IdentityTest, ComesBackAfterARestart) {
  const Svid svid = authority_.Issue("/svc/scheduler");
  const auto stored = Identity::Store(folder_, svid);
  ASSERT_TRUE(stored.ok()) << stored.status();
  const auto loaded = Identity::Load(folder_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->Get()->svid, svid);
  EXPECT_EQ((*loaded)->spiffe_id(), "spiffe://test.capstan.dev/svc/scheduler");
  EXPECT_EQ((*loaded)->trust_domain(), "test.capstan.dev");
  EXPECT_EQ((*loaded)->Get()->serial, ParseCertificate(svid.chain[0])->serial);
  EXPECT_EQ((*loaded)->Get()->id.service, "scheduler");
}

TEST_F(IdentityTest, IsReadableByItsOwnerOnly) {
  ASSERT_TRUE(Identity::Store(folder_, authority_.Issue("/svc/scheduler")).ok());
  struct stat info;
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const char* file : {"/svid.pem", "/bundle.pem"}) {
    ASSERT_EQ(stat((folder_ + file).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << file;
  }
}

TEST_F(IdentityTest, AbsentIsNotFoundAndDamagedIsDataLoss) {
  EXPECT_EQ(Identity::Load(folder_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Identity::Store(folder_, authority_.Issue("/svc/scheduler")).ok());
  const std::string good = ReadSvid();
  for (const std::string& bad :
       {std::string(), std::string("junk"), good.substr(0, 300),
        PrivateKey::Generate()->ToPem() + good.substr(good.find("-----BEGIN CERT"))}) {
    WriteSvid(bad);
    EXPECT_EQ(status::Reason(Identity::Load(folder_).status()), "IDENTITY_DAMAGED");
  }
  WriteSvid(good);
  EXPECT_TRUE(Identity::Load(folder_).ok());
}

TEST_F(IdentityTest, ReplaceSwapsKeyAndChainTogether) {
  const auto identity = authority_.MakeIdentity("/svc/scheduler", folder_);
  struct stat before;
  ASSERT_EQ(stat(identity->svid_path().c_str(), &before), 0);
  const std::shared_ptr<const IdentitySnapshot> old = identity->Get();
  const Svid next = authority_.Issue("/svc/scheduler");
  ASSERT_EQ(identity->Replace(next), absl::OkStatus());
  EXPECT_EQ(identity->Get()->svid, next);
  EXPECT_NE(old->svid, next);
  EXPECT_EQ((*Identity::Load(folder_))->Get()->svid, next);
  // What lets gRPC's watcher see the swap.
  struct stat after;
  ASSERT_EQ(stat(identity->svid_path().c_str(), &after), 0);
  EXPECT_GT(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
}

TEST_F(IdentityTest, ReplaceRefusesWhatIsNotTheSameIdentity) {
  const auto identity = authority_.MakeIdentity("/svc/scheduler", folder_);
  const Svid old = identity->Get()->svid;
  EXPECT_FALSE(identity->Replace(authority_.Issue("/svc/telemetry")).ok());
  Svid mixed = authority_.Issue("/svc/scheduler");
  mixed.key_pem = PrivateKey::Generate()->ToPem();
  EXPECT_FALSE(identity->Replace(mixed).ok());
  Svid empty = authority_.Issue("/svc/scheduler");
  empty.bundle.clear();
  EXPECT_FALSE(identity->Replace(empty).ok());
  Svid root = authority_.Issue("/svc/scheduler");
  root.chain = {authority_.root()};
  root.key_pem = authority_.key().ToPem();
  EXPECT_FALSE(identity->Replace(root).ok());
  EXPECT_EQ(identity->Get()->svid, old);
  EXPECT_EQ((*Identity::Load(folder_))->Get()->svid, old);
}

TEST_F(IdentityTest, AFullDiskKeepsTheOldOne) {
  const auto identity = authority_.MakeIdentity("/svc/scheduler", folder_);
  const Svid old = identity->Get()->svid;
  // In the way of the temporary file, and not removable by unlink.
  ASSERT_EQ(mkdir((folder_ + "/bundle.pem.new").c_str(), 0700), 0);
  EXPECT_FALSE(identity->Replace(authority_.Issue("/svc/scheduler")).ok());
  EXPECT_EQ(identity->Get()->svid, old);
  EXPECT_EQ((*Identity::Load(folder_))->Get()->svid, old);
}

}  // namespace
}  // namespace capstan::rpc
