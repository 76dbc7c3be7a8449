// Update masks of callers, on messages with fields of every kind: what a mask names is replaced as
// the plain way of doing it replaces it, and a mask that is refused changes nothing.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/resource/field_mask.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using google::protobuf::FieldDescriptor;
using google::protobuf::FieldMask;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

bool IsSet(const Message& message, const FieldDescriptor* field) {
  const auto* reflection = message.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(message, field) > 0
                              : reflection->HasField(message, field);
}

// One path after the other, each by copies of whole messages. False if the path does not exist.
bool CopyPath(const Message& source, const std::vector<std::string>& path, size_t depth,
              Message* target) {
  const FieldDescriptor* field = source.GetDescriptor()->FindFieldByName(path[depth]);
  if (field == nullptr) return false;
  const auto* reflection = target->GetReflection();
  if (depth + 1 < path.size()) {
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return false;
    if (!IsSet(source, field) && !IsSet(*target, field)) {
      // Whether it exists is still to be seen.
      const std::unique_ptr<Message> none(target->New());
      return CopyPath(reflection->GetMessage(source, field), path, depth + 1,
                      reflection->MutableMessage(none.get(), field));
    }
    return CopyPath(source.GetReflection()->GetMessage(source, field), path, depth + 1,
                    reflection->MutableMessage(target, field));
  }
  reflection->ClearField(target, field);
  if (!IsSet(source, field)) return true;
  const std::unique_ptr<Message> only(source.New());
  only->CopyFrom(source);
  only->GetReflection()->MutableUnknownFields(only.get())->Clear();
  std::vector<const FieldDescriptor*> fields;
  only->GetReflection()->ListFields(*only, &fields);
  for (const FieldDescriptor* other : fields) {
    if (other != field) only->GetReflection()->ClearField(only.get(), other);
  }
  target->MergeFrom(*only);
  return true;
}

bool IsBelow(const std::string& path, const std::set<std::string>& above) {
  for (const std::string& one : above) {
    if (path == one || absl::StartsWith(path, absl::StrCat(one, "."))) return true;
  }
  return false;
}

// Absent if the mask is to be refused.
std::unique_ptr<Message> Expected(const FieldMask& mask, const Message& source,
                                  const std::set<std::string>& output_only, const Message& target) {
  std::unique_ptr<Message> result(target.New());
  result->CopyFrom(target);
  std::vector<std::string> paths(mask.paths().begin(), mask.paths().end());
  if (paths.size() > capstan::resource::kMaxMaskPaths) return nullptr;
  const bool all = paths == std::vector<std::string>{"*"};
  if (all || paths.empty()) {
    paths.clear();
    const auto* descriptor = source.GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      if (all || IsSet(source, descriptor->field(i))) paths.push_back(descriptor->field(i)->name());
    }
  }
  for (const std::string& path : paths) {
    std::unique_ptr<Message> passed_over(target.New());
    Message* into = IsBelow(path, output_only) ? passed_over.get() : result.get();
    const std::vector<std::string> segments = absl::StrSplit(path, '.');
    if (path.size() > 256 || !CopyPath(source, segments, 0, into)) return nullptr;
  }
  return result;
}

void Check(const FieldMask& mask, const Message& source, const std::set<std::string>& output_only,
           Message* target) {
  const std::unique_ptr<Message> before(target->New());
  before->CopyFrom(*target);
  const auto expected = Expected(mask, source, output_only, *target);
  const absl::Status status = capstan::resource::ApplyFieldMask(mask, source, output_only, target);
  Require(status.ok() == (expected != nullptr));
  Require(MessageDifferencer::Equals(*target, status.ok() ? *expected : *before));
  if (!status.ok()) return;
  // Once more changes nothing.
  Require(capstan::resource::ApplyFieldMask(mask, source, output_only, target).ok());
  Require(MessageDifferencer::Equals(*target, *expected));
}

template <typename MessageType>
void CheckMessages(const FieldMask& mask, const std::set<std::string>& output_only,
                   const std::vector<std::string>& words, FuzzInput* input) {
  const auto source = capstan::fuzzing::MakeMessage<MessageType>(words, input);
  auto target = capstan::fuzzing::MakeMessage<MessageType>(words, input);
  Check(mask, source, output_only, &target);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  // Of FileDescriptorProto and Value: a path goes down by the dots.
  const std::vector<std::string> words = {"name",
                                          "options",
                                          "options.java_package",
                                          "options.java_multiple_files",
                                          "options.optimize_for",
                                          "options.uninterpreted_option",
                                          "options.uninterpreted_option.name",
                                          "source_code_info",
                                          "source_code_info.location",
                                          "message_type",
                                          "dependency",
                                          "public_dependency",
                                          "syntax",
                                          "*",
                                          "",
                                          ".",
                                          "struct_value",
                                          "struct_value.fields",
                                          "struct_value.fields.a",
                                          "list_value",
                                          "list_value.values",
                                          "string_value",
                                          "number_value",
                                          "null_value"};
  const bool of_value = input.Flag();
  FieldMask mask;
  const size_t few = input.Below(8);
  for (size_t paths = few == 7 ? input.Byte() : few; paths > 0; --paths) {
    mask.add_paths(input.Word(words));
  }
  const std::set<std::string> output_only = {"syntax", "options.java_package", "number_value"};
  if (of_value) {
    CheckMessages<google::protobuf::Value>(mask, output_only, words, &input);
  } else {
    CheckMessages<google::protobuf::FileDescriptorProto>(mask, output_only, words, &input);
  }
  return 0;
}
