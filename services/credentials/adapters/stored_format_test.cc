// Private keys as they lie in the store, and the key keeper's file that opens them.
#include <string>

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/credentials/adapters/envelope.h"
#include "services/credentials/adapters/file_key_keeper.h"
#include "services/credentials/ports/fake_secret_source.h"

namespace capstan::credentials {
namespace {

constexpr char kPackage[] = "services/credentials/adapters";
constexpr char kContext[] = "capstan-ca/test.capstan.dev";
constexpr char kSecret[] = "not a secret of anybody";

TEST(StoredFormatTest, WhatWasSealedIsOpened) {
  const golden::Format keepers(kPackage, "key_keeper", "folder");
  const golden::Format sealed_keys(kPackage, "sealed_key", "hex");
  // A keeper's file stays when the other changes.
  for (const golden::Format::Version& kept : keepers.versions()) {
    const TemporaryFolder folder;
    golden::RestoreFolder(kept.bytes, folder.path());
    FakeSecretSource source(2);
    const auto keeper =
        FileKeyKeeper::Open(folder.path() + "/keeper.key", /*create=*/false, &source);
    ASSERT_TRUE(keeper.ok()) << keeper.status() << golden::kMustRead;
    for (const golden::Format::Version& version : sealed_keys.versions()) {
      SCOPED_TRACE(version.path);
      v1::SealedKey sealed;
      ASSERT_TRUE(sealed.ParseFromString(version.bytes));
      const auto opened = OpenEnvelope(sealed, kContext, keeper->get());
      ASSERT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
      EXPECT_EQ(*opened, kSecret);
    }
  }
  const TemporaryFolder folder;
  FakeSecretSource source(1);
  const auto keeper = FileKeyKeeper::Open(folder.path() + "/keeper.key", /*create=*/true, &source);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  keepers.ExpectWritten(golden::DumpFolder(folder.path()));
  const auto sealed = SealEnvelope(kSecret, kContext, keeper->get(), &source);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  sealed_keys.ExpectWritten(sealed->SerializeAsString());
}

}  // namespace
}  // namespace capstan::credentials
