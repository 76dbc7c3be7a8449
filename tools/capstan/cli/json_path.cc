#include "tools/capstan/cli/json_path.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/json_path_ast.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using json_path::Filter;
using json_path::Operand;
using json_path::Path;
using json_path::Piece;
using json_path::Selector;
using json_path::Step;
using Values = std::vector<const Document*>;

// `..*..*` and ranges in ranges multiply.
constexpr int64_t kMaxLookedAt = 1'000'000;
constexpr size_t kMaxOutputBytes = 64 << 20;

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

bool Holds(Filter::Comparison comparison, int order) {
  switch (comparison) {
    case Filter::Comparison::kEqual:
      return order == 0;
    case Filter::Comparison::kNotEqual:
      return order != 0;
    case Filter::Comparison::kLess:
      return order < 0;
    case Filter::Comparison::kLessOrEqual:
      return order <= 0;
    case Filter::Comparison::kGreater:
      return order > 0;
    case Filter::Comparison::kGreaterOrEqual:
      return order >= 0;
  }
  return false;
}

// Looks paths up in one document, within one bound.
class Evaluator {
 public:
  explicit Evaluator(const Document& root) : root_(root) {}

  absl::StatusOr<Values> Find(const Path& path, const Document& here) {
    Values values = {path.from_root ? &root_ : &here};
    for (const Step& step : path.steps) {
      Values next;
      for (const Document* value : values) {
        CAPSTAN_RETURN_IF_ERROR(step.recursive ? Descend(step, *value, &next)
                                               : Select(step, *value, &next));
      }
      values = std::move(next);
    }
    return values;
  }

