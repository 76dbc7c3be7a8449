// The identity of a Task as an ordered value, and as part of a store key.
#ifndef CAPSTAN_LIBS_SESSION_TASK_ID_H_
#define CAPSTAN_LIBS_SESSION_TASK_ID_H_

#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::session {

// A TaskKey that can be compared and used in ordered containers.
struct TaskId {
  std::string job_uid;
  int64_t generation = 0;
  std::string group;
  int32_t index = 0;

  static TaskId Of(const capstan::type::v1::TaskKey& key);
  capstan::type::v1::TaskKey ToProto() const;

  // `<job uid>/<generation, 20 digits>/<group>/<index, 10 digits>`: all Tasks of a Job, of a
  // generation and of a group are next to each other. Groups sort as values do unless one's name
  // begins another's: `a-` and `a.` come before `a/`.
  std::string Path() const;
  static absl::StatusOr<TaskId> FromPath(absl::string_view path);

  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

// OK if every part is one that a path, a folder and a SPIFFE id may carry: job uid and group of
// [a-zA-Z0-9_.-], at most 64 characters, not `.` or `..`; generation from 1, index from 0.
absl::Status CheckTaskKey(const capstan::type::v1::TaskKey& key);

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_TASK_ID_H_
