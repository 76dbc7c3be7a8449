// What a JSONPath means, apart from how it is written. Of json_path.cc and json_path_parser.cc
// only.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_AST_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::cli::json_path {

struct Filter;

// One of the things between brackets, or the name after a dot.
struct Selector {
  enum class Kind { kName, kIndex, kSlice, kWildcard, kFilter };
  Kind kind = Kind::kName;
  std::string name;
  // kIndex; negative counts from the end.
  int64_t index = 0;
  // kSlice; as Python's, with a positive step.
  absl::optional<int64_t> from;
  absl::optional<int64_t> to;
  int64_t step = 1;
  std::shared_ptr<const Filter> filter;
};

struct Step {
  // After `..`: of the value and of everything below it.
  bool recursive = false;
  // The results follow each other.
  std::vector<Selector> selectors;
};

struct Path {
  // Begins at `$`, else at the value in hand.
  bool from_root = false;
  std::vector<Step> steps;
};

// A side of a comparison.
struct Operand {
  bool is_path = false;
  Path path;
  std::string literal;
};

struct Filter {
  enum class Kind { kExists, kCompare, kAnd, kOr, kNot };
  enum class Comparison { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };
  Kind kind = Kind::kExists;
  Comparison comparison = Comparison::kEqual;
  Operand left;
  Operand right;
  // Of kAnd and kOr two, of kNot one.
  std::vector<std::shared_ptr<const Filter>> terms;
};

// Of a template.
struct Piece {
  enum class Kind { kText, kPath, kRange };
  Kind kind = Kind::kText;
  std::string text;
  Path path;
  std::vector<Piece> body;
};

absl::StatusOr<Path> ParsePath(absl::string_view text);
absl::StatusOr<std::vector<Piece>> ParseTemplate(absl::string_view text);

}  // namespace capstan::cli::json_path

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JSON_PATH_AST_H_
