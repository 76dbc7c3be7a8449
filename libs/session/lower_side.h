// What the lower sides of the two control sessions (executor and agent) have in common.
#ifndef CAPSTAN_LIBS_SESSION_LOWER_SIDE_H_
#define CAPSTAN_LIBS_SESSION_LOWER_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message_lite.h"
#include "libs/time/clock.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::session {

// Bytes of repeated fields a session message may carry; a message stays below 1 MiB.
inline constexpr size_t kMaxChunkBytes = 900 * 1024;

// Saturating conversions; an invalid or negative Duration becomes zero.
absl::Duration FromProto(const google::protobuf::Duration& duration);
google::protobuf::Duration ToProto(absl::Duration duration);

// Bytes that compare equal when the messages do.
std::string SerializeDeterministic(const google::protobuf::MessageLite& message);

// How often to renew when the shortest fence_after below is `shortest_fence`: a sixth of it, within
// [50 ms, 3 s], so that several renewals may be lost before a Task ends itself, and a Node is heard
// several times within suspect_after.
absl::Duration RenewInterval(absl::Duration shortest_fence);

// Renewals of one session that are under way. Bounded: the oldest are given up.
class RenewalBook {
 public:
  // Makes the next Renewal, sent at `now`.
  capstan::type::v1::Renewal Send(BootTime now);
  // The confirmation that an answer stands for: when its Renewal was sent, less the age answered;
  // nullopt for an answer to nothing. Answers may come in any order, each counts once.
  absl::optional<BootTime> Answered(const capstan::type::v1::RenewalAnswer& answer);

 private:
  static constexpr size_t kMaxUnderWay = 64;
  int64_t next_sequence_ = 1;
  std::map<int64_t, BootTime> sent_;
};

// The breaker of DESIGN.md §4: true if ending `unnamed` of `live` Tasks for their absence alone
// must be refused, i.e. they are more than 10 and more than 20 %.
bool BreakerRefuses(size_t unnamed, size_t live);

// Builds the Observations of a report, cutting it into messages of bounded size. Entries must be
// added in order of their journal sequence.
class ReportBuilder {
 public:
  void Add(const capstan::type::v1::TaskObservation& task, int64_t sequence);
  void Add(const capstan::type::v1::NodeObservation& node, int64_t sequence);
  void AddGone(const capstan::type::v1::TaskKey& key, int64_t sequence);
  // The messages; at least one, with at least `sequence`, if `sync_complete`, which the last bears.
  std::vector<capstan::type::v1::SessionUp> Build(bool sync_complete, int64_t sequence);

 private:
  capstan::type::v1::Observations* Room(size_t bytes, int64_t sequence);

  std::vector<capstan::type::v1::SessionUp> messages_;
  size_t bytes_ = 0;
};

// Builds DesiredTasks of bounded size; of Tasks without a grant, with room for what the sender
// adds.
class DesiredBuilder {
 public:
  DesiredBuilder(capstan::type::v1::FencingToken token, int64_t revision, bool snapshot)
      : token_(std::move(token)), revision_(revision), snapshot_(snapshot) {}
  void Add(capstan::type::v1::DesiredTask task);
  void AddForgotten(const capstan::type::v1::TaskKey& key);
  // The messages; at least one for a snapshot. `sync_complete` is borne by the last of a snapshot.
  std::vector<capstan::type::v1::SessionDown> Build(bool sync_complete);

 private:
  capstan::type::v1::DesiredTasks* Room(size_t bytes);

  capstan::type::v1::FencingToken token_;
  int64_t revision_;
  bool snapshot_;
  std::vector<capstan::type::v1::SessionDown> messages_;
  size_t bytes_ = 0;
};

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_LOWER_SIDE_H_
