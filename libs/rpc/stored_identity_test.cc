// A restart needs no credentials service since who the process is lies in its folder: also after
// an upgrade.
#include <string>

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/rpc/identity.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::rpc {
namespace {

TEST(StoredIdentityTest, ReleasedIdentitiesAreLoadedAndStoredAsTheyWere) {
  const golden::Format format("libs/rpc", "identity", "folder");
  std::string again;
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    const auto identity = Identity::Load(folder.path());
    ASSERT_TRUE(identity.ok()) << identity.status() << golden::kMustRead;
    EXPECT_EQ((*identity)->spiffe_id(), "spiffe://test.capstan.dev/svc/scheduler");
    EXPECT_EQ((*identity)->Get()->svid.chain.size(), 1u);
    EXPECT_EQ((*identity)->Get()->svid.bundle.size(), 1u);
    const TemporaryFolder other;
    ASSERT_TRUE(Identity::Store(other.path(), (*identity)->Get()->svid).ok());
    again = golden::DumpFolder(other.path());
  }
  format.ExpectWritten(again);
}

}  // namespace
}  // namespace capstan::rpc
