#include "services/data_loader/core/peer_directory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::data_loader {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kTotal = 64 * kMiB;

class PeerDirectoryTest : public ::testing::Test {
 protected:
  static std::string AddressOf(const std::string& node) { return node + ":7107"; }

  void Whole(const std::string& node, int uploads = 0, int max_uploads = 4) {
    directory_.Announce(
        {node, AddressOf(node), uploads, max_uploads, {{"d", kTotal, kTotal, true}}}, now_);
  }
  // Nodes it is sent to, in order, as `a b`.
  std::string Find(const std::string& node, int64_t have = 0, std::set<std::string> avoid = {}) {
    const std::vector<ChosenPeer> chosen = directory_.Find(
        {node, AddressOf(node), {"d", have, kTotal, false}, std::move(avoid)}, now_);
    return absl::StrJoin(chosen, " ", [](std::string* out, const ChosenPeer& peer) {
      EXPECT_EQ(peer.address, AddressOf(peer.node));
      out->append(peer.node);
    });
  }

  PeerDirectory directory_;
  BootTime now_ = BootTime() + absl::Hours(1);
};

TEST_F(PeerDirectoryTest, TheFirstReadsTheSiteAndTheOthersOneAnother) {
  EXPECT_EQ(Find("c/a"), "");
  EXPECT_EQ(Find("c/b"), "c/a");
  EXPECT_EQ(Find("c/c"), "c/b") << "who is sent to already is loaded";
  EXPECT_EQ(Find("c/a", kMiB), "") << "the first is sent to nobody behind it";
  EXPECT_EQ(Find("c/b", kMiB), "c/a");
}

TEST_F(PeerDirectoryTest, WholeCopiesAreAskedLeastLoadedFirst) {
  Whole("c/a", 3);
  Whole("c/b", 1);
  Whole("c/c", 2);
  EXPECT_EQ(Find("c/r"), "c/b c/c c/a");
  Whole("c/b", 4);
  EXPECT_EQ(Find("c/r"), "c/c c/a") << "one that serves all it may is not asked";
  Whole("c/c", 4);
  Whole("c/a", 4);
  EXPECT_EQ(Find("c/r"), "") << "then the Site is";
}

TEST_F(PeerDirectoryTest, WhoIsAvoidedOrWrongOrOfAnotherClusterIsNotNamed) {
  Whole("c/a");
  Whole("c/b");
  Whole("other/x");
  directory_.Announce({"c/mute", "", 0, 4, {{"d", kTotal, kTotal, true}}}, now_);
  EXPECT_EQ(Find("c/r", 0, {"c/a"}), "c/b");
  EXPECT_TRUE(directory_.ReportWrong("d", "c/b", now_));
  EXPECT_FALSE(directory_.ReportWrong("d", "c/b", now_)) << "that is known";
  EXPECT_FALSE(directory_.ReportWrong("d", "c/stranger", now_));
  EXPECT_EQ(Find("c/r"), "c/a");
  EXPECT_EQ(Find("c/s"), "c/a c/r") << "for everybody";
  // What it says changes nothing, for as long as it is remembered.
  for (int hour = 0; hour < 23; ++hour) {
    now_ = now_ + absl::Hours(1);
    Whole("c/b");
    Whole("c/a");
    ASSERT_EQ(Find("c/t"), "c/a");
  }
  now_ = now_ + absl::Hours(2);
  Whole("c/b");
  EXPECT_EQ(Find("c/t"), "c/b");
}

TEST_F(PeerDirectoryTest, WhoHasMoreJoinsBeforeThoseThatHaveLess) {
  EXPECT_EQ(Find("c/a", 10 * kMiB), "");
  EXPECT_EQ(Find("c/b", 50 * kMiB), "") << "it goes on where it was before its agent restarted";
  EXPECT_EQ(Find("c/a", 11 * kMiB), "c/b");
}

TEST_F(PeerDirectoryTest, WhoFellSilentIsForgotten) {
  EXPECT_EQ(Find("c/a"), "");
  EXPECT_EQ(Find("c/b"), "c/a");
  now_ = now_ + absl::Seconds(11);
  EXPECT_EQ(Find("c/b"), "") << "nothing was heard of the first for too long";
  Whole("c/w");
  now_ = now_ + absl::Minutes(2);
  EXPECT_EQ(Find("c/b"), "c/w");
  EXPECT_TRUE(directory_.Has("c/w", "d", now_));
  now_ = now_ + absl::Minutes(1);
  EXPECT_EQ(Find("c/b"), "");
  EXPECT_FALSE(directory_.Has("c/w", "d", now_));
  EXPECT_FALSE(directory_.Has("c/w", "other", now_));
}

