#include "libs/kube/testing/revision_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/testing/json.h"
#include "libs/random/random.h"

namespace capstan::kube::testing {
namespace {

using Versions = std::vector<std::pair<StoreKey, std::string>>;

Versions VersionsOf(const std::map<StoreKey, ObjectRef>& objects, const std::string& ns,
                    const StoreKey* after) {
  Versions versions;
  for (const auto& [key, object] : objects) {
    if (key.resource != "apps/sets" || (!ns.empty() && key.ns != ns)) continue;
    if (after != nullptr && key <= *after) continue;
    versions.emplace_back(key, (*object)["metadata"]["resourceVersion"]);
  }
  return versions;
}

// Every page of every past state is as it was, whatever has changed since.
TEST(RevisionStoreTest, ShowsThePastFromAnyPlaceOn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    RevisionStore store(/*max_history=*/40);
    std::map<int64_t, std::map<StoreKey, ObjectRef>> states{{store.revision(), {}}};
    for (int step = 0; step < 80; ++step) {
      const StoreKey key{random.OneIn(4) ? "apps/other" : "apps/sets",
                         absl::StrCat("ns", random.Below(3)), absl::StrCat("n", random.Below(4))};
      if (random.OneIn(3)) {
        store.Remove(key);
      } else if (random.OneIn(10)) {
        store.Touch();
      } else {
        store.Put(key, Json{{"metadata", {{"name", key.name}}}});
      }
      states[store.revision()] = store.all();
    }
    ASSERT_GT(store.compacted(), 1);
    for (int64_t revision = store.compacted(); revision <= store.revision(); ++revision) {
      for (const std::string ns : {"", "ns0", "ns1"}) {
        const StoreKey place{"apps/sets", absl::StrCat("ns", random.Below(3)),
                             absl::StrCat("n", random.Below(4))};
        const StoreKey* const after = random.OneIn(2) ? &place : nullptr;
        const Versions whole = VersionsOf(states[revision], ns, after);
        const size_t most = random.Below(whole.size() + 1) + 1;
        Versions seen;
        store.VisitAt("apps/sets", ns, revision, after,
                      [&](const StoreKey& key, const ObjectRef& object) {
                        seen.emplace_back(key, (*object)["metadata"]["resourceVersion"]);
                        return seen.size() < most;
                      });
        ASSERT_EQ(seen, Versions(whole.begin(), whole.begin() + std::min(most, whole.size())))
            << "seed " << seed << ", revision " << revision;
        if (after == nullptr) {
          ASSERT_EQ(VersionsOf(store.ListAt("apps/sets", ns, revision), ns, nullptr), whole);
        }
      }
    }
  }
}

}  // namespace
}  // namespace capstan::kube::testing
