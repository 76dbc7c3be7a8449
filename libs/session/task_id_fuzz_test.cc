// Keys of Tasks, as peers send and stores keep them: one path for one Task, and those of a
// Job in the order of its generations.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/session/task_id.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::session::TaskId;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"a", "b", "a-", "a.b", "..", "", "a/b"};
  return words;
}

TaskId MakeId(FuzzInput* input) {
  TaskId id;
  id.job_uid = input->Word(Words());
  id.generation = input->Number();
  id.group = input->Word(Words());
  id.index = static_cast<int32_t>(input->Number());
  return id;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    const absl::string_view path = input.Rest();
    const auto id = TaskId::FromPath(path);
    if (id.ok()) Require(id->Path() == path);
    return 0;
  }
  const TaskId first = MakeId(&input);
  const TaskId second = MakeId(&input);
  Require(TaskId::Of(first.ToProto()) == first);
  for (const TaskId& id : {first, second}) {
    if (!capstan::session::CheckTaskKey(id.ToProto()).ok()) return 0;
    const std::string path = id.Path();
    for (const absl::string_view part : absl::StrSplit(path, '/')) {
      Require(!part.empty() && part != "." && part != "..");
    }
    const auto again = TaskId::FromPath(path);
    Require(again.ok() && *again == id);
  }
  Require((first == second) == (first.Path() == second.Path()));
  // By these the store's order is the order of generations.
  if (first.job_uid == second.job_uid && first.generation != second.generation) {
    Require((first < second) == (first.Path() < second.Path()));
  }
  return 0;
}
