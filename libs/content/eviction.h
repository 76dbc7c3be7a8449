#ifndef CAPSTAN_LIBS_CONTENT_EVICTION_H_
#define CAPSTAN_LIBS_CONTENT_EVICTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan::content {

// One thing that takes room at a Site.
struct HeldContent {
  // Names it among the others.
  std::string key;
  int64_t bytes = 0;
  absl::Time last_use = absl::InfinitePast();
  // Uids of the Jobs that hold it; it can't leave while there is one.
  std::vector<std::string> jobs;
};

// The room at a Site.
struct SiteSpace {
  // 0 or less: no bound of its own.
  int64_t limit_bytes = 0;
  // Promised to what is being brought.
  int64_t reserved_bytes = 0;
};

// What must leave so that `needed_bytes` more fit: the least recently used of what no Job holds,
// ties by key, and no more than that takes. Pure. Errors, with nothing to be removed:
//   FAILED_PRECONDITION  CONTENT_TOO_LARGE: it would not fit into the empty Site;
//   RESOURCE_EXHAUSTED   SITE_FULL: it does not fit now; the message and the metadata say how much
//                        is needed, free and held, and by which Jobs.
// `what` names what is to be brought, for the message.
absl::StatusOr<std::vector<std::string>> MakeRoom(const SiteSpace& space,
                                                  const std::vector<HeldContent>& held,
                                                  int64_t needed_bytes, absl::string_view what);

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_EVICTION_H_
