#include "libs/session/task_id.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"

namespace capstan::session {
namespace {

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

TaskId TaskId::Of(const capstan::type::v1::TaskKey& key) {
  return TaskId{key.job_uid(), key.generation(), key.group(), key.index()};
}

capstan::type::v1::TaskKey TaskId::ToProto() const {
  capstan::type::v1::TaskKey key;
  key.set_job_uid(job_uid);
  key.set_generation(generation);
  key.set_group(group);
  key.set_index(index);
  return key;
}

std::string TaskId::Path() const {
  return absl::StrFormat("%s/%020d/%s/%010d", job_uid, generation, group, index);
}

absl::StatusOr<TaskId> TaskId::FromPath(absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  TaskId id;
  bool parsed = parts.size() == 4 && absl::SimpleAtoi(parts[1], &id.generation) &&
                absl::SimpleAtoi(parts[3], &id.index);
  if (parsed) {
    id.job_uid = parts[0];
    id.group = parts[2];
    // ` 1` and `+1` are numbers too, but then two records would be of one Task.
    parsed = id.Path() == path;
  }
  if (!parsed) return absl::DataLossError(absl::StrCat("not the path of a Task: ", path));
  return id;
}

absl::Status CheckTaskKey(const capstan::type::v1::TaskKey& key) {
  status::FieldErrors errors;
  if (!IsName(key.job_uid())) errors.Add("key.job_uid", "expected 1 to 64 of [a-zA-Z0-9_.-]");
  if (!IsName(key.group())) errors.Add("key.group", "expected 1 to 64 of [a-zA-Z0-9_.-]");
  if (key.generation() < 1) errors.Add("key.generation", "expected a number from 1");
  if (key.index() < 0) errors.Add("key.index", "expected a number from 0");
  return errors.ToStatus();
}

}  // namespace capstan::session
