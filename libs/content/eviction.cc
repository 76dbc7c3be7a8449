#include "libs/content/eviction.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"

namespace capstan::content {
namespace {

// Named in an error; the rest is counted.
constexpr size_t kNamedJobs = 10;

}  // namespace

absl::StatusOr<std::vector<std::string>> MakeRoom(const SiteSpace& space,
                                                  const std::vector<HeldContent>& held,
                                                  int64_t needed_bytes, absl::string_view what) {
  std::vector<std::string> leaving;
  if (space.limit_bytes <= 0) return leaving;
  if (needed_bytes > space.limit_bytes) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "CONTENT_TOO_LARGE",
        absl::StrCat(what, " needs ", needed_bytes, " bytes; the limit of the Site is ",
                     space.limit_bytes, ": raise it, or bring less"),
        {{"needed_bytes", absl::StrCat(needed_bytes)},
         {"limit_bytes", absl::StrCat(space.limit_bytes)}});
  }
  int64_t free = space.limit_bytes - space.reserved_bytes;
  int64_t pinned = 0;
  std::set<std::string> jobs;
  std::vector<const HeldContent*> order;
  for (const HeldContent& content : held) {
    free -= content.bytes;
    if (content.jobs.empty()) {
      order.push_back(&content);
    } else {
      pinned += content.bytes;
      jobs.insert(content.jobs.begin(), content.jobs.end());
    }
  }
  std::sort(order.begin(), order.end(), [](const HeldContent* a, const HeldContent* b) {
    return std::tie(a->last_use, a->key) < std::tie(b->last_use, b->key);
  });
  const int64_t free_now = free;
  for (const HeldContent* content : order) {
    if (free >= needed_bytes) break;
    free += content->bytes;
    leaving.push_back(content->key);
  }
  if (free >= needed_bytes) return leaving;
  std::string named = absl::StrJoin(
      std::vector<std::string>(
          jobs.begin(),
          std::next(jobs.begin(), static_cast<std::ptrdiff_t>(std::min(jobs.size(), kNamedJobs)))),
      ", ");
  if (jobs.size() > kNamedJobs) {
    absl::StrAppend(&named, " and ", jobs.size() - kNamedJobs, " more");
  }
  return status::Error(
      absl::StatusCode::kResourceExhausted, "SITE_FULL",
      absl::StrCat(what, " needs ", needed_bytes, " bytes; of ", space.limit_bytes, " ",
                   std::max<int64_t>(0, free_now), " are free, ", free - free_now,
                   " can be freed, ", space.reserved_bytes, " are promised to other loads and ",
                   pinned, " are held by ", jobs.empty() ? "no Job" : absl::StrCat("Jobs ", named)),
      {{"needed_bytes", absl::StrCat(needed_bytes)},
       {"limit_bytes", absl::StrCat(space.limit_bytes)},
       {"free_bytes", absl::StrCat(std::max<int64_t>(0, free_now))},
       {"pinned_bytes", absl::StrCat(pinned)},
       {"jobs", named}});
}

}  // namespace capstan::content
