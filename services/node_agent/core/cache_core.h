#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_CACHE_CORE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_CACHE_CORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/node_agent/core/cache_records.pb.h"

namespace capstan::node_agent {

// What is in a Node's data cache, who holds it, and what leaves when room is needed. Pure; keys are
// as in CacheRecord. Content that is whole and recorded as held never leaves.
class CacheCore {
 public:
  // `limit_bytes` bounds what is there with what is being brought; 0 means no bound.
  explicit CacheCore(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // At start, once: what was recorded, against what the folder holds (bytes by key), whole and
  // staged. Whole content that no record names is taken over, held by nobody. Returns staged keys
  // that are of no use any more.
  absl::StatusOr<std::vector<std::string>> Load(const CacheRecord& record,
                                                const std::map<std::string, int64_t>& whole,
                                                const std::set<std::string>& staged);

  // What to do so that a holder has some content.
  struct Plan {
    enum class Next {
      // It is there.
      kUse,
      // It is on its way.
      kWait,
      // Bring it: Came or Failed must follow.
      kFetch,
    };
    Next next = Next::kUse;
    // To be removed before anything is fetched, whole content and staged.
    std::vector<std::string> leaving;
    // The record has changed, and must be stored before the plan is carried out.
    bool changed = false;
  };
  // Holds the content, or fails with SITE_FULL or CONTENT_TOO_LARGE (see content::MakeRoom),
  // nothing being changed. `what` names it for people.
  absl::StatusOr<Plan> Want(const std::string& key, int64_t bytes, const std::string& holder,
                            const std::string& what, absl::Time now);
  // The content is whole.
  void Came(const std::string& key);
  // It did not come; what is staged stays for the next attempt, as long as nothing needs the room.
  void Failed(const std::string& key);
  // True if the record has changed.
  bool Release(const std::string& holder, absl::Time now);

  CacheRecord Record() const;
  int64_t bytes() const;

 private:
  enum class State { kStaged, kFetching, kWhole };
  struct Entry {
    int64_t bytes = 0;
    State state = State::kStaged;
    absl::Time last_use = absl::InfinitePast();
    std::set<std::string> holders;
  };

  const int64_t limit_bytes_;
  std::map<std::string, Entry> entries_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_CACHE_CORE_H_
