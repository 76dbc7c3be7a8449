#include "libs/resource/field_mask.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::resource {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Longer than any path of our messages.
constexpr size_t kMaxPathBytes = 256;

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

// Moves one field whole, or clears it if the source has none.
void MoveField(Message* source, const FieldDescriptor* field, Message* target) {
  const auto* reflection = target->GetReflection();
  reflection->ClearField(target, field);
  if (!IsSet(*source, field)) return;
  // All fields of a oneof change places: what the target had must not come back by another path.
  if (field->containing_oneof() != nullptr) {
    reflection->ClearOneof(target, field->containing_oneof());
  }
  reflection->SwapFields(source, target, {field});
}

// What the path leads to from that depth on.
void ClearPath(const std::vector<const FieldDescriptor*>& path, size_t depth, Message* target) {
  for (; depth + 1 < path.size(); ++depth) {
    if (!IsSet(*target, path[depth])) return;
    target = target->GetReflection()->MutableMessage(target, path[depth]);
  }
  target->GetReflection()->ClearField(target, path.back());
}

void MovePath(Message* source, const std::vector<const FieldDescriptor*>& path, Message* target) {
  for (size_t depth = 0; depth + 1 < path.size(); ++depth) {
    const FieldDescriptor* field = path[depth];
    // A message made in the source for it would end what else the source has of a oneof.
    if (!IsSet(*source, field)) return ClearPath(path, depth, target);
    source = source->GetReflection()->MutableMessage(source, field);
    target = target->GetReflection()->MutableMessage(target, field);
  }
  MoveField(source, path.back(), target);
}

}  // namespace

absl::Status CheckFieldMask(const google::protobuf::FieldMask& mask, const Descriptor* descriptor) {
  if (mask.paths_size() > kMaxMaskPaths) {
    status::FieldErrors errors;
    errors.Add("update_mask",
               absl::StrCat("has ", mask.paths_size(), " paths; expected at most ", kMaxMaskPaths));
    return errors.ToStatus();
  }
  const bool replace_all = mask.paths_size() == 1 && mask.paths(0) == "*";
  if (replace_all) return absl::OkStatus();
  for (const std::string& path : mask.paths()) {
    if (path.size() > kMaxPathBytes) return BadPath(path.substr(0, 40), "is the start of no path");
    CAPSTAN_RETURN_IF_ERROR(Resolve(descriptor, path).status());
  }
  return absl::OkStatus();
}

absl::Status ApplyFieldMask(const google::protobuf::FieldMask& mask, const Message& source,
                            const std::set<std::string>& output_only, Message* target) {
  const Descriptor* descriptor = source.GetDescriptor();
  CAPSTAN_RETURN_IF_ERROR(CheckFieldMask(mask, descriptor));
  // Each once, and one that lies below another directly behind it.
  std::set<std::string> paths(mask.paths().begin(), mask.paths().end());
  const bool replace_all = paths.count("*") > 0;
  if (paths.empty() || replace_all) {
    paths.clear();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      if (replace_all || IsSet(source, field)) paths.insert(field->name());
    }
  }
  // Moved out of one copy, so that the cost is that of the message, however many paths there are.
  const std::unique_ptr<Message> copy(source.New());
  copy->CopyFrom(source);
  std::string moved;
  for (const std::string& path : paths) {
    if (IsOutputOnly(path, output_only)) continue;
    if (!moved.empty() && absl::StartsWith(path, moved)) continue;
    moved = absl::StrCat(path, ".");
    CAPSTAN_ASSIGN_OR_RETURN(const auto fields, Resolve(descriptor, path));
    MovePath(copy.get(), fields, target);
  }
  return absl::OkStatus();
}

}  // namespace capstan::resource
