// One watch: what of the store's changes its client is to see.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_WATCH_CURSOR_H_
#define CAPSTAN_LIBS_KUBE_TESTING_WATCH_CURSOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/object_converter.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/selector.h"

namespace capstan::kube::testing {

struct WatchPlan {
  const FakeType* type = nullptr;
  // "" for all.
  std::string ns;
  LabelSelector labels;
  FieldSelector fields;
  // Absent: begins with the present objects as ADDED.
  absl::optional<int64_t> after_revision;
  // Tells the end of these by a bookmark.
  bool initial_events_end = false;
  bool bookmarks = false;
  absl::Duration timeout = absl::InfiniteDuration();
  Encoding encoding = Encoding::kJson;
};

// Gives the events as frames of the stream. It holds no events, only how far it has come, so a slow
// client costs nothing; one that falls behind what the store remembers is ended. For one thread.
class WatchCursor {
 public:
  // `state` and `converter` (which may be null) must outlive it.
  WatchCursor(WatchPlan plan, const FakeApiState* state, const ObjectConverter* converter)
      : plan_(std::move(plan)), state_(state), converter_(converter) {}

  // What has happened since the call before. Nothing follows once ended() is true.
  std::vector<std::string> Poll();
  // If the plan wants bookmarks; else empty.
  std::string Bookmark();
  // An ERROR event, after which the watch has ended.
  std::string Error(const ApiError& error);

  // In good order.
  void Close() { ended_ = true; }

  bool ended() const { return ended_; }
  const WatchPlan& plan() const { return plan_; }

 private:
  std::string Frame(absl::string_view type, const Json& object) const;
  bool Selects(const ObjectRef& object) const;

  const WatchPlan plan_;
  const FakeApiState* const state_;
  const ObjectConverter* const converter_;
  bool begun_ = false;
  bool ended_ = false;
  int64_t seen_ = 0;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_WATCH_CURSOR_H_
