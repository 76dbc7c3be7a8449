#include "libs/kube/objects/json_object.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/objects/object_error.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

// Takes what the head has out of the events of nlohmann's reader.
class HeadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Root(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool number_integer(number_integer_t value) override { return Integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Integer(static_cast<int64_t>(value));
  }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    if (!Root()) return false;
    if (std::string* field = StringField()) *field = std::move(value);
    if (InMetadata() && key_ == "deletionTimestamp") head_.deleting = true;
    return !IsInteger() && !AtMetadata();
  }
  bool key(string_t& value) override {
    if (depth_ == 1 || InMetadata()) key_ = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    const bool metadata = AtMetadata();
    if (depth_ > 0 && !metadata && IsField()) return false;
    if (metadata) {
      in_metadata_ = true;
      key_.clear();
    }
    return Enter();
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1) in_metadata_ = false;
    return true;
  }
  bool start_array(std::size_t) override { return depth_ > 0 && !IsField() && Enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  JsonHead TakeHead() { return std::move(head_); }
  bool too_deep() const { return too_deep_; }

 private:
  // Whether a value may stand here: the root is an object.
  bool Root() const { return depth_ > 0; }
  bool AtMetadata() const { return depth_ == 1 && key_ == "metadata"; }
  bool InMetadata() const { return in_metadata_ && depth_ == 2; }
  bool Enter() {
    too_deep_ = depth_ == kMaxJsonDepth;
    ++depth_;
    return !too_deep_;
  }
  std::string* StringField() {
    if (depth_ == 1 && key_ == "apiVersion") return &head_.api_version;
    if (depth_ == 1 && key_ == "kind") return &head_.kind;
    if (!InMetadata()) return nullptr;
    if (key_ == "namespace") return &head_.ns;
    if (key_ == "name") return &head_.name;
    if (key_ == "uid") return &head_.uid;
    if (key_ == "resourceVersion") return &head_.resource_version;
    if (key_ == "continue") return &head_.continue_token;
    return nullptr;
  }
  bool IsInteger() const {
    return InMetadata() && (key_ == "generation" || key_ == "remainingItemCount");
  }
  // Of which the type is known; `metadata` alone is an object.
  bool IsField() {
    return StringField() != nullptr || IsInteger() || AtMetadata() ||
           (InMetadata() && key_ == "deletionTimestamp");
  }
  bool Scalar() { return Root() && !IsField(); }
  bool Integer(int64_t value) {
    if (!IsInteger()) return Scalar();
    if (key_ == "generation") {
      head_.generation = value;
    } else {
      head_.remaining = value;
    }
    return true;
  }

  JsonHead head_;
  int depth_ = 0;
  bool in_metadata_ = false;
  bool too_deep_ = false;
  // The last one of the root or of its metadata.
  std::string key_;
};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Finds where values begin and end; whether they are JSON is for another reader to say.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

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
  char Peek() {
    SkipSpace();
    return at_ == text_.size() ? '\0' : text_[at_];
  }
  // With its quotes; escapes as they stand. Empty if none begins here or it has no end.
  absl::string_view TakeString() {
    SkipSpace();
    const size_t begin = at_;
    return SkipString() ? text_.substr(begin, at_ - begin) : absl::string_view();
  }
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
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
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

absl::Status SplitItems(Scanner* scanner, std::vector<absl::string_view>* items) {
  if (!scanner->Take('[')) return ObjectMalformed("the items of a list are no array");
  if (scanner->Take(']')) return absl::OkStatus();
  do {
    const absl::string_view item = scanner->Peek() == '{' ? scanner->TakeValue() : "";
    if (item.empty()) return ObjectMalformed("an item of a list is no object");
    items->push_back(item);
  } while (scanner->Take(','));
  if (!scanner->Take(']')) return ObjectMalformed("the items of a list have no end");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JsonHead> ReadJsonHead(absl::string_view text) {
  HeadReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return ObjectMalformed(reader.too_deep()
                               ? absl::StrCat("its JSON nests deeper than ", kMaxJsonDepth)
                               : "it is no JSON object with an apiVersion, kind and metadata");
  }
  return reader.TakeHead();
}

absl::StatusOr<JsonList> SplitJsonList(absl::string_view text) {
  Scanner scanner(text);
  JsonList list;
  bool has_items = false;
  std::string rest = "{";
  if (!scanner.Take('{')) return ObjectMalformed("a list is no JSON object");
  bool more = !scanner.Take('}');
  while (more) {
    const absl::string_view key = scanner.TakeString();
    if (key.empty() || !scanner.Take(':')) return ObjectMalformed("a field of a list has no name");
    if (key == "\"items\"" && scanner.Peek() != 'n') {
      if (has_items) return ObjectMalformed("a list has its items twice");
      has_items = true;
      CAPSTAN_RETURN_IF_ERROR(SplitItems(&scanner, &list.items));
    } else {
      const absl::string_view value = scanner.TakeValue();
      if (value.empty()) return ObjectMalformed("a field of a list has no value");
      absl::StrAppend(&rest, rest.size() > 1 ? "," : "", key, ":", value);
    }
    more = scanner.Take(',');
    if (!more && !scanner.Take('}')) return ObjectMalformed("a list has no end");
  }
  if (!scanner.AtEnd()) return ObjectMalformed("there is something after a list");
  rest += '}';
  CAPSTAN_ASSIGN_OR_RETURN(list.head, ReadJsonHead(rest));
  return list;
}

}  // namespace capstan::kube
