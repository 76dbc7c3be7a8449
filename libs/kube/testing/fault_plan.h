// What goes wrong between a client and a fake API server.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAULT_PLAN_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAULT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

// The request is not acted on, but answered with this.
struct Answer {
  ApiError error;
};
// The body is this text, which need be no Status: what a proxy says.
struct AnswerText {
  int code = 502;
  std::string text;
};
// The connection was not made: KUBE_NOT_SENT.
struct NotSent {};
// The connection breaks (KUBE_BROKEN) before the server acts, or after it has, before its head.
struct BrokenBefore {};
struct BrokenAfter {};
// The server acts and answers later.
struct Delayed {
  absl::Duration delay;
};
// The server does not act, and nothing comes.
struct Hang {};
// The connection breaks after so many bytes of the body.
struct Torn {
  size_t after_bytes = 0;
};
// The body comes in pieces of `bytes`, one an interval.
struct Slow {
  size_t bytes = 1;
  absl::Duration interval = absl::Seconds(1);
};
// Lists and gets show the state so many revisions ago.
struct Stale {
  int64_t revisions = 1;
};
// A watch ends with an ERROR event of code 410 once it has sent `after_events`; bookmarks count.
struct ExpireWatch {
  int64_t after_events = 0;
};
// A watch ends well once it has sent `after_events`.
struct CloseWatch {
  int64_t after_events = 0;
};
// The past is forgotten before the server acts: what was listed before can be watched no more.
struct CompactFirst {};

using FaultAction = std::variant<Answer, AnswerText, NotSent, BrokenBefore, BrokenAfter, Delayed,
                                 Hang, Torn, Slow, Stale, ExpireWatch, CloseWatch, CompactFirst>;

// All that is given must hold.
struct RequestMatcher {
  // "" for any.
  std::string method;
  // What the target's path contains.
  std::string path_contains;
  absl::optional<bool> watch;
  std::function<bool(const HttpRequest&)> also;

  bool Matches(const HttpRequest& request) const;
};

struct Fault {
  RequestMatcher matcher;
  FaultAction action;
  // Requests that match and are let through first.
  int64_t skip = 0;
  // Then so many meet the fault; negative: all.
  int64_t times = 1;
};

// The faults that are to come. Not thread-safe; FakeApiServer guards its own.
class FaultPlan {
 public:
  void Add(Fault fault) { faults_.push_back(std::move(fault)); }
  void Clear() { faults_.clear(); }
  // The actions that the request meets, in the order in which they were added. Those that agree
  // with each other (Delayed, Slow and Torn, say) all count.
  std::vector<FaultAction> Take(const HttpRequest& request);
  // Faults that are still to come, negative `times` among them.
  size_t pending() const { return faults_.size(); }

 private:
  std::list<Fault> faults_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAULT_PLAN_H_
