#include "absl/strings/ascii.h"
#include "absl/types/optional.h"
#include "libs/kube/watch/decoder.h"
#include "libs/kube/watch/payload.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::watch {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Finds where values begin and end; what they hold is for the reader of the object.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  // With its quotes; escapes as they stand. Empty if none begins here or it has no end.
  absl::string_view TakeString() {
    SkipSpace();
    const size_t begin = at_;
    return SkipString() ? text_.substr(begin, at_ - begin) : absl::string_view();
  }
  // Empty if there is none or it has no end.
  absl::string_view TakeValue() {
    SkipSpace();
    const size_t begin = at_;
    size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!SkipString()) return {};
        if (depth == 0) break;
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']' || IsSpace(c))) break;
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) break;
    }
    return depth == 0 ? text_.substr(begin, at_ - begin) : absl::string_view();
  }

 private:
  bool SkipString() {
    if (at_ == text_.size() || text_[at_] != '"') return false;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return true;
      }
    }
    at_ = text_.size();
    return false;
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Decoder::Frame> JsonDecoder::FindFrame(absl::string_view rest, size_t scanned) {
  Frame frame;
  const size_t end = rest.find('\n', scanned);
  if (end == absl::string_view::npos) return frame;
  frame.bytes = end + 1;
  frame.body = rest.substr(0, end);
  frame.has_event = !absl::StripAsciiWhitespace(frame.body).empty();
  return frame;
}

absl::StatusOr<Event> JsonDecoder::ParseEvent(absl::string_view body) {
  Scanner scanner(body);
  absl::optional<absl::string_view> type;
  absl::optional<absl::string_view> object;
  if (!scanner.Take('{')) return Malformed("a line is no JSON object");
  bool more = !scanner.Take('}');
  while (more) {
    const absl::string_view key = scanner.TakeString();
    if (key.empty() || !scanner.Take(':')) return Malformed("a field has no name");
    const absl::string_view value = scanner.TakeValue();
    if (value.empty()) return Malformed("a field has no value");
    if (key == "\"type\"" || key == "\"object\"") {
      absl::optional<absl::string_view>& field = key == "\"type\"" ? type : object;
      if (field.has_value()) return Malformed("a field comes twice");
      field = value;
    }
    if (scanner.Take('}')) {
      more = false;
    } else if (!scanner.Take(',')) {
      return Malformed("a field is not followed by another or the end");
    }
  }
  if (!scanner.AtEnd()) return Malformed("the line goes on after the event");
  if (!type.has_value() || !object.has_value()) return Malformed("it lacks type or object");
  if (type->size() < 2 || type->front() != '"') return Malformed("its type is no string");
  if (object->front() != '{') return Malformed("its object is no JSON object");
  CAPSTAN_ASSIGN_OR_RETURN(const EventType parsed,
                           ParseEventType(type->substr(1, type->size() - 2)));
  return MakeEvent(parsed, *object, Encoding::kJson);
}

}  // namespace capstan::kube::watch
