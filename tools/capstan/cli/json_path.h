// JSONPath as kubectl has it (https://kubernetes.io/docs/reference/kubectl/jsonpath/): paths into a
// Document, and templates in which they stand in braces between literal text.
//
//   {.items[*].name}                                  values, joined by a space
//   {range .items[*]}{.name}{"\t"}{.state}{"\n"}{end}
//   {.items[?(@.state=="FAILED" && @.generation>1)].name}
//   {.tasks[0,1].node} {.tasks[-1:].rank} {..pid} {.spec['queue','priority']}
//
// A path in braces begins at the value in hand, which is the document, or in a range its item; `$`
// is always the document, `@` the value in hand. What is not there gives nothing, as in kubectl;
// so does an index past the end, which kubectl refuses. Beyond kubectl, a filter may join terms by
// `&&`, `||`, `!` and parentheses. Numbers, times and durations compare by what they mean.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/capstan/cli/document.h"

namespace capstan::cli {

namespace json_path {
struct Path;
struct Piece;
}  // namespace json_path

// One path: `.spec.queue`, `spec.queue` or `{.spec.queue}`. A value; cheap to copy.
class JsonPath {
 public:
  // INVALID_ARGUMENT, reason INVALID_JSONPATH, names the character (from 1), what is there and what
  // was expected. Bounds: 4 KiB, 32 levels of nesting.
  static absl::StatusOr<JsonPath> Parse(absl::string_view text);

  // The values in the order of the document; they live as long as it. INVALID_ARGUMENT, reason
  // JSONPATH_TOO_LARGE, once more than a million values were looked at.
  absl::StatusOr<std::vector<const Document*>> Find(const Document& document) const;

 private:
  explicit JsonPath(std::shared_ptr<const json_path::Path> path) : path_(std::move(path)) {}
  std::shared_ptr<const json_path::Path> path_;
};

// A template. A value; cheap to copy.
class JsonPathTemplate {
 public:
  // As JsonPath::Parse; a template without any braces is refused too.
  static absl::StatusOr<JsonPathTemplate> Parse(absl::string_view text);

  // Literal text as it is; scalars bare; objects and lists as JSON on one line. For a terminal,
  // `for_terminal`, control bytes in the document's text are escaped. Errors as JsonPath::Find.
  absl::StatusOr<std::string> Expand(const Document& document, bool for_terminal) const;

 private:
  explicit JsonPathTemplate(std::shared_ptr<const std::vector<json_path::Piece>> pieces)
      : pieces_(std::move(pieces)) {}
  std::shared_ptr<const std::vector<json_path::Piece>> pieces_;
};

// A scalar bare, anything else as JSON on one line.
std::string ValueText(const Document& value);

// Less than, equal to or greater than 0, as `a` is to `b`: numbers, RFC 3339 times and durations by
// what they mean, other text by its bytes.
int CompareValues(absl::string_view a, absl::string_view b);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_H_
