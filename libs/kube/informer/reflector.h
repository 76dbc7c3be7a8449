// Listing and watching one resource, as decisions.
#ifndef CAPSTAN_LIBS_KUBE_INFORMER_REFLECTOR_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_REFLECTOR_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Why a request failed, or a watch ended.
enum class RequestEnd {
  // A watch that the server ended in good order.
  kClean,
  // 410, in the answer or in an ERROR event.
  kExpired,
  // 400 or 422: the server does not know what was asked for.
  kInvalid,
  // Everything that may pass: 429, 5xx, a torn or damaged stream, 401, 403, 404.
  kFailed,
};

struct ListPageRequest {
  uint64_t attempt = 0;
  // 0: all at once.
  int64_t limit = 0;
  // Empty for the first page, which asks for the newest state (no resourceVersion).
  std::string continue_token;
};
// Always with allowWatchBookmarks.
struct WatchRequest {
  uint64_t attempt = 0;
  std::string resource_version;
  // With sendInitialEvents=true and resourceVersionMatch=NotOlderThan; begins with nothing staged.
  bool initial_events = false;
  // timeoutSeconds.
  absl::Duration timeout;
};
struct SleepUntil {
  uint64_t attempt = 0;
  BootTime when;
};
// Ends the request in hand; nothing of it counts any more.
struct CancelRequest {
  uint64_t attempt = 0;
};
// What becomes of the objects that came with the event. Staged ones lie apart from the cache.
enum class Objects {
  kIgnore,
  // Begins with nothing staged, then stages the page's objects.
  kStageFirst,
  kStage,
  // Applies the event to what is staged.
  kStageEvent,
  // Applies the event to the cache.
  kApply,
  // Stages the objects of the event, if any, then replaces the cache by what is staged.
  kCommit,
  // As kCommit, for a list of one page.
  kCommitFirst,
};

struct ReflectorStep {
  Objects objects = Objects::kIgnore;
  std::vector<std::variant<ListPageRequest, WatchRequest, SleepUntil, CancelRequest>> effects;
};

struct ReflectorOptions {
  // 0: lists come whole.
  int64_t page_limit = 500;
  // Where the server can: one stream instead of list and watch.
  bool watch_list = true;
  absl::Duration initial_backoff = absl::Milliseconds(500);
  absl::Duration max_backoff = absl::Seconds(30);
  // A watch that lived for so long ends the back-off.
  absl::Duration healthy_after = absl::Seconds(10);
  // The server ends watches after this to twice this.
  absl::Duration min_watch_timeout = absl::Minutes(5);
  // Until a stream that the server should have ended, or a watch list without an event, hangs.
  absl::Duration grace = absl::Seconds(60);
};

// Follows one resource: a consistent list, in pages or as a watch list, then watches from where it
// stood, each from the last resource version that an event or bookmark told; from 410 on a new
// list.
//
//   - Lists ask for the newest state: never older than what was there before, whichever replica
//     answers. A page whose token expired is answered by one list without pages, which cannot.
//   - A watch list that the server refuses as invalid, or falls silent in, is not tried again.
//   - Resource versions are opaque.
//   - 404 and 403 empty nothing: they are retried, and what is known stays.
//   - Each request has a number; what comes of another than the last is ignored.
//
// Pure; `random` (for jitter) must outlive it and belong to the same thread.
class Reflector {
 public:
  Reflector(ReflectorOptions options, Random* random) : options_(options), random_(random) {}

  ReflectorStep Start(BootTime now);
  // `continue_token` is empty for the last page.
  ReflectorStep OnPage(uint64_t attempt, absl::string_view resource_version,
                       absl::string_view continue_token, BootTime now);
  // ADDED, MODIFIED, DELETED.
  ReflectorStep OnEvent(uint64_t attempt, absl::string_view resource_version, BootTime now);
  ReflectorStep OnBookmark(uint64_t attempt, absl::string_view resource_version,
                           bool initial_events_end, BootTime now);
  // A list failed, or a watch failed or ended. `retry_after` as the server said.
  ReflectorStep OnEnd(uint64_t attempt, RequestEnd end, absl::optional<absl::Duration> retry_after,
                      BootTime now);
  ReflectorStep OnTimer(uint64_t attempt, BootTime now);
  ReflectorStep Stop();

  // A whole state was committed.
  bool synced() const { return synced_; }
  absl::string_view resource_version() const { return resource_version_; }
  bool watch_list_supported() const { return options_.watch_list && !watch_list_refused_; }

 private:
  enum class Phase { kStopped, kListing, kWatchListing, kWatching, kWaiting };

  void Relist(bool whole, BootTime now, ReflectorStep* step);
  void Watch(bool initial_events, BootTime now, ReflectorStep* step);
  // Goes on as the state asks, after the back-off.
  void Retry(absl::optional<absl::Duration> retry_after, BootTime now, ReflectorStep* step);
  void GoOn(BootTime now, ReflectorStep* step);

  const ReflectorOptions options_;
  Random* const random_;
  Phase phase_ = Phase::kStopped;
  uint64_t attempt_ = 0;
  // Where the next watch begins; empty: list first.
  std::string resource_version_;
  bool synced_ = false;
  bool first_page_ = true;
  bool whole_list_ = false;
  bool watch_list_refused_ = false;
  int failures_ = 0;
  BootTime begun_;
  BootTime last_event_;
  // By when the server should have ended the watch.
  BootTime deadline_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_REFLECTOR_H_
