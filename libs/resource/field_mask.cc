#include "libs/resource/field_mask.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::resource {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status BadPath(absl::string_view path, absl::string_view why) {
  status::FieldErrors errors;
  errors.Add("update_mask", absl::StrCat("'", path, "' ", why));
  return errors.ToStatus();
}

absl::StatusOr<std::vector<const FieldDescriptor*>> Resolve(const Descriptor* descriptor,
                                                            const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  for (const absl::string_view segment : absl::StrSplit(path, '.')) {
    if (descriptor == nullptr) {
      return BadPath(path, absl::StrCat("goes below ", fields.back()->name(),
                                        ", which is not a single message"));
    }
    const FieldDescriptor* field = descriptor->FindFieldByName(std::string(segment));
    if (field == nullptr) {
      return BadPath(path, absl::StrCat("names no field of ", descriptor->name()));
    }
    fields.push_back(field);
    const bool enterable =
        !field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    descriptor = enterable ? field->message_type() : nullptr;
  }
  return fields;
}

bool IsOutputOnly(const std::string& path, const std::set<std::string>& output_only) {
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    if (output_only.count(path.substr(0, end)) > 0) return true;
    if (end == std::string::npos) return false;
  }
}

bool IsSet(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(message, field) > 0
                              : reflection->HasField(message, field);
}

// Copies one field whole, or clears it if the source has none.
void CopyField(const Message& source, const FieldDescriptor* field, Message* target) {
  const auto* reflection = target->GetReflection();
  reflection->ClearField(target, field);
  if (!IsSet(source, field)) return;
  // A message with only this field, merged: one line for every type there is.
  std::unique_ptr<Message> only(source.New());
  only->CopyFrom(source);
  std::vector<const FieldDescriptor*> set_fields;
  only->GetReflection()->ListFields(*only, &set_fields);
  for (const FieldDescriptor* other : set_fields) {
    if (other != field) only->GetReflection()->ClearField(only.get(), other);
  }
  target->MergeFrom(*only);
}

void CopyPath(const Message& source, const std::vector<const FieldDescriptor*>& path, size_t depth,
              Message* target) {
  const FieldDescriptor* field = path[depth];
  if (depth + 1 == path.size()) return CopyField(source, field, target);
  if (!IsSet(source, field) && !IsSet(*target, field)) return;
  CopyPath(source.GetReflection()->GetMessage(source, field), path, depth + 1,
           target->GetReflection()->MutableMessage(target, field));
}

}  // namespace

absl::Status ApplyFieldMask(const google::protobuf::FieldMask& mask, const Message& source,
                            const std::set<std::string>& output_only, Message* target) {
  const Descriptor* descriptor = source.GetDescriptor();
  std::vector<std::string> paths(mask.paths().begin(), mask.paths().end());
  const bool replace_all = paths.size() == 1 && paths[0] == "*";
  if (paths.empty() || replace_all) {
    paths.clear();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      if (replace_all || IsSet(source, field)) paths.push_back(field->name());
    }
  }
  std::vector<std::vector<const FieldDescriptor*>> resolved;
  for (const std::string& path : paths) {
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<const FieldDescriptor*> fields, Resolve(descriptor, path));
    if (!IsOutputOnly(path, output_only)) resolved.push_back(std::move(fields));
  }
  for (const auto& fields : resolved) CopyPath(source, fields, 0, target);
  return absl::OkStatus();
}

}  // namespace capstan::resource
