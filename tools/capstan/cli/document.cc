#include "tools/capstan/cli/document.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace capstan::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

using Value = Document;

Value Text(std::string text) { return {Value::Kind::kText, std::move(text), {}, {}, false}; }
Value Number(std::string text) { return {Value::Kind::kNumber, std::move(text), {}, {}, false}; }
Value LongNumber(std::string text) {
  return {Value::Kind::kLongNumber, std::move(text), {}, {}, false};
}

Value RealNumber(double value) {
  if (!std::isfinite(value))
    return Text(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  return Number(absl::StrFormat("%.15g", value));
}

// `.5`, `.000000001`, or "" for none.
std::string Fraction(int32_t nanos) {
  if (nanos == 0) return "";
  std::string digits = absl::StrFormat(".%09d", std::abs(nanos));
  while (digits.back() == '0') digits.pop_back();
  return digits;
}

Value FieldValue(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* reflection = message.GetReflection();
  const bool repeated = index >= 0;
  const auto get = [&](auto single, auto element) {
    return repeated ? (reflection->*element)(message, field, index)
                    : (reflection->*single)(message, field);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Number(absl::StrCat(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return Number(absl::StrCat(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32)));
    case FieldDescriptor::CPPTYPE_INT64:
      return LongNumber(absl::StrCat(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return LongNumber(absl::StrCat(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return RealNumber(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return RealNumber(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Number(get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false");
    case FieldDescriptor::CPPTYPE_ENUM:
      return Text(get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = repeated ? reflection->GetRepeatedString(message, field, index)
                                        : reflection->GetString(message, field);
      return Text(field->type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text) : text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToDocument(repeated ? reflection->GetRepeatedMessage(message, field, index)
                                 : reflection->GetMessage(message, field));
  }
  return Text("");
}

Value MapValue(const Message& message, const FieldDescriptor* field) {
  Value object;
  object.kind = Value::Kind::kObject;
  const Reflection* reflection = message.GetReflection();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    object.members.emplace_back(FieldValue(entry, field->message_type()->map_key(), -1).scalar,
                                FieldValue(entry, field->message_type()->map_value(), -1));
  }
  std::sort(object.members.begin(), object.members.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return object;
}

void AppendQuoted(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out->append("\\\"");
        break;
      case '\\':
        out->append("\\\\");
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\t':
        out->append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned char>(c));
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

void AppendJson(const Value& value, const std::string& indent, std::string* out) {
  const std::string inner = indent + "  ";
  switch (value.kind) {
    case Value::Kind::kText:
    case Value::Kind::kLongNumber:
      return AppendQuoted(value.scalar, out);
    case Value::Kind::kNumber:
      out->append(value.scalar);
      return;
    case Value::Kind::kList:
      out->append("[");
      for (size_t i = 0; i < value.items.size(); ++i) {
        absl::StrAppend(out, i == 0 ? "\n" : ",\n", inner);
        AppendJson(value.items[i], inner, out);
      }
      absl::StrAppend(out, value.items.empty() ? "]" : absl::StrCat("\n", indent, "]"));
      return;
    case Value::Kind::kObject:
      out->append("{");
      for (size_t i = 0; i < value.members.size(); ++i) {
        absl::StrAppend(out, i == 0 ? "\n" : ",\n", inner);
        AppendQuoted(value.members[i].name, out);
        out->append(": ");
        AppendJson(value.members[i].value, inner, out);
      }
      absl::StrAppend(out, value.members.empty() ? "}" : absl::StrCat("\n", indent, "}"));
      return;
  }
}

// Whether YAML would read the text back as the same text without quotes. Conservative.
bool IsPlainYaml(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '/')) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains("_-./@", absl::string_view(&c, 1))) {
      return false;
    }
  }
  for (const char* word : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (absl::EqualsIgnoreCase(text, word)) return false;
  }
  return true;
}

void AppendYamlScalar(const Value& value, std::string* out) {
  if (value.kind != Value::Kind::kText || IsPlainYaml(value.scalar)) {
    out->append(value.scalar);
  } else {
    AppendQuoted(value.scalar, out);
  }
}

// Writes lines at `indent`; the first begins where the output stands.
void AppendYaml(const Value& value, const std::string& indent, std::string* out) {
  if (!value.IsCollection()) {
    AppendYamlScalar(value, out);
    out->push_back('\n');
    return;
  }
  if (value.items.empty() && value.members.empty()) {
    out->append(value.kind == Value::Kind::kList ? "[]\n" : "{}\n");
    return;
  }
  bool first = true;
  for (const Value& item : value.items) {
    absl::StrAppend(out, first ? "" : indent, "- ");
    AppendYaml(item, indent + "  ", out);
    first = false;
  }
  for (const auto& [name, member] : value.members) {
    absl::StrAppend(out, first ? "" : indent);
    AppendYamlScalar(Text(name), out);
    out->append(":");
    const bool below = member.IsCollection() && !(member.items.empty() && member.members.empty());
    if (below) {
      absl::StrAppend(out, "\n", indent, "  ");
    } else {
      out->append(" ");
    }
    AppendYaml(member, indent + "  ", out);
    first = false;
  }
}

void AppendCompactJson(const Value& value, std::string* out) {
  switch (value.kind) {
    case Value::Kind::kText:
    case Value::Kind::kLongNumber:
      return AppendQuoted(value.scalar, out);
    case Value::Kind::kNumber:
      out->append(value.scalar);
      return;
    case Value::Kind::kList:
      out->append("[");
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out->append(",");
        AppendCompactJson(value.items[i], out);
      }
      out->append("]");
      return;
    case Value::Kind::kObject:
      out->append("{");
      for (size_t i = 0; i < value.members.size(); ++i) {
        if (i > 0) out->append(",");
        AppendQuoted(value.members[i].name, out);
        out->append(":");
        AppendCompactJson(value.members[i].value, out);
      }
      out->append("}");
      return;
  }
}

}  // namespace

const Document* Document::Find(absl::string_view name) const {
  for (const Member& member : members) {
    if (member.name == name) return &member.value;
  }
  if (resource_list && name == "items") return &members.front().value;
  return nullptr;
}

Document ToDocument(const Message& message) {
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == "google.protobuf.Duration") {
    const auto& duration = static_cast<const google::protobuf::Duration&>(message);
    const bool negative = duration.seconds() < 0 || duration.nanos() < 0;
    return Text(absl::StrCat(negative ? "-" : "", std::abs(duration.seconds()),
                             Fraction(duration.nanos()), "s"));
  }
  if (type == "google.protobuf.Timestamp") {
    const auto& time = static_cast<const google::protobuf::Timestamp&>(message);
    return Text(
        absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(time.seconds()),
                                      absl::UTCTimeZone()),
                     Fraction(time.nanos()), "Z"));
  }
  Value object;
  object.kind = Value::Kind::kObject;
  const Reflection* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->is_map()) {
      if (reflection->FieldSize(message, field) == 0) continue;
      object.members.emplace_back(field->name(), MapValue(message, field));
    } else if (field->is_repeated()) {
      if (reflection->FieldSize(message, field) == 0) continue;
      Value list;
      list.kind = Value::Kind::kList;
      for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
        list.items.push_back(FieldValue(message, field, k));
      }
      object.members.emplace_back(field->name(), std::move(list));
    } else if (reflection->HasField(message, field)) {
      object.members.emplace_back(field->name(), FieldValue(message, field, -1));
    }
  }
  return object;
}

Document ToDocument(absl::string_view field, const std::vector<const Message*>& list) {
  Document items;
  items.kind = Document::Kind::kList;
  for (const Message* message : list) items.items.push_back(ToDocument(*message));
  Document object;
  object.kind = Document::Kind::kObject;
  object.resource_list = true;
  object.members.emplace_back(std::string(field), std::move(items));
  return object;
}

std::string ToJson(const Document& document) {
  std::string out;
  AppendJson(document, "", &out);
  out.push_back('\n');
  return out;
}

std::string ToYaml(const Document& document) {
  std::string out;
  AppendYaml(document, "", &out);
  return out;
}

std::string ToCompactJson(const Document& document) {
  std::string out;
  AppendCompactJson(document, &out);
  return out;
}

}  // namespace capstan::cli
