#include "libs/kube/config/document_json.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan::kube {
namespace {

using config::Document;

bool TakeDigits(absl::string_view* text) {
  const absl::string_view before = *text;
  while (!text->empty() && absl::ascii_isdigit(text->front())) text->remove_prefix(1);
  return text->size() < before.size();
}

bool TakeOneOf(absl::string_view any, absl::string_view* text) {
  if (text->empty() || any.find(text->front()) == absl::string_view::npos) return false;
  text->remove_prefix(1);
  return true;
}

// RFC 8259, section 6.
bool IsNumber(absl::string_view text) {
  TakeOneOf("-", &text);
  if (!TakeOneOf("0", &text) && !TakeDigits(&text)) return false;
  if (TakeOneOf(".", &text) && !TakeDigits(&text)) return false;
  if (TakeOneOf("eE", &text)) {
    TakeOneOf("+-", &text);
    if (!TakeDigits(&text)) return false;
  }
  return text.empty();
}

void Append(const Document& document, std::string* out) {
  absl::string_view separator;
  switch (document.kind) {
    case Document::Kind::kNull:
      out->append("null");
      return;
    case Document::Kind::kScalar:
      if (!document.quoted &&
          (document.text == "true" || document.text == "false" || IsNumber(document.text))) {
        out->append(document.text);
      } else {
        out->append(JsonQuote(document.text));
      }
      return;
    case Document::Kind::kSequence:
      out->push_back('[');
      for (const Document& item : document.items) {
        absl::StrAppend(out, separator);
        Append(item, out);
        separator = ",";
      }
      out->push_back(']');
      return;
    case Document::Kind::kMapping:
      out->push_back('{');
      for (const Document::Entry& entry : document.entries) {
        absl::StrAppend(out, separator, JsonQuote(entry.key), ":");
        Append(entry.value, out);
        separator = ",";
      }
      out->push_back('}');
      return;
  }
}

}  // namespace

std::string JsonQuote(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

std::string ToJson(const Document& document) {
  std::string out;
  Append(document, &out);
  return out;
}

}  // namespace capstan::kube
