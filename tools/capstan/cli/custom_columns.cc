#include "tools/capstan/cli/custom_columns.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

absl::Status Invalid(absl::string_view found, absl::string_view expected) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_COLUMNS",
                       absl::StrCat("found ", found, ", expected ", expected));
}

// At commas outside of brackets and quotes.
std::vector<absl::string_view> SplitColumns(absl::string_view text) {
  std::vector<absl::string_view> columns;
  size_t begin = 0;
  int depth = 0;
  char quote = '\0';
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == '\\') {
        ++at;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (depth > 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      columns.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  columns.push_back(text.substr(begin));
  return columns;
}

}  // namespace

absl::Status CustomColumns::Add(absl::string_view header, absl::string_view path) {
  absl::StatusOr<JsonPath> parsed = JsonPath::Parse(path);
  if (!parsed.ok()) {
    return status::Annotate(parsed.status(), absl::StrCat("column ", WithoutControls(header)));
  }
  headers_.emplace_back(header);
  paths_.push_back(*std::move(parsed));
  return absl::OkStatus();
}

absl::StatusOr<CustomColumns> CustomColumns::Parse(absl::string_view text) {
  CustomColumns columns;
  for (const absl::string_view column : SplitColumns(text)) {
    const size_t colon = column.find(':');
    if (colon == absl::string_view::npos || colon == 0 || colon + 1 == column.size()) {
      return Invalid(absl::StrCat("'", WithoutControls(column), "'"),
                     "HEADER:path for each column, such as NAME:.name,QUEUE:.spec.queue");
    }
    CAPSTAN_RETURN_IF_ERROR(columns.Add(column.substr(0, colon), column.substr(colon + 1)));
  }
  return columns;
}

absl::StatusOr<CustomColumns> CustomColumns::ParseFile(absl::string_view text) {
  std::vector<std::vector<absl::string_view>> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<absl::string_view> words =
        absl::StrSplit(absl::StripAsciiWhitespace(line), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (!words.empty()) lines.push_back(std::move(words));
  }
  if (lines.size() != 2) {
    return Invalid(absl::StrCat(lines.size(), " lines"),
                   "two: the headers, and below them the paths");
  }
  if (lines[0].size() != lines[1].size()) {
    return Invalid(absl::StrCat(lines[0].size(), " headers and ", lines[1].size(), " paths"),
                   "a path for each header");
  }
  CustomColumns columns;
  for (size_t i = 0; i < lines[0].size(); ++i) {
    CAPSTAN_RETURN_IF_ERROR(columns.Add(lines[0][i], lines[1][i]));
  }
  return columns;
}

absl::StatusOr<std::vector<std::string>> CustomColumns::Row(const Document& resource) const {
  std::vector<std::string> cells;
  for (const JsonPath& path : paths_) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<const Document*> values, path.Find(resource));
    cells.push_back(values.empty()
                        ? "<none>"
                        : absl::StrJoin(values, ",", [](std::string* out, const Document* value) {
                            out->append(ValueText(*value));
                          }));
  }
  return cells;
}

}  // namespace capstan::cli
