// Which Events are written, and when: state, an event and the time in, calls out.
#ifndef CAPSTAN_LIBS_KUBE_EVENTS_EVENT_CORE_H_
#define CAPSTAN_LIBS_KUBE_EVENTS_EVENT_CORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube {

enum class EventType { kNormal, kWarning };

// Something that happened to an object, told to people (`kubectl describe`). Servers forget it after
// an hour: no program may depend on it.
struct EventRecord {
  // In its namespace, or in `default`, is the Event.
  core_v1::ObjectReference regarding;
  // Another object that had to do with it.
  absl::optional<core_v1::ObjectReference> related{};
  EventType type = EventType::kNormal;
  // Why, in UpperCamelCase, for programs: `FailedMount`. At most 128 bytes, as the next.
  std::string reason;
  // What was done or tried: `Mounting`.
  std::string action;
  // For people. What is over 1024 bytes is cut off.
  std::string note;
};

struct EventOptions {
  // Who reports: `example.org/parts`, and which one of them.
  std::string reporting_controller;
  std::string reporting_instance;
  // Series that are remembered, and with that what waits.
  size_t max_series = 1000;
  // Between two writes of one series.
  absl::Duration series_interval = absl::Minutes(1);
  // What happens anew after so long is no more of the same series.
  absl::Duration series_end = absl::Minutes(6);
  // After a failure that may pass: so often, and with up to a quarter more between.
  int max_tries = 12;
  absl::Duration retry_interval = absl::Seconds(10);
  size_t max_calls = 4;
};

// What happened, each counted as it comes and once more when it is over.
struct EventStats {
  int64_t recorded = 0;
  // There was no room.
  int64_t dropped = 0;
  // The server has them, as an Event or in the count of one.
  int64_t written = 0;
  // Given up: refused, or tried too often.
  int64_t failed = 0;

  friend bool operator==(const EventStats&, const EventStats&) = default;
};

struct EventCall {
  uint64_t series = 0;
  // Else `event` is created.
  bool is_patch = false;
  events_v1::Event event;
  // Of `event`'s name: an RFC 7386 patch that writes the same however often it is sent.
  std::string patch;
};

// Aggregates as client-go's events broadcaster: what has the same type, reason, action, regarding and
// related objects is one series. The first makes an Event; later ones count in its `series`, which is
// written at most once an interval, the last count included, and the note stays that of the first.
// The version of an object makes no difference.
//
// Pure; `random` must outlive it and belong to the same thread or lock.
class EventCore {
 public:
  EventCore(EventOptions options, Random* random) : options_(std::move(options)), random_(random) {}

  // False: dropped.
  bool Add(const EventRecord& record, Now now);
  void Drop() {
    ++stats_.recorded;
    ++stats_.dropped;
  }
  // What is to be called now; each is answered once.
  std::vector<EventCall> TakeDue(BootTime now);
  // An error that is an answer of the server's, or the transport's.
  void OnAnswer(uint64_t series, const absl::Status& status, BootTime now);
  // From now on nothing waits for its interval, and nothing is tried twice.
  void Flush();
  // Gives up all that is not written.
  void Abandon();

  // When TakeDue has more without another event; InfiniteFuture: never.
  BootTime NextWake() const;
  // Nothing is to be written or under way.
  bool idle() const { return due_.empty() && calls_ == 0; }
  size_t series() const { return series_.size(); }
  const EventStats& stats() const { return stats_; }

 private:
  struct Series {
    std::string key;
    events_v1::Event event;
    int32_t count = 0;
    absl::Time last_wall;
    BootTime last;
    // Of `count`, those that are written or given up, and those that the call under way writes.
    int32_t settled = 0;
    absl::optional<int32_t> writing;
    // The Event is there.
    bool is_created = false;
    int tries = 0;
    BootTime next_write = BootTime::InfinitePast();
  };
  using SeriesMap = std::map<uint64_t, Series>;

  events_v1::Event MakeEvent(const EventRecord& record, Now now);
  std::string NameOf(const EventRecord& record, absl::Time now);
  void Forget(SeriesMap::iterator series);
  bool MakeRoom();
  // It waits for its next write, or rests.
  void Settle(uint64_t id, Series* series);
  void GiveUp(Series* series, int32_t until);
  EventCall CallOf(uint64_t id, Series* series) const;

  const EventOptions options_;
  Random* const random_;
  SeriesMap series_;
  absl::flat_hash_map<std::string, uint64_t> by_key_;
  // Those that have something to write and no call, by when; those that have nothing, by their last.
  std::set<std::pair<BootTime, uint64_t>> due_;
  std::set<std::pair<BootTime, uint64_t>> resting_;
  size_t calls_ = 0;
  uint64_t last_series_ = 0;
  // Of names.
  int64_t last_stamp_ = 0;
  bool flushing_ = false;
  EventStats stats_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EVENTS_EVENT_CORE_H_
