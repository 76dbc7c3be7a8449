#include "libs/config/proto_reader.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/config/spelling.h"
#include "libs/resource/quantity.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

constexpr size_t kMaxReported = 20;

// How the value of an integer field is written.
enum class Notation { kInteger, kQuantity, kMilliQuantity };

// A field with the notation that its key stands for.
struct Target {
  const FieldDescriptor* field = nullptr;
  Notation notation = Notation::kInteger;
};

// Where a value goes: an element of a repeated field, or the field itself.
struct Slot {
  Message* message;
  const FieldDescriptor* field;
  Notation notation;
};

const char* KindName(Document::Kind kind) {
  switch (kind) {
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

bool IsIntegral(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return true;
    default:
      return false;
  }
}

// `task_group_state` of `TaskGroupState`.
std::string UpperSnake(const std::string& camel) {
  std::string out;
  for (size_t i = 0; i < camel.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(camel[i]) && !absl::ascii_isupper(camel[i - 1])) {
      out.push_back('_');
    }
    out.push_back(absl::ascii_toupper(camel[i]));
  }
  return out;
}

class Reader {
 public:
  struct Finding {
    Mark mark;
    std::string path;
    std::string text;
  };

  explicit Reader(SourceMap* source_map) : source_map_(source_map) {}

  void ReadMessage(const Document& node, const std::string& path, Message* message) {
    Remember(path, node.mark);
    if (node.kind != Document::Kind::kMapping) {
      return Wrong(node, path, absl::StrCat("expected a mapping, found ", KindName(node.kind)));
    }
    std::set<const FieldDescriptor*> seen;
    std::set<const OneofDescriptor*> seen_oneofs;
    for (const Document::Entry& entry : node.entries) {
      const Target target = Find(message->GetDescriptor(), entry.key);
      const std::string entry_path = Join(path, target.field ? target.field->name() : entry.key);
      if (target.field == nullptr) {
        Unknown(entry, entry_path, message->GetDescriptor());
        continue;
      }
      if (!seen.insert(target.field).second) {
        Wrong(entry.mark, entry_path, "is given twice");
        continue;
      }
      const OneofDescriptor* oneof = target.field->real_containing_oneof();
      if (oneof != nullptr && !seen_oneofs.insert(oneof).second) {
        Wrong(entry.mark, entry_path,
              absl::StrCat("only one kind of ", oneof->name(), " can be given"));
        continue;
      }
      ReadField(entry.value, entry_path, {message, target.field, target.notation});
    }
  }

  std::vector<Finding>& findings() { return findings_; }

 private:
  static std::string Join(const std::string& path, const std::string& key) {
    return path.empty() ? key : absl::StrCat(path, ".", key);
  }

  void Remember(const std::string& path, Mark mark) {
    if (source_map_ != nullptr) source_map_->emplace(path, mark);
  }

  void Wrong(Mark mark, const std::string& path, std::string text) {
    findings_.push_back({mark, path, std::move(text)});
  }
  void Wrong(const Document& node, const std::string& path, std::string text) {
    Wrong(node.mark, path, std::move(text));
  }

  static Target Find(const Descriptor* descriptor, const std::string& key) {
    const FieldDescriptor* field = descriptor->FindFieldByName(key);
    if (field == nullptr) field = descriptor->FindFieldByCamelcaseName(key);
    if (field != nullptr) {
      const bool bytes = IsIntegral(field) && absl::EndsWith(field->name(), "_bytes");
      return {field, bytes ? Notation::kQuantity : Notation::kInteger};
    }
    field = descriptor->FindFieldByName(absl::StrCat(key, "_bytes"));
    if (field != nullptr && IsIntegral(field)) return {field, Notation::kQuantity};
    field = descriptor->FindFieldByName(absl::StrCat(key, "_millis"));
    if (field != nullptr && IsIntegral(field)) return {field, Notation::kMilliQuantity};
    return {};
  }

