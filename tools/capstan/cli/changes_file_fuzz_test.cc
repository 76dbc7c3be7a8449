// Files of alternatives as people and their scripts write them, and what a server says is wrong with
// them: what is accepted names its Project and each alternative and can be sent; whatever field a
// server names is told in terms of the files. After a NUL comes such a field.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/random/random.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "tools/capstan/cli/changes_file.h"
#include "tools/capstan/cli/submit_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(input, absl::MaxSplits('\0', 1));
  // A file that lies nowhere is of no Project but the one that is asked for.
  const auto changes = capstan::cli::ParseChangesFile(
      parts.first, "plans/changes.yaml", "p",
      [](const std::string& file, const std::string& project) {
        Require(!file.empty());
        capstan::Random random(1);
        return capstan::cli::ParseSubmitFile("spec: {queue: q}", file, project, &random);
      });
  if (!changes.ok()) return 0;
  const auto& request = changes->request;
  Require(absl::StartsWith(request.parent(), "projects/") &&
          capstan::resource::IsValidId(request.parent().substr(9)));
  Require(static_cast<size_t>(request.alternatives_size()) == changes->alternatives.size());
  std::set<std::string> names;
  for (int i = 0; i < request.alternatives_size(); ++i) {
    const auto& alternative = changes->alternatives[i];
    Require(capstan::resource::IsValidId(alternative.name));
    Require(names.insert(alternative.name).second);
    Require(alternative.jobs.size() == static_cast<size_t>(request.alternatives(i).jobs_size()));
    Require(alternative.node_changes.size() ==
            static_cast<size_t>(request.alternatives(i).node_changes_size()));
  }
  capstan::scheduler::v1::SimulateChangesRequest sent;
  Require(sent.ParseFromString(request.SerializeAsString()));

  capstan::status::FieldErrors errors;
  errors.Add(parts.second, "is wrong");
  errors.Add("alternatives[0].node_changes[0].add.count", "is wrong");
  errors.Add("alternatives[0].jobs[0].queue", "is wrong");
  const absl::Status located = capstan::cli::LocateChanges(errors.ToStatus(), *changes);
  Require(absl::IsInvalidArgument(located) && absl::StrContains(located.message(), "is wrong"));
  return 0;
}
