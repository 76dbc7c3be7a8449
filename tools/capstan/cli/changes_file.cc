#include "tools/capstan/cli/changes_file.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/config/locate.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/cli/v1/changes_file.pb.h"
#include "tools/capstan/cli/names.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulateChangesRequest;
using scheduler::v1::SimulatePlacementRequest;

absl::Status Violation(const Changes& changes, const std::string& path, absl::string_view text) {
  status::FieldErrors errors;
  errors.Add(path, text);
  return config::Locate(errors.ToStatus(), changes.places, changes.file);
}

std::string BesideFile(const std::string& file, const std::string& path) {
  if (absl::StartsWith(path, "/")) return path;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? path : absl::StrCat(file.substr(0, slash + 1), path);
}

// `jobs[3].queue` → 3 and `.queue`.
bool ConsumeElement(absl::string_view field, absl::string_view* path, size_t* index) {
  absl::string_view rest = *path;
  if (!absl::ConsumePrefix(&rest, field) || !absl::ConsumePrefix(&rest, "[")) return false;
  const size_t end = rest.find(']');
  uint64_t number = 0;
  if (end == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, end), &number)) {
    return false;
  }
  *index = number;
  *path = rest.substr(end + 1);
  return true;
}

void AddNodeChanges(const v1::ChangesFile::Alternative& given, const std::string& path,
                    Changes::Alternative* alternative, SimulateChangesRequest::Alternative* sent) {
  for (int i = 0; i < given.add_size(); ++i) {
    auto& add = *sent->add_node_changes()->mutable_add();
    add = given.add(i);
    if (!add.like().empty()) add.set_like(NodeResource(add.like()));
    if (!add.cluster().empty() && !absl::StrContains(add.cluster(), "/")) {
      add.set_cluster(absl::StrCat("clusters/", add.cluster()));
    }
    alternative->node_changes.push_back(absl::StrCat(path, ".add[", i, "]"));
  }
  const auto each = [&](const auto& nodes, const char* field, auto set) {
    for (int i = 0; i < nodes.size(); ++i) {
      (sent->add_node_changes()->*set)(NodeResource(nodes.Get(i)));
      alternative->node_changes.push_back(absl::StrCat(path, ".", field, "[", i, "]"));
    }
  };
  using NodeChange = SimulatePlacementRequest::NodeChange;
  using Set = void (NodeChange::*)(std::string&&);
  each(given.remove(), "remove", static_cast<Set>(&NodeChange::set_remove<std::string>));
  each(given.cordon(), "cordon", static_cast<Set>(&NodeChange::set_cordon<std::string>));
  each(given.uncordon(), "uncordon", static_cast<Set>(&NodeChange::set_uncordon<std::string>));
}

// One violation of an alternative, in terms of the files.
absl::Status LocateOne(const status::FieldViolation& violation, const Changes& changes) {
  absl::string_view path = violation.field;
  size_t index = 0;
  if (path == "parent") return Violation(changes, "project", violation.description);
  if (!ConsumeElement("alternatives", &path, &index) || index >= changes.alternatives.size()) {
    return Violation(changes, violation.field, violation.description);
  }
  const Changes::Alternative& alternative = changes.alternatives[index];
  const std::string place = absl::StrCat("alternatives[", index, "]");
  absl::ConsumePrefix(&path, ".");
  size_t element = 0;
  if (ConsumeElement("jobs", &path, &element) && element < alternative.jobs.size()) {
    status::FieldErrors errors;
    errors.Add(absl::StrCat("job.spec", path), violation.description);
    return LocateViolations(errors.ToStatus(), alternative.jobs[element]);
  }
  if (ConsumeElement("node_changes", &path, &element) &&
      element < alternative.node_changes.size()) {
    for (const char* kind : {".add", ".remove", ".cordon", ".uncordon"}) {
      if (absl::ConsumePrefix(&path, kind)) break;
    }
    return Violation(changes, absl::StrCat(alternative.node_changes[element], path),
                     violation.description);
  }
  // Of all its Jobs, or all its changes.
  return Violation(changes, place, violation.description);
}

}  // namespace

absl::StatusOr<Changes> ParseChangesFile(absl::string_view text, const std::string& file,
                                         const std::string& project,
                                         const SubmissionReader& read_submission) {
  Changes changes;
  changes.file = file;
  v1::ChangesFile parsed;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProto(text, file, &parsed, &changes.places));
  const std::string id(absl::StripPrefix(
      parsed.project().empty() ? absl::string_view(project) : absl::string_view(parsed.project()),
      "projects/"));
  if (!resource::IsValidId(id)) {
    return Violation(changes, "project",
                     absl::StrCat("'", id, "' is not an id: ", resource::kIdRule));
  }
  changes.request.set_parent(ProjectParent(id));
  std::set<std::string> names;
  for (int i = 0; i < parsed.alternatives_size(); ++i) {
    const v1::ChangesFile::Alternative& given = parsed.alternatives(i);
    const std::string path = absl::StrCat("alternatives[", i, "]");
    if (!resource::IsValidId(given.name())) {
      return Violation(changes, path + ".name",
                       absl::StrCat("'", given.name(), "' is not an id: ", resource::kIdRule));
    }
    if (!names.insert(given.name()).second) {
      return Violation(changes, path + ".name",
                       absl::StrCat("'", given.name(),
                                    "' is the name of another one too; expected one of its own"));
    }
    Changes::Alternative& alternative = changes.alternatives.emplace_back();
    alternative.name = given.name();
    SimulateChangesRequest::Alternative& sent = *changes.request.add_alternatives();
    AddNodeChanges(given, path, &alternative, &sent);
    for (int k = 0; k < given.jobs_size(); ++k) {
      CAPSTAN_ASSIGN_OR_RETURN(Submission submission,
                               read_submission(BesideFile(file, given.jobs(k)), id));
      if (submission.request.parent() != changes.request.parent()) {
        return Violation(changes, absl::StrCat(path, ".jobs[", k, "]"),
                         absl::StrCat("is of ", submission.request.parent(), ", and the others of ",
                                      changes.request.parent(), "; expected Jobs of one Project"));
      }
      *sent.add_jobs() = submission.request.job().spec();
      alternative.jobs.push_back(std::move(submission));
    }
  }
  return changes;
}

absl::Status LocateChanges(const absl::Status& status, const Changes& changes) {
  const std::vector<status::FieldViolation> violations = status::GetFieldViolations(status);
  if (violations.empty()) return status;
  std::string message;
  for (const status::FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", LocateOne(violation, changes).message());
  }
  return status::Error(status.code(), "INVALID_FILE", message, {{"file", changes.file}});
}

}  // namespace capstan::cli