TEST_F(PeerDirectoryTest, AnnouncementsTakeThePlaceOfWhatWasWhole) {
  Whole("c/a");
  EXPECT_EQ(Find("c/b"), "c/a");
  directory_.Announce({"c/a", AddressOf("c/a"), 0, 4, {}}, now_);
  EXPECT_EQ(Find("c/b"), "") << "it has left that cache";
  // What is on its way was asked for after this was said.
  directory_.Announce({"c/b", AddressOf("c/b"), 0, 4, {}}, now_);
  EXPECT_EQ(Find("c/c"), "c/b");
  // Whole now, it leaves the line.
  Whole("c/b");
  EXPECT_EQ(Find("c/c"), "c/b");
  const auto copies = directory_.Copies("d", now_);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_TRUE(copies[0].copy.whole);
  EXPECT_EQ(copies[1].source, "c/b");
}

TEST_F(PeerDirectoryTest, ManyReadersAreSpreadEvenlyOverTheHolders) {
  for (int holders = 1; holders <= 5; ++holders) {
    directory_ = PeerDirectory();
    for (int i = 0; i < holders; ++i) Whole(absl::StrCat("c/h", i), 0, 100);
    std::map<std::string, int> first;
    for (int i = 0; i < 40; ++i) {
      const std::string name = absl::StrCat("c/r", i);
      const auto chosen = directory_.Find({name, "", {"d", 0, kTotal, false}, {}}, now_);
      ASSERT_FALSE(chosen.empty());
      ++first[chosen.front().node];
    }
    ASSERT_EQ(static_cast<int>(first.size()), holders);
    for (const auto& [node, count] : first) EXPECT_LE(std::abs(count - 40 / holders), 1) << node;
  }
}

// Whatever Nodes say and ask in whatever order: nobody is sent to itself, to another Cluster, to
// who is avoided or wrong, or to more than the bound; and of those who grow nobody waits for one
// who waits for it.
TEST_F(PeerDirectoryTest, NobodyEverWaitsForItself) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    directory_ = PeerDirectory();
    std::map<std::string, int64_t> have;
    std::set<std::string> wrong;
    for (int step = 0; step < 120; ++step) {
      now_ = now_ + absl::Milliseconds(random.Between(int64_t{0}, int64_t{1500}));
      const std::string node =
          absl::StrCat(random.Between(int64_t{0}, int64_t{4}) == 0 ? "x/" : "c/", "n",
                       random.Between(int64_t{0}, int64_t{7}));
      int64_t& bytes = have[node];
      bytes = std::min(kTotal, bytes + random.Between(int64_t{0}, 8 * kMiB));
      switch (random.Between(int64_t{0}, int64_t{9})) {
        case 0:
          directory_.Announce({node, AddressOf(node), 0, 3, {}}, now_);
          break;
        case 1:
          directory_.Announce({node,
                               AddressOf(node),
                               static_cast<int>(random.Between(int64_t{0}, int64_t{3})),
                               3,
                               {{"d", bytes, kTotal, bytes == kTotal}}},
                              now_);
          break;
        case 2:
          if (directory_.ReportWrong("d", node, now_)) wrong.insert(node);
          break;
        default: {
          std::set<std::string> avoid;
          if (random.Between(int64_t{0}, int64_t{3}) == 0) {
            avoid.insert(absl::StrCat("c/n", random.Between(int64_t{0}, int64_t{7})));
          }
          const auto chosen =
              directory_.Find({node, AddressOf(node), {"d", bytes, kTotal, false}, avoid}, now_);
          ASSERT_LE(chosen.size(), PeerDirectoryConfig().max_peers);
          std::set<std::string> named;
          for (const ChosenPeer& peer : chosen) {
            ASSERT_NE(peer.node, node);
            ASSERT_EQ(peer.node[0], node[0]);
            ASSERT_EQ(avoid.count(peer.node), 0u);
            ASSERT_EQ(wrong.count(peer.node), 0u);
            ASSERT_TRUE(directory_.Has(peer.node, "d", now_));
            ASSERT_TRUE(named.insert(peer.node).second);
          }
        }
      }
      std::map<std::string, std::string> source;
      for (const auto& known : directory_.Copies("d", now_)) {
        if (!known.copy.whole && !known.source.empty()) source[known.node] = known.source;
      }
      for (const auto& [start, unused] : source) {
        std::string at = start;
        for (size_t hops = 0; source.count(at) != 0; ++hops) {
          at = source[at];
          ASSERT_LE(hops, source.size()) << "seed " << seed << ", from " << start;
        }
      }
    }
  }
}

}  // namespace
}  // namespace capstan::data_loader
