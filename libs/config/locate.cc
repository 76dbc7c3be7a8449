#include "libs/config/locate.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"

namespace capstan::config {
namespace {

std::string Place(const SourceMap& places, absl::string_view file, std::string path) {
  // A field that was left out has no place of its own; what contains it has.
  while (true) {
    const auto place = places.find(path);
    if (place != places.end()) {
      return absl::StrCat(file, ":", place->second.line, ":", place->second.column);
    }
    const size_t cut = path.find_last_of(".[");
    if (cut == std::string::npos) return std::string(file);
    path.resize(cut);
  }
}

}  // namespace

absl::Status Locate(const absl::Status& status, const SourceMap& places, absl::string_view file,
                    absl::string_view prefix) {
  const std::vector<status::FieldViolation> violations = status::GetFieldViolations(status);
  if (violations.empty()) return status;
  std::string message;
  for (const status::FieldViolation& violation : violations) {
    const std::string path(absl::StripPrefix(violation.field, prefix));
    absl::StrAppend(&message, message.empty() ? "" : "\n", Place(places, file, path), ": ", path,
                    ": ", violation.description);
  }
  return status::Error(status.code(), "INVALID_FILE", message, {{"file", std::string(file)}});
}

}  // namespace capstan::config
