#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/json_path_ast.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli::json_path {
namespace {

constexpr size_t kMaxBytes = 4096;
constexpr int kMaxDepth = 32;

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

// Recursive descent over the bytes of one template or path.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Piece>> Template() {
    CAPSTAN_RETURN_IF_ERROR(CheckSize());
    if (text_.find('{') == absl::string_view::npos) {
      return Expected("a path in braces, such as {.items[*].name}");
    }
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<Piece> pieces, Pieces(/*in_range=*/false));
    if (!AtEnd()) return Expected("the end");
    return pieces;
  }

  absl::StatusOr<Path> LonePath() {
    CAPSTAN_RETURN_IF_ERROR(CheckSize());
    const bool braced = Take('{');
    SkipSpace();
    CAPSTAN_ASSIGN_OR_RETURN(Path path, AnyPath(/*bare_name=*/true));
    SkipSpace();
    if (braced && !Take('}')) return Expected("'}'");
    if (!AtEnd()) return Expected("'.', '[' or the end");
    return path;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Here() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Looking(absl::string_view word) const { return text_.substr(at_, word.size()) == word; }
  bool Take(absl::string_view word) {
    if (!Looking(word)) return false;
    at_ += word.size();
    return true;
  }
  bool Take(char c) { return Take(absl::string_view(&c, 1)); }
  void SkipSpace() {
    while (!AtEnd() && absl::ascii_isspace(static_cast<unsigned char>(Here()))) ++at_;
  }

  absl::Status Expected(absl::string_view what) const {
    const std::string found =
        AtEnd() ? "the end" : absl::StrCat("'", WithoutControls(text_.substr(at_, 1)), "'");
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_JSONPATH",
                         absl::StrCat("at character ", at_ + 1, " of \"", WithoutControls(text_),
                                      "\": found ", found, ", expected ", what));
  }
  absl::Status CheckSize() const {
    if (text_.size() <= kMaxBytes) return absl::OkStatus();
    return status::Error(
        absl::StatusCode::kInvalidArgument, "INVALID_JSONPATH",
        absl::StrCat("found ", text_.size(), " bytes, expected at most ", kMaxBytes));
  }

  // To the end, or to the `{end}` of the range, which is taken.
  absl::StatusOr<std::vector<Piece>> Pieces(bool in_range) {
    if (++depth_ > kMaxDepth) return Expected("less nesting");
    std::vector<Piece> pieces;
    bool inside = in_range;  // A range begins within braces.
    while (true) {
      if (!inside) {
        AddText(TakeLiteral(), &pieces);
        if (AtEnd()) {
          if (in_range) return Expected("{end}");
          break;
        }
        ++at_;  // The brace.
        inside = true;
      }
      SkipSpace();
      if (Take('}')) {
        inside = false;
      } else if (TakeWord("end")) {
        if (!in_range) {
          at_ -= 3;
          return Expected("a path, text in quotes or {range}: there is no range to end");
        }
        break;
      } else if (TakeWord("range")) {
        CAPSTAN_ASSIGN_OR_RETURN(Piece range, Range());
        pieces.push_back(std::move(range));
      } else if (Here() == '"' || Here() == '\'') {
        CAPSTAN_ASSIGN_OR_RETURN(std::string text, Quoted());
        AddText(std::move(text), &pieces);
      } else {
        CAPSTAN_ASSIGN_OR_RETURN(Piece piece, PathPiece());
        pieces.push_back(std::move(piece));
      }
    }
    --depth_;
    return pieces;
  }

  absl::StatusOr<Piece> Range() {
    SkipSpace();
    Piece piece;
    piece.kind = Piece::Kind::kRange;
    CAPSTAN_ASSIGN_OR_RETURN(piece.path, AnyPath(/*bare_name=*/false));
    CAPSTAN_ASSIGN_OR_RETURN(piece.body, Pieces(/*in_range=*/true));
    return piece;
  }

  absl::StatusOr<Piece> PathPiece() {
    if (AtEnd()) return Expected("'}'");
    if (Here() != '.' && Here() != '[' && Here() != '@' && Here() != '$') {
      return Expected("'}', text in quotes, range, end, or a path that begins with . [ @ or $");
    }
    Piece piece;
    piece.kind = Piece::Kind::kPath;
    CAPSTAN_ASSIGN_OR_RETURN(piece.path, AnyPath(/*bare_name=*/false));
    return piece;
  }

  std::string TakeLiteral() {
    const size_t brace = std::min(text_.find('{', at_), text_.size());
    std::string literal(text_.substr(at_, brace - at_));
    at_ = brace;
    return literal;
  }

  static void AddText(std::string text, std::vector<Piece>* pieces) {
    if (text.empty()) return;
    Piece piece;
    piece.text = std::move(text);
    pieces->push_back(std::move(piece));
  }

  bool TakeWord(absl::string_view word) {
    if (!Looking(word)) return false;
    if (at_ + word.size() < text_.size() && IsNameByte(text_[at_ + word.size()])) return false;
    at_ += word.size();
    return true;
  }

  // `$…`, `@…`, `.…`, `[…`, and if so wanted a name.
  absl::StatusOr<Path> AnyPath(bool bare_name) {
    Path path;
    if (Take('$')) {
      path.from_root = true;
    } else if (!Take('@')) {
      if (bare_name && IsNameByte(Here())) {
        path.steps.push_back(NameStep());
      } else if (Here() != '.' && Here() != '[') {
        return Expected("a path that begins with '.', '[', '@' or '$'");
      }
    }
    CAPSTAN_RETURN_IF_ERROR(Steps(&path));
    return path;
  }

  absl::Status Steps(Path* path) {
    while (true) {
      if (Here() == '[') {
        Step step;
        CAPSTAN_RETURN_IF_ERROR(Brackets(&step));
        path->steps.push_back(std::move(step));
      } else if (Take('.')) {
        const bool recursive = Take('.');
        Step step;
        if (Here() == '[') {
          CAPSTAN_RETURN_IF_ERROR(Brackets(&step));
        } else if (Take('*')) {
          step.selectors.emplace_back().kind = Selector::Kind::kWildcard;
        } else if (IsNameByte(Here()) || Here() == '\\') {
          step = NameStep();
        } else if (path->steps.empty() && !recursive) {
          return absl::OkStatus();  // `.` alone: the value in hand.
        } else {
          return Expected("a name, '*' or '['");
        }
        step.recursive = recursive;
        path->steps.push_back(std::move(step));
      } else {
        return absl::OkStatus();
      }
    }
  }

  // A name, in which a backslash takes the next byte as it is: `.labels.a\.b/c`.
  Step NameStep() {
    Step step;
    Selector& selector = step.selectors.emplace_back();
    while (!AtEnd()) {
      if (Here() == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      } else if (!IsNameByte(Here())) {
        break;
      }
      selector.name.push_back(text_[at_++]);
    }
    return step;
  }

  absl::Status Brackets(Step* step) {
    ++at_;
    do {
      SkipSpace();
      CAPSTAN_RETURN_IF_ERROR(OneSelector(step));
      SkipSpace();
    } while (Take(','));
    return Take(']') ? absl::OkStatus() : Expected("',' or ']'");
  }

  absl::Status OneSelector(Step* step) {
    Selector selector;
    if (Take('*')) {
      selector.kind = Selector::Kind::kWildcard;
    } else if (Here() == '\'' || Here() == '"') {
      CAPSTAN_ASSIGN_OR_RETURN(selector.name, Quoted());
    } else if (Take('?')) {
      selector.kind = Selector::Kind::kFilter;
      SkipSpace();
      if (!Take('(')) return Expected("'(' after '?'");
      CAPSTAN_ASSIGN_OR_RETURN(selector.filter, Either());
      SkipSpace();
      if (!Take(')')) return Expected("'&&', '||' or ')'");
    } else {
      CAPSTAN_RETURN_IF_ERROR(IndexOrSlice(&selector));
    }
    step->selectors.push_back(std::move(selector));
    return absl::OkStatus();
  }

  absl::Status IndexOrSlice(Selector* selector) {
    absl::optional<int64_t> first;
    CAPSTAN_RETURN_IF_ERROR(MaybeInteger(&first));
    SkipSpace();
    if (!Take(':')) {
      if (!first.has_value()) return Expected("a number, '*', a name in quotes, ':' or '?('");
      selector->kind = Selector::Kind::kIndex;
      selector->index = *first;
      return absl::OkStatus();
    }
    selector->kind = Selector::Kind::kSlice;
    selector->from = first;
    SkipSpace();
    CAPSTAN_RETURN_IF_ERROR(MaybeInteger(&selector->to));
    SkipSpace();
    if (!Take(':')) return absl::OkStatus();
    SkipSpace();
    absl::optional<int64_t> step;
    const size_t before = at_;
    CAPSTAN_RETURN_IF_ERROR(MaybeInteger(&step));
    if (step.has_value() && *step <= 0) {
      at_ = before;
      return Expected("a step of 1 or more");
    }
    selector->step = step.value_or(1);
    return absl::OkStatus();
  }

  absl::Status MaybeInteger(absl::optional<int64_t>* value) {
    const size_t begin = at_;
    Take('-');
    while (absl::ascii_isdigit(static_cast<unsigned char>(Here()))) ++at_;
    if (at_ == begin) return absl::OkStatus();
    int64_t number = 0;
    // Far above any list, and far from the ends of the type.
    constexpr int64_t kMost = int64_t{1} << 40;
    if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &number) || number > kMost ||
        number < -kMost) {
      at_ = begin;
      return Expected("a whole number");
    }
    *value = number;
    return absl::OkStatus();
  }

  // Text in single or double quotes, with \n, \t, \r and a backslash before anything else.
  absl::StatusOr<std::string> Quoted() {
    const char quote = Here();
    const size_t begin = at_++;
    std::string out;
    while (!AtEnd() && Here() != quote) {
      if (Here() == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        const char c = Here();
        out.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
      } else {
        out.push_back(Here());
      }
      ++at_;
    }
    if (!Take(quote)) {
      return Expected(
          absl::StrCat("the end of the quoted text that begins at character ", begin + 1));
    }
    return out;
  }

  using FilterOr = absl::StatusOr<std::shared_ptr<const Filter>>;

  FilterOr Either() {
    if (++depth_ > kMaxDepth) return Expected("less nesting");
    CAPSTAN_ASSIGN_OR_RETURN(auto left, Both());
    for (SkipSpace(); Take("||"); SkipSpace()) {
      CAPSTAN_ASSIGN_OR_RETURN(auto right, Both());
      left = Joined(Filter::Kind::kOr, {std::move(left), std::move(right)});
    }
    --depth_;
    return left;
  }

  FilterOr Both() {
    CAPSTAN_ASSIGN_OR_RETURN(auto left, Term());
    for (SkipSpace(); Take("&&"); SkipSpace()) {
      CAPSTAN_ASSIGN_OR_RETURN(auto right, Term());
      left = Joined(Filter::Kind::kAnd, {std::move(left), std::move(right)});
    }
    return left;
  }

  FilterOr Term() {
    SkipSpace();
    if (Here() == '!' && !Looking("!=")) {
      ++at_;
      if (++depth_ > kMaxDepth) return Expected("less nesting");
      CAPSTAN_ASSIGN_OR_RETURN(auto term, Term());
      --depth_;
      return Joined(Filter::Kind::kNot, {std::move(term)});
    }
    if (Take('(')) {
      CAPSTAN_ASSIGN_OR_RETURN(auto term, Either());
      SkipSpace();
      if (!Take(')')) return Expected("'&&', '||' or ')'");
      return term;
    }
    return Comparison();
  }

  FilterOr Comparison() {
    auto filter = std::make_shared<Filter>();
    CAPSTAN_ASSIGN_OR_RETURN(filter->left, OneOperand());
    SkipSpace();
    using Kind = Filter::Comparison;
    constexpr std::pair<absl::string_view, Kind> kOperators[] = {
        {"==", Kind::kEqual},          {"!=", Kind::kNotEqual}, {"<=", Kind::kLessOrEqual},
        {">=", Kind::kGreaterOrEqual}, {"<", Kind::kLess},      {">", Kind::kGreater}};
    for (const auto& [word, comparison] : kOperators) {
      if (!Take(word)) continue;
      filter->kind = Filter::Kind::kCompare;
      filter->comparison = comparison;
      SkipSpace();
      CAPSTAN_ASSIGN_OR_RETURN(filter->right, OneOperand());
      return std::shared_ptr<const Filter>(std::move(filter));
    }
    if (!filter->left.is_path || Here() == '=') {
      return Expected("one of == != < <= > >=");
    }
    return std::shared_ptr<const Filter>(std::move(filter));
  }

  absl::StatusOr<Operand> OneOperand() {
    Operand operand;
    if (Here() == '@' || Here() == '$' || Here() == '.') {
      operand.is_path = true;
      CAPSTAN_ASSIGN_OR_RETURN(operand.path, AnyPath(/*bare_name=*/false));
      return operand;
    }
    if (Here() == '\'' || Here() == '"') {
      CAPSTAN_ASSIGN_OR_RETURN(operand.literal, Quoted());
      return operand;
    }
    const size_t begin = at_;
    while (!AtEnd() && (IsNameByte(Here()) || Here() == '.' || Here() == '+')) ++at_;
    operand.literal = std::string(text_.substr(begin, at_ - begin));
    double number = 0;
    if (operand.literal != "true" && operand.literal != "false" &&
        !absl::SimpleAtod(operand.literal, &number)) {
      at_ = begin;
      return Expected("@, a path, text in quotes, a number, true or false");
    }
    return operand;
  }

  static std::shared_ptr<const Filter> Joined(Filter::Kind kind,
                                              std::vector<std::shared_ptr<const Filter>> terms) {
    auto filter = std::make_shared<Filter>();
    filter->kind = kind;
    filter->terms = std::move(terms);
    return filter;
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Path> ParsePath(absl::string_view text) { return Parser(text).LonePath(); }

absl::StatusOr<std::vector<Piece>> ParseTemplate(absl::string_view text) {
  return Parser(text).Template();
}

}  // namespace capstan::cli::json_path
