#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/store/conformance.h"
#include "libs/store/conformance_concurrency.h"
#include "libs/store/conformance_watch.h"
#include "libs/store/sqlite_store.h"

namespace capstan::store {
namespace {

class SqliteDisk final : public StoreDisk {
 public:
  SqliteDisk() {
    static int made = 0;
    path_ = absl::StrCat(testing::TempDir(), "/conformance-", made++, ".db");
  }
  std::unique_ptr<Store> Open(PumpedStrand* strand) override {
    auto store = SqliteStore::Open(path_, strand);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

 private:
  std::string path_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformanceTest,
                         testing::Values([] { return std::make_unique<SqliteDisk>(); }));

}  // namespace
}  // namespace capstan::store
