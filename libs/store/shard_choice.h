#ifndef CAPSTAN_LIBS_STORE_SHARD_CHOICE_H_
#define CAPSTAN_LIBS_STORE_SHARD_CHOICE_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::store {

// Which member each of `count` shards belongs to; the names are empty if there is no member. The
// same for everyone who knows the same members; no member has two shards more than another; a
// member that comes or goes moves few shards beside its own (rendezvous hashing with bounded load).
std::vector<std::string> AssignShards(const std::set<std::string>& members, int count);

// The shard of something by its name: the same in every process and version. 0 <= it < `count`.
int ShardOf(absl::string_view name, int count);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SHARD_CHOICE_H_
