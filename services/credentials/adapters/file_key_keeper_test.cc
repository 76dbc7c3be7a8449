#include "services/credentials/adapters/file_key_keeper.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "services/credentials/adapters/envelope.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/ports/fake_key_keeper.h"
#include "services/credentials/ports/fake_secret_source.h"
#include "services/credentials/ports/key_keeper_conformance.h"

namespace capstan::credentials {
namespace {

std::string FreshPath() {
  static int count = 0;
  return absl::StrCat(testing::TempDir(), "/keeper-", getpid(), "-", ++count);
}

std::unique_ptr<KeyKeeper> Fresh() {
  static OpenSslSecretSource source;
  auto keeper = FileKeyKeeper::Open(FreshPath(), /*create=*/true, &source);
  return keeper.ok() ? *std::move(keeper) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(File, KeyKeeperConformance, testing::Values(KeyKeeperFactory(Fresh)));

class FileKeyKeeperTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<FileKeyKeeper>> Open(bool create) {
    return FileKeyKeeper::Open(path_, create, &source_);
  }

  OpenSslSecretSource source_;
  const std::string path_ = FreshPath();
};

TEST_F(FileKeyKeeperTest, MakesAFileThatOnlyItsOwnerMayRead) {
  ASSERT_TRUE(Open(true).ok());
  struct stat attributes;
  ASSERT_EQ(stat(path_.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 07777, 0600u);
  EXPECT_EQ(attributes.st_size, 32);
  EXPECT_EQ(attributes.st_nlink, 1u);
}

TEST_F(FileKeyKeeperTest, OpensTheSameKeyAgain) {
  auto first = Open(true);
  ASSERT_TRUE(first.ok());
  const auto wrapped = (*first)->Wrap("0123456789abcdef0123456789abcdef", "ca");
  ASSERT_TRUE(wrapped.ok());
  auto second = Open(false);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->key_id(), (*first)->key_id());
  EXPECT_TRUE((*second)->Unwrap(*wrapped, "ca").ok());
}

TEST_F(FileKeyKeeperTest, RemovesWhatAKilledProcessHasLeftOfMakingIt) {
  const auto exists = [](const std::string& path) { return access(path.c_str(), F_OK) == 0; };
  const std::string half = path_ + ".0123456789abcdef";
  const std::string second_name = path_ + ".fedcba9876543210";
  const std::string other = path_ + ".backup";
  std::ofstream(half) << "x";
  std::ofstream(other) << "x";
  auto keeper = Open(true);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  EXPECT_FALSE(exists(half));
  ASSERT_EQ(link(path_.c_str(), second_name.c_str()), 0);
  auto again = Open(false);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->key_id(), (*keeper)->key_id());
  EXPECT_FALSE(exists(second_name));
  EXPECT_TRUE(exists(other)) << "it was not ours";
}

TEST_F(FileKeyKeeperTest, IsNotMadeWhereItMustExist) {
  EXPECT_EQ(Open(false).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FileKeyKeeperTest, RefusesWhatOthersMayRead) {
  ASSERT_TRUE(Open(true).ok());
  for (mode_t mode : {0640, 0604, 0660, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(status::Reason(Open(false).status()), "KEY_KEEPER_FILE_UNSAFE") << mode;
  }
}

TEST_F(FileKeyKeeperTest, RefusesALinkAndAFileOfAnotherSize) {
  ASSERT_TRUE(Open(true).ok());
  const std::string linked = absl::StrCat(path_, "-link");
  ASSERT_EQ(symlink(path_.c_str(), linked.c_str()), 0);
  EXPECT_FALSE(FileKeyKeeper::Open(linked, true, &source_).ok());
  std::ofstream(path_, std::ios::app) << "x";
  EXPECT_FALSE(Open(false).ok());
}

TEST(EnvelopeTest, OpensOnlyForItsContextAndKeeper) {
  FakeSecretSource source(1);
  FakeKeyKeeper keeper;
  const std::string secret = "the key of a certificate authority";
  auto sealed = SealEnvelope(secret, "ca/example", &keeper, &source);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->SerializeAsString().find(secret), std::string::npos);
  EXPECT_EQ(*OpenEnvelope(*sealed, "ca/example", &keeper), secret);
  EXPECT_FALSE(OpenEnvelope(*sealed, "ca/other", &keeper).ok());
  sealed->set_keeper_key_id("another");
  EXPECT_EQ(status::Reason(OpenEnvelope(*sealed, "ca/example", &keeper).status()),
            "WRONG_KEY_KEEPER");
}

}  // namespace
}  // namespace capstan::credentials
