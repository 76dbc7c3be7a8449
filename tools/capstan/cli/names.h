// Short names that people type, made whole.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_NAMES_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_NAMES_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan::cli {

// `projects/p` for `p` and for `projects/p`.
inline std::string ProjectParent(const std::string& project) {
  return absl::StartsWith(project, "projects/") ? project : absl::StrCat("projects/", project);
}

// A resource below a project: `digits` → `projects/p/jobs/digits`; whole names stay.
inline std::string InProject(const std::string& project, absl::string_view collection,
                             const std::string& name) {
  if (absl::StrContains(name, "/")) return name;
  return absl::StrCat(ProjectParent(project), "/", collection, "/", name);
}

// `node-0` → `clusters/local/nodes/node-0`; `c/n` → `clusters/c/nodes/n`; whole names stay.
inline std::string NodeResource(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return absl::StrCat("clusters/local/nodes/", name);
  if (absl::StartsWith(name, "clusters/")) return name;
  return absl::StrCat("clusters/", name.substr(0, slash), "/nodes/", name.substr(slash + 1));
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_NAMES_H_
