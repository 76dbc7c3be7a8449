#include "libs/kube/config/document_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace capstan::kube {
namespace {

using config::Document;
using config::Mark;

constexpr size_t kMaxReported = 20;

const char* KindName(const Document& node) {
  switch (node.kind) {
    case Document::Kind::kNull:
      return "nothing";
    case Document::Kind::kScalar:
      return "a single value";
    case Document::Kind::kSequence:
      return "a list";
    case Document::Kind::kMapping:
      return "a mapping";
  }
  return "something else";
}

absl::string_view ProblemKind(absl::string_view problem) {
  return problem.substr(0, problem.find(':'));
}

}  // namespace

void Findings::Add(absl::string_view file, Mark mark, absl::string_view field,
                   absl::string_view problem) {
  if (!field.empty() && !seen_.emplace(file, field).second) return;
  lines_.push_back(absl::StrCat(absl::CHexEscape(file), ":", mark.line, ":", mark.column, ": ",
                                field, field.empty() ? "" : ": ", problem));
  if (!field.empty()) violations_.Add(field, problem);
}

absl::Status Findings::ToStatus(absl::string_view reason) const {
  if (ok()) return absl::OkStatus();
  const size_t reported = std::min(lines_.size(), kMaxReported);
  std::string message = absl::StrJoin(lines_.begin(), lines_.begin() + reported, "\n");
  if (reported < lines_.size()) {
    absl::StrAppend(&message, "\nand ", lines_.size() - reported, " more");
  }
  absl::Status result = status::Error(absl::StatusCode::kInvalidArgument, reason, message);
  // The violations' payload is kept beside our own reason.
  violations_.ToStatus().ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!result.GetPayload(url).has_value()) result.SetPayload(url, payload);
  });
  return result;
}

absl::optional<Document> ParseText(absl::string_view text, absl::string_view file,
                                   Findings* findings) {
  std::vector<config::Problem> problems;
  absl::optional<Document> document = config::ParseDocument(text, &problems);
  for (const config::Problem& problem : problems) {
    // What is quoted, or comes after a colon, is of the text: it may be a secret at a wrong place.
    findings->Add(file, problem.mark, "",
                  absl::StartsWith(problem.text, "'") ? absl::string_view("a key is given twice")
                                                      : ProblemKind(problem.text));
  }
  if (document.has_value() && document->kind != Document::Kind::kMapping) {
    findings->Add(file, document->mark, "",
                  absl::StrCat("expected a mapping, found ", KindName(*document)));
    document.reset();
  }
  return document;
}

DocumentFields::DocumentFields(const Document* document, std::string file, std::string field,
                               Findings* findings)
    : document_(document), file_(std::move(file)), field_(std::move(field)), findings_(findings) {
  if (document_ == nullptr || document_->kind == Document::Kind::kMapping) return;
  if (document_->kind != Document::Kind::kNull) {
    findings_->Add(file_, document_->mark, field_,
                   absl::StrCat("expected a mapping, found ", KindName(*document_)));
  }
  document_ = nullptr;
}

const Document* DocumentFields::Find(absl::string_view key) const {
  if (document_ == nullptr) return nullptr;
  for (const Document::Entry& entry : document_->entries) {
    if (entry.key == key) {
      return entry.value.kind == Document::Kind::kNull ? nullptr : &entry.value;
    }
  }
  return nullptr;
}

std::string DocumentFields::ReadText(const Document& node, const std::string& field) const {
  if (node.kind != Document::Kind::kScalar) {
    findings_->Add(file_, node.mark, field, absl::StrCat("expected text, found ", KindName(node)));
    return "";
  }
  // Which ends the text for whoever takes it as C does.
  if (absl::StrContains(node.text, '\0')) {
    findings_->Add(file_, node.mark, field, "holds a zero byte");
    return "";
  }
  return node.text;
}

std::string DocumentFields::Text(absl::string_view key) const {
  const Document* const node = Find(key);
  return node == nullptr ? "" : ReadText(*node, Path(key));
}

std::string DocumentFields::Bytes(absl::string_view key) const {
  const Document* const node = Find(key);
  if (node == nullptr) return "";
  std::string bytes;
  if (!absl::Base64Unescape(ReadText(*node, Path(key)), &bytes)) {
    findings_->Add(file_, node->mark, Path(key), "expected base64");
    return "";
  }
  return bytes;
}

bool DocumentFields::Flag(absl::string_view key) const {
  const Document* const node = Find(key);
  if (node == nullptr) return false;
  if (node->kind == Document::Kind::kScalar && !node->quoted) {
    if (node->text == "true" || node->text == "True" || node->text == "TRUE") return true;
    if (node->text == "false" || node->text == "False" || node->text == "FALSE") return false;
  }
  findings_->Add(file_, node->mark, Path(key), "expected true or false, without quotes");
  return false;
}

std::vector<std::string> DocumentFields::Texts(absl::string_view key) const {
  const Document* const node = Find(key);
  if (node == nullptr) return {};
  if (node->kind != Document::Kind::kSequence) {
    findings_->Add(file_, node->mark, Path(key),
                   absl::StrCat("expected a list, found ", KindName(*node)));
    return {};
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < node->items.size(); ++i) {
    texts.push_back(ReadText(node->items[i], absl::StrCat(Path(key), "[", i, "]")));
  }
  return texts;
}

std::vector<DocumentFields> DocumentFields::Mappings(absl::string_view key) const {
  const Document* const node = Find(key);
  if (node == nullptr) return {};
  if (node->kind != Document::Kind::kSequence) {
    findings_->Add(file_, node->mark, Path(key),
                   absl::StrCat("expected a list, found ", KindName(*node)));
    return {};
  }
  std::vector<DocumentFields> mappings;
  for (size_t i = 0; i < node->items.size(); ++i) {
    mappings.emplace_back(&node->items[i], file_, absl::StrCat(Path(key), "[", i, "]"), findings_);
  }
  return mappings;
}

DocumentFields DocumentFields::Mapping(absl::string_view key) const {
  return DocumentFields(Find(key), file_, Path(key), findings_);
}

std::vector<std::string> DocumentFields::Keys() const {
  std::vector<std::string> keys;
  if (document_ == nullptr) return keys;
  for (const Document::Entry& entry : document_->entries) keys.push_back(entry.key);
  return keys;
}

std::string DocumentFields::Path(absl::string_view key) const {
  return field_.empty() ? std::string(key) : absl::StrCat(field_, ".", key);
}

void DocumentFields::Wrong(absl::string_view key, absl::string_view problem) const {
  Mark mark;
  if (document_ != nullptr) mark = document_->mark;
  const Document* const node = Find(key);
  if (node != nullptr) mark = node->mark;
  findings_->Add(file_, mark, Path(key), problem);
}

}  // namespace capstan::kube
