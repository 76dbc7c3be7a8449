#include "libs/process/shared_secret.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/sqlite_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::process {
namespace {

TEST(ShareSecretTest, WhoeverComesLaterGetsWhatTheFirstMade) {
  const TemporaryFolder folder;
  const SystemClock clock;
  std::string first;
  for (int restart = 0; restart < 2; ++restart) {
    ThreadStrand strand("test", &clock);
    auto store = store::SqliteStore::Open(folder.path() + "/store.sqlite", &strand);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto secret = ShareSecret(store->get(), &strand, "/capstan/test/secrets/a");
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(secret->size(), 32u);
    if (restart == 0) first = *secret;
    EXPECT_EQ(*secret, first);
    EXPECT_NE(*ShareSecret(store->get(), &strand, "/capstan/test/secrets/b"), first);
    strand.Stop();
  }
}

}  // namespace
}  // namespace capstan::process