  absl::Status Expand(const std::vector<Piece>& pieces, const Document& here, bool for_terminal,
                      std::string* out) {
    for (const Piece& piece : pieces) {
      if (out->size() > kMaxOutputBytes) return TooLarge();
      if (piece.kind == Piece::Kind::kText) {
        out->append(piece.text);
        CAPSTAN_RETURN_IF_ERROR(Count());
        continue;
      }
      CAPSTAN_ASSIGN_OR_RETURN(const Values values, Find(piece.path, here));
      for (size_t i = 0; i < values.size(); ++i) {
        if (piece.kind == Piece::Kind::kRange) {
          CAPSTAN_RETURN_IF_ERROR(Expand(piece.body, *values[i], for_terminal, out));
          continue;
        }
        const std::string text = ValueText(*values[i]);
        absl::StrAppend(out, i == 0 ? "" : " ", for_terminal ? WithoutControls(text) : text);
        if (out->size() > kMaxOutputBytes) return TooLarge();
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status TooLarge() {
    return status::Error(absl::StatusCode::kInvalidArgument, "JSONPATH_TOO_LARGE",
                         absl::StrCat("the JSONPath looks at more than ", kMaxLookedAt,
                                      " values, or gives more than 64 MiB; ask for less, or use "
                                      "-o json with a program of your own"));
  }
  absl::Status Count() { return ++looked_at_ > kMaxLookedAt ? TooLarge() : absl::OkStatus(); }

  absl::Status Descend(const Step& step, const Document& value, Values* out) {
    CAPSTAN_RETURN_IF_ERROR(Select(step, value, out));
    for (const Document& item : value.items) CAPSTAN_RETURN_IF_ERROR(Descend(step, item, out));
    for (const Document::Member& member : value.members) {
      CAPSTAN_RETURN_IF_ERROR(Descend(step, member.value, out));
    }
    return absl::OkStatus();
  }

  absl::Status Select(const Step& step, const Document& value, Values* out) {
    for (const Selector& selector : step.selectors) {
      CAPSTAN_RETURN_IF_ERROR(Count());
      const auto size = static_cast<int64_t>(value.items.size());
      switch (selector.kind) {
        case Selector::Kind::kName:
          if (const Document* found = value.Find(selector.name)) out->push_back(found);
          break;
        case Selector::Kind::kIndex: {
          const int64_t at = selector.index < 0 ? selector.index + size : selector.index;
          if (at >= 0 && at < size) out->push_back(&value.items[static_cast<size_t>(at)]);
          break;
        }
        case Selector::Kind::kSlice: {
          const auto bound = [size](int64_t at) {
            return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
          };
          const int64_t to = bound(selector.to.value_or(size));
          for (int64_t at = bound(selector.from.value_or(0)); at < to; at += selector.step) {
            CAPSTAN_RETURN_IF_ERROR(Count());
            out->push_back(&value.items[static_cast<size_t>(at)]);
          }
          break;
        }
        case Selector::Kind::kWildcard:
          for (const Document* child : Children(value)) {
            CAPSTAN_RETURN_IF_ERROR(Count());
            out->push_back(child);
          }
          break;
        case Selector::Kind::kFilter:
          for (const Document& item : value.items) {
            CAPSTAN_ASSIGN_OR_RETURN(const bool passes, Passes(*selector.filter, item));
            if (passes) out->push_back(&item);
          }
          break;
      }
    }
    return absl::OkStatus();
  }

  static Values Children(const Document& value) {
    Values children;
    for (const Document& item : value.items) children.push_back(&item);
    for (const Document::Member& member : value.members) children.push_back(&member.value);
    return children;
  }

  absl::StatusOr<bool> Passes(const Filter& filter, const Document& item) {
    CAPSTAN_RETURN_IF_ERROR(Count());
    switch (filter.kind) {
      case Filter::Kind::kExists: {
        CAPSTAN_ASSIGN_OR_RETURN(const Values values, Find(filter.left.path, item));
        return !values.empty();
      }
      case Filter::Kind::kCompare: {
        CAPSTAN_ASSIGN_OR_RETURN(const auto left, Scalars(filter.left, item));
        CAPSTAN_ASSIGN_OR_RETURN(const auto right, Scalars(filter.right, item));
        for (const absl::string_view a : left) {
          for (const absl::string_view b : right) {
            CAPSTAN_RETURN_IF_ERROR(Count());
            if (Holds(filter.comparison, CompareValues(a, b))) return true;
          }
        }
        return false;
      }
      case Filter::Kind::kNot: {
        CAPSTAN_ASSIGN_OR_RETURN(const bool passes, Passes(*filter.terms[0], item));
        return !passes;
      }
      case Filter::Kind::kAnd:
      case Filter::Kind::kOr: {
        const bool decisive = filter.kind == Filter::Kind::kOr;
        for (const auto& term : filter.terms) {
          CAPSTAN_ASSIGN_OR_RETURN(const bool passes, Passes(*term, item));
          if (passes == decisive) return decisive;
        }
        return !decisive;
      }
    }
    return false;
  }

  // What an operand stands for; objects and lists compare with nothing.
  absl::StatusOr<std::vector<absl::string_view>> Scalars(const Operand& operand,
                                                         const Document& item) {
    std::vector<absl::string_view> scalars;
    if (!operand.is_path) {
      scalars.push_back(operand.literal);
      return scalars;
    }
    CAPSTAN_ASSIGN_OR_RETURN(const Values values, Find(operand.path, item));
    for (const Document* value : values) {
      if (!value->IsCollection()) scalars.push_back(value->scalar);
    }
    return scalars;
  }

  const Document& root_;
  int64_t looked_at_ = 0;
};

absl::Status InJsonPath(const absl::Status& error) { return status::Annotate(error, "jsonpath"); }

}  // namespace

std::string ValueText(const Document& value) {
  return value.IsCollection() ? ToCompactJson(value) : value.scalar;
}

int CompareValues(absl::string_view a, absl::string_view b) {
  int64_t whole_a = 0;
  int64_t whole_b = 0;
  if (absl::SimpleAtoi(a, &whole_a) && absl::SimpleAtoi(b, &whole_b)) {
    return Order(whole_a, whole_b);
  }
  double number_a = 0;
  double number_b = 0;
  if (absl::SimpleAtod(a, &number_a) && absl::SimpleAtod(b, &number_b)) {
    return Order(number_a, number_b);
  }
  absl::Time time_a;
  absl::Time time_b;
  std::string ignored;
  if (absl::ParseTime(absl::RFC3339_full, a, &time_a, &ignored) &&
      absl::ParseTime(absl::RFC3339_full, b, &time_b, &ignored)) {
    return Order(time_a, time_b);
  }
  absl::Duration duration_a;
  absl::Duration duration_b;
  if (absl::ParseDuration(a, &duration_a) && absl::ParseDuration(b, &duration_b)) {
    return Order(duration_a, duration_b);
  }
  return Order(a, b);
}

absl::StatusOr<JsonPath> JsonPath::Parse(absl::string_view text) {
  absl::StatusOr<Path> path = json_path::ParsePath(text);
  if (!path.ok()) return InJsonPath(path.status());
  return JsonPath(std::make_shared<const Path>(*std::move(path)));
}

absl::StatusOr<std::vector<const Document*>> JsonPath::Find(const Document& document) const {
  return Evaluator(document).Find(*path_, document);
}

absl::StatusOr<JsonPathTemplate> JsonPathTemplate::Parse(absl::string_view text) {
  absl::StatusOr<std::vector<Piece>> pieces = json_path::ParseTemplate(text);
  if (!pieces.ok()) return InJsonPath(pieces.status());
  return JsonPathTemplate(std::make_shared<const std::vector<Piece>>(*std::move(pieces)));
}

absl::StatusOr<std::string> JsonPathTemplate::Expand(const Document& document,
                                                     bool for_terminal) const {
  std::string out;
  CAPSTAN_RETURN_IF_ERROR(Evaluator(document).Expand(*pieces_, document, for_terminal, &out));
  return out;
}

}  // namespace capstan::cli
