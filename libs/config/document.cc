#include "libs/config/document.h"

#include <cstdint>
#include <istream>
#include <set>
#include <sstream>
#include <streambuf>
#include <utility>

#include "absl/strings/str_cat.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/parser.h"

namespace capstan::config {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 64;

Mark ToMark(const YAML::Mark& mark) {
  if (mark.is_null()) return Mark{};
  return Mark{mark.line + 1, mark.column + 1};
}

// Where the text stops being UTF-8 without control bytes other than tab and line ends, or npos.
size_t FindBadByte(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = [&](size_t k) {
      return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u;
    };
    const unsigned first = byte(i);
    if (first < 0x80) {
      if ((first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7f) {
        return i;
      }
      ++i;
      continue;
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) return i;
    uint32_t code = first & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    const bool too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (too_long || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return i;
    i += length;
  }
  return absl::string_view::npos;
}

Mark MarkAt(absl::string_view text, size_t position) {
  Mark mark;
  for (const char c : text.substr(0, position)) {
    if (c == '\n') {
      ++mark.line;
      mark.column = 1;
    } else {
      ++mark.column;
    }
  }
  return mark;
}

// Builds the tree from yaml-cpp's events. Its own node tree would resolve aliases, which lets a
// small file stand for an endless one, and would take the last of two equal keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::vector<Problem>* problems) : problems_(problems) {}

  Document TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Document node;
    node.mark = ToMark(mark);
    Add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases (*name) are not supported; write the value out");
    Document node;
    node.mark = ToMark(mark);
    Add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    // yaml-cpp tags plain scalars "?" and quoted or block ones "!".
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, "tags (!name) are not supported");
    Document node;
    node.mark = ToMark(mark);
    node.quoted = tag == "!";
    node.text = value;
    const bool null = !node.quoted && (value.empty() || value == "~" || value == "null" ||
                                       value == "Null" || value == "NULL");
    node.kind = null ? Document::Kind::kNull : Document::Kind::kScalar;
    Add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Document::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Document::Kind::kMapping);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A collection that is being read.
  struct Frame {
    Document node;
    std::set<std::string> keys;
    bool has_key = false;
  };

  void Refuse(const YAML::Mark& mark, std::string text) {
    problems_->push_back({ToMark(mark), std::move(text)});
  }

  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) Refuse(mark, "anchors (&name) are not supported");
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Document::Kind kind) {
    RefuseAnchor(mark, anchor);
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, "tags (!name) are not supported");
    if (stack_.size() == kMaxDepth) Refuse(mark, "nested too deeply");
    Frame frame;
    frame.node.kind = kind;
    frame.node.mark = ToMark(mark);
    stack_.push_back(std::move(frame));
  }

  void Close() {
    Document node = std::move(stack_.back().node);
    stack_.pop_back();
    Add(std::move(node));
  }

  // In a mapping, nodes come as key, value, key, value.
  void Add(Document node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.kind == Document::Kind::kSequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.has_key) {
      frame.has_key = true;
      if (node.kind != Document::Kind::kScalar) {
        problems_->push_back({node.mark, "a key must be text"});
      } else if (!frame.keys.insert(node.text).second) {
        problems_->push_back({node.mark, absl::StrCat("'", node.text, "' is given twice")});
      }
      Document::Entry entry;
      entry.key = std::move(node.text);
      entry.mark = node.mark;
      frame.node.entries.push_back(std::move(entry));
    } else {
      frame.has_key = false;
      // Where nothing is written yaml-cpp names the place of what comes next; the key says more.
      if (node.kind == Document::Kind::kNull) node.mark = frame.node.entries.back().mark;
      frame.node.entries.back().value = std::move(node);
    }
  }

  std::vector<Problem>* const problems_;
  std::vector<Frame> stack_;
  Document root_;
};

}  // namespace

absl::optional<Document> ParseDocument(absl::string_view text, std::vector<Problem>* problems) {
  const size_t problems_before = problems->size();
  if (text.size() > kMaxBytes) {
    problems->push_back({Mark{}, "longer than 1 MiB"});
    return absl::nullopt;
  }
  const size_t bad_byte = FindBadByte(text);
  if (bad_byte != absl::string_view::npos) {
    problems->push_back({MarkAt(text, bad_byte), "not UTF-8 text"});
    return absl::nullopt;
  }
  TreeBuilder builder(problems);
  bool any = false;
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    any = parser.HandleNextDocument(builder);
    TreeBuilder ignored(problems);
    if (any && parser.HandleNextDocument(ignored)) {
      problems->push_back({Mark{}, "holds more than one document"});
    }
  } catch (const YAML::Exception& error) {
    problems->push_back({ToMark(error.mark), error.msg});
  }
  if (problems->size() > problems_before) return absl::nullopt;
  Document root = builder.TakeRoot();
  if (!any || root.kind == Document::Kind::kNull) root.kind = Document::Kind::kMapping;
  return root;
}

}  // namespace capstan::config
