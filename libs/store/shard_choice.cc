#include "libs/store/shard_choice.h"

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::store {
namespace {

uint64_t Weight(absl::string_view text) {
  const std::string digest = Sha256::Of(text);
  uint64_t weight = 0;
  for (int i = 0; i < 8; ++i) weight = weight << 8 | static_cast<uint8_t>(digest[i]);
  return weight;
}

}  // namespace

std::vector<std::string> AssignShards(const std::set<std::string>& members, int count) {
  std::vector<std::string> owners(count);
  if (members.empty()) return owners;
  const int n = static_cast<int>(members.size());
  // The first `count % n` members that are full may hold one more than the rest.
  const int least = count / n;
  int larger = count % n;
  std::map<std::string, int> held;
  for (int shard = 0; shard < count; ++shard) {
    const std::string* best = nullptr;
    uint64_t best_weight = 0;
    for (const std::string& member : members) {
      const int has = held[member];
      if (has > least || (has == least && larger == 0)) continue;
      const uint64_t weight = Weight(absl::StrCat(member, "/", shard));
      if (best == nullptr || weight > best_weight) {
        best = &member;
        best_weight = weight;
      }
    }
    if (held[*best]++ == least) --larger;
    owners[shard] = *best;
  }
  return owners;
}

int ShardOf(absl::string_view name, int count) {
  return static_cast<int>(Weight(name) % static_cast<uint64_t>(count));
}

}  // namespace capstan::store
