#include "tools/capstan/cli/audit_chain.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/digest/sha256.h"

namespace capstan::cli {
namespace {

std::vector<std::string> Chain(int length) {
  std::vector<std::string> stored;
  std::string previous(32, '\0');
  for (int i = 1; i <= length; ++i) {
    event::v1::AuditRecord record;
    record.set_sequence(i);
    record.set_previous_hash(previous);
    record.set_act("act");
    stored.push_back(record.SerializeAsString());
    previous = Sha256::Of(stored.back());
  }
  return stored;
}

// Index of the first record that is refused, or -1.
int FirstRefused(const std::vector<std::string>& stored) {
  AuditChain chain;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!chain.Append(stored[i]).ok()) return static_cast<int>(i);
  }
  return -1;
}

TEST(AuditChainTest, AWholeChainIsAccepted) {
  const auto stored = Chain(5);
  AuditChain chain;
  for (const std::string& record : stored) ASSERT_TRUE(chain.Append(record).ok());
  EXPECT_EQ(chain.sequence(), 5);
  EXPECT_EQ(chain.hash(), Sha256::Of(stored.back()));
}

TEST(AuditChainTest, EveryChangeShows) {
  auto changed = Chain(5);
  event::v1::AuditRecord record;
  record.ParseFromString(changed[2]);
  record.set_act("another");
  changed[2] = record.SerializeAsString();
  EXPECT_EQ(FirstRefused(changed), 3);

  auto removed = Chain(5);
  removed.erase(removed.begin() + 1);
  EXPECT_EQ(FirstRefused(removed), 1);

  auto swapped = Chain(5);
  std::swap(swapped[1], swapped[2]);
  EXPECT_EQ(FirstRefused(swapped), 1);

  auto doubled = Chain(5);
  doubled.insert(doubled.begin(), doubled[0]);
  EXPECT_EQ(FirstRefused(doubled), 1);

  EXPECT_EQ(FirstRefused({"\xff"}), 0);
}

TEST(AuditChainTest, WhatWasSignedMustBeThere) {
  const auto stored = Chain(5);
  AuditChain chain;
  chain.Expect(3, Sha256::Of(stored[2]), "the head");
  chain.Expect(3, Sha256::Of(stored[2]), "the signed head");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(chain.Append(stored[i]).ok());
  EXPECT_EQ(chain.End().message(),
            "the chain ends at record 2, but the signed head is of record 3");
  ASSERT_TRUE(chain.Append(stored[2]).ok());
  EXPECT_TRUE(chain.End().ok());

  AuditChain another;
  another.Expect(2, Sha256::Of(stored[1]), "the head");
  another.Expect(2, std::string(32, 'x'), "the signed head");
  ASSERT_TRUE(another.Append(stored[0]).ok());
  EXPECT_EQ(another.Append(stored[1]).status().message(),
            "record 2 does not hash to what the signed head says");
}

}  // namespace
}  // namespace capstan::cli