  void Unknown(const Document::Entry& entry, const std::string& path,
               const Descriptor* descriptor) {
    std::vector<std::string> known;
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      known.push_back(field->name());
      for (const char* suffix : {"_bytes", "_millis"}) {
        if (IsIntegral(field) && absl::EndsWith(field->name(), suffix)) {
          known.emplace_back(absl::StripSuffix(field->name(), suffix));
        }
      }
    }
    const std::string nearest = NearestWord(entry.key, known);
    Wrong(entry.mark, path,
          nearest.empty() ? "unknown field"
                          : absl::StrCat("unknown field; did you mean '", nearest, "'?"));
  }

  void ReadField(const Document& node, const std::string& path, const Slot& slot) {
    Remember(path, node.mark);
    if (slot.field->is_map()) return ReadMap(node, path, slot);
    if (!slot.field->is_repeated()) return ReadValue(node, path, slot);
    if (node.kind != Document::Kind::kSequence) {
      return Wrong(node, path, absl::StrCat("expected a list, found ", KindName(node.kind)));
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      ReadValue(node.items[i], absl::StrCat(path, "[", i, "]"), slot);
    }
  }

  // Map entries are messages with the fields `key` (1) and `value` (2).
  void ReadMap(const Document& node, const std::string& path, const Slot& slot) {
    if (node.kind != Document::Kind::kMapping) {
      return Wrong(node, path, absl::StrCat("expected a mapping, found ", KindName(node.kind)));
    }
    const Descriptor* entry_type = slot.field->message_type();
    for (const Document::Entry& entry : node.entries) {
      const std::string entry_path = absl::StrCat(path, "[\"", entry.key, "\"]");
      Message* target = slot.message->GetReflection()->AddMessage(slot.message, slot.field);
      Document key;
      key.kind = Document::Kind::kScalar;
      key.mark = entry.mark;
      key.text = entry.key;
      ReadValue(key, entry_path, {target, entry_type->map_key(), Notation::kInteger});
      ReadValue(entry.value, entry_path, {target, entry_type->map_value(), Notation::kInteger});
    }
  }

  void ReadValue(const Document& node, const std::string& path, const Slot& slot) {
    Remember(path, node.mark);
    const FieldDescriptor* field = slot.field;
    const Reflection* reflection = slot.message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* child = field->is_repeated() ? reflection->AddMessage(slot.message, field)
                                            : reflection->MutableMessage(slot.message, field);
      const std::string& type = field->message_type()->full_name();
      if (type == "google.protobuf.Duration") return ReadDuration(node, path, child);
      if (type == "google.protobuf.Timestamp") return ReadTimestamp(node, path, child);
      return ReadMessage(node, path, child);
    }
    if (node.kind != Document::Kind::kScalar) {
      return Wrong(node, path,
                   absl::StrCat("expected ", Expected(slot), ", found ", KindName(node.kind)));
    }
    ReadScalar(node, path, slot);
  }

  static std::string Expected(const Slot& slot) {
    switch (slot.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return slot.field->type() == FieldDescriptor::TYPE_BYTES ? "base64 text" : "text";
      case FieldDescriptor::CPPTYPE_BOOL:
        return "true or false";
      case FieldDescriptor::CPPTYPE_ENUM:
        return "one of its names";
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        return "a number";
      default:
        return slot.notation == Notation::kInteger ? "a whole number"
                                                   : "a quantity such as 4Gi or 500m";
    }
  }

  template <typename Value, typename Set, typename Add>
  static void Store(const Slot& slot, const Value& value, Set set, Add add) {
    const Reflection* reflection = slot.message->GetReflection();
    if (slot.field->is_repeated()) {
      (reflection->*add)(slot.message, slot.field, value);
    } else {
      (reflection->*set)(slot.message, slot.field, value);
    }
  }

  void ReadScalar(const Document& node, const std::string& path, const Slot& slot) {
    const auto wrong = [&] {
      Wrong(node, path,
            absl::StrCat("expected ", Expected(slot), ", found '",
                         absl::string_view(node.text).substr(0, 64), "'"));
    };
    switch (slot.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string value = node.text;
        if (slot.field->type() == FieldDescriptor::TYPE_BYTES &&
            !absl::Base64Unescape(node.text, &value)) {
          return wrong();
        }
        return Store(slot, value, &Reflection::SetString, &Reflection::AddString);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        if (node.quoted || (node.text != "true" && node.text != "false")) return wrong();
        return Store(slot, node.text == "true", &Reflection::SetBool, &Reflection::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return ReadEnum(node, path, slot);
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = 0;
        if (node.quoted || !absl::SimpleAtod(node.text, &value)) return wrong();
        return Store(slot, value, &Reflection::SetDouble, &Reflection::AddDouble);
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        float value = 0;
        if (node.quoted || !absl::SimpleAtof(node.text, &value)) return wrong();
        return Store(slot, value, &Reflection::SetFloat, &Reflection::AddFloat);
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        int32_t value = 0;
        if (node.quoted || !absl::SimpleAtoi(node.text, &value)) return wrong();
        return Store(slot, value, &Reflection::SetInt32, &Reflection::AddInt32);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        uint32_t value = 0;
        if (node.quoted || !absl::SimpleAtoi(node.text, &value)) return wrong();
        return Store(slot, value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        uint64_t value = 0;
        if (node.quoted || !absl::SimpleAtoi(node.text, &value)) return wrong();
        return Store(slot, value, &Reflection::SetUInt64, &Reflection::AddUInt64);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        return ReadInt64(node, path, slot);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;  // Handled by ReadValue.
    }
  }

  void ReadInt64(const Document& node, const std::string& path, const Slot& slot) {
    int64_t value = 0;
    if (slot.notation == Notation::kInteger) {
      if (node.quoted || !absl::SimpleAtoi(node.text, &value)) {
        return Wrong(node, path,
                     absl::StrCat("expected ", Expected(slot), ", found '",
                                  absl::string_view(node.text).substr(0, 64), "'"));
      }
    } else {
      const auto parsed = slot.notation == Notation::kQuantity
                              ? resource::ParseQuantity(node.text)
                              : resource::ParseMilliQuantity(node.text);
      if (!parsed.ok()) return Wrong(node, path, std::string(parsed.status().message()));
      value = *parsed;
    }
    Store(slot, value, &Reflection::SetInt64, &Reflection::AddInt64);
  }

  void ReadEnum(const Document& node, const std::string& path, const Slot& slot) {
    const EnumDescriptor* type = slot.field->enum_type();
    const std::string prefix = absl::StrCat(UpperSnake(type->name()), "_");
    const std::string given = absl::AsciiStrToUpper(node.text);
    std::vector<std::string> names;
    for (int i = 0; i < type->value_count(); ++i) {
      const EnumValueDescriptor* value = type->value(i);
      if (value->number() == 0) continue;
      const std::string short_name(absl::StripPrefix(value->name(), prefix));
      names.push_back(short_name);
      if (given != value->name() && given != short_name) continue;
      return Store(slot, value, &Reflection::SetEnum, &Reflection::AddEnum);
    }
    const std::string nearest = NearestWord(given, names);
    Wrong(node, path,
          absl::StrCat("'", absl::string_view(node.text).substr(0, 64), "' is no ", type->name(),
                       nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")));
  }

  void ReadDuration(const Document& node, const std::string& path, Message* message) {
    if (node.kind != Document::Kind::kScalar) {
      return Wrong(node, path,
                   absl::StrCat("expected a duration such as 30s, found ", KindName(node.kind)));
    }
    const auto duration = resource::ParseDuration(node.text);
    if (!duration.ok()) return Wrong(node, path, std::string(duration.status().message()));
    message->CopyFrom(ToProto(*duration));
  }

  void ReadTimestamp(const Document& node, const std::string& path, Message* message) {
    absl::Time time;
    std::string error;
    if (node.kind != Document::Kind::kScalar ||
        !absl::ParseTime(absl::RFC3339_full, node.text, &time, &error)) {
      return Wrong(node, path, "expected a time such as 2026-01-02T15:04:05Z");
    }
    message->CopyFrom(ToProto(time));
  }

  SourceMap* const source_map_;
  std::vector<Finding> findings_;
};

absl::Status ToStatus(absl::string_view file, const std::vector<Reader::Finding>& findings) {
  if (findings.empty()) return absl::OkStatus();
  status::FieldErrors violations;
  std::string message;
  for (size_t i = 0; i < findings.size() && i < kMaxReported; ++i) {
    const Reader::Finding& finding = findings[i];
    violations.Add(finding.path, finding.text);
    absl::StrAppend(&message, i == 0 ? "" : "\n", file, ":", finding.mark.line, ":",
                    finding.mark.column, ": ", finding.path, finding.path.empty() ? "" : ": ",
                    finding.text);
  }
  if (findings.size() > kMaxReported) {
    absl::StrAppend(&message, "\n", file, ": and ", findings.size() - kMaxReported, " more");
  }
  absl::Status status = status::Error(absl::StatusCode::kInvalidArgument, "INVALID_FILE", message,
                                      {{"file", std::string(file)}});
  const absl::Status with_violations = violations.ToStatus();
  // The violations' payload is kept beside our own reason.
  with_violations.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!status.GetPayload(url).has_value()) status.SetPayload(url, payload);
  });
  return status;
}

}  // namespace

absl::Status ReadProto(absl::string_view text, absl::string_view file, Message* message,
                       SourceMap* source_map) {
  std::vector<Problem> problems;
  const absl::optional<Document> document = ParseDocument(text, &problems);
  Reader reader(source_map);
  for (Problem& problem : problems) {
    reader.findings().push_back({problem.mark, "", std::move(problem.text)});
  }
  if (document.has_value()) reader.ReadMessage(*document, "", message);
  return ToStatus(file, reader.findings());
}

absl::Status ReadProtoFile(const std::string& path, Message* message, SourceMap* source_map) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (!in) {
    const int error = errno != 0 ? errno : EIO;
    return status::Error(
        absl::ErrnoToStatusCode(error), "FILE_NOT_READABLE",
        std::string(absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path)).message()),
        {{"file", path}});
  }
  return ReadProto(text, path, message, source_map);
}

}  // namespace capstan::config
