#include "libs/fuzzing/fuzz_message.h"

#include "google/protobuf/descriptor.h"

namespace capstan::fuzzing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kDeepest = 8;

void Fill(const std::vector<std::string>& words, int depth, FuzzInput* input, Message* message);

// Mostly one that is known: proto3 lets others through.
int EnumNumber(const FieldDescriptor& field, FuzzInput* input) {
  const uint8_t choice = input->Byte();
  if (choice >= 240) return choice;
  return field.enum_type()->value(choice % field.enum_type()->value_count())->number();
}

void SetField(const std::vector<std::string>& words, int depth, const FieldDescriptor* field,
              FuzzInput* input, Message* message) {
  const Reflection* reflection = message->GetReflection();
  const bool more = field->is_repeated();
  switch (field->cpp_type()) {
#define CAPSTAN_SET(kind, Name, value)                \
  case FieldDescriptor::kind:                         \
    if (more) {                                       \
      reflection->Add##Name(message, field, (value)); \
    } else {                                          \
      reflection->Set##Name(message, field, (value)); \
    }                                                 \
    return
    CAPSTAN_SET(CPPTYPE_INT32, Int32, static_cast<int32_t>(input->Number()));
    CAPSTAN_SET(CPPTYPE_INT64, Int64, input->Number());
    CAPSTAN_SET(CPPTYPE_UINT32, UInt32, static_cast<uint32_t>(input->Number()));
    CAPSTAN_SET(CPPTYPE_UINT64, UInt64, static_cast<uint64_t>(input->Number()));
    CAPSTAN_SET(CPPTYPE_DOUBLE, Double, static_cast<double>(input->Number()) / 4);
    CAPSTAN_SET(CPPTYPE_FLOAT, Float, static_cast<float>(input->Number()) / 4);
    CAPSTAN_SET(CPPTYPE_BOOL, Bool, input->Flag());
    CAPSTAN_SET(CPPTYPE_ENUM, EnumValue, EnumNumber(*field, input));
    CAPSTAN_SET(CPPTYPE_STRING, String, input->Word(words));
#undef CAPSTAN_SET
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth >= kDeepest) return;
      Fill(words, depth + 1, input,
           more ? reflection->AddMessage(message, field)
                : reflection->MutableMessage(message, field));
      return;
  }
}

void Fill(const std::vector<std::string>& words, int depth, FuzzInput* input, Message* message) {
  const Descriptor* descriptor = message->GetDescriptor();
  if (descriptor->field_count() == 0) return;
  for (size_t i = input->Below(descriptor->field_count() + 3); i > 0 && !input->empty(); --i) {
    const auto field = static_cast<int>(input->Below(descriptor->field_count()));
    SetField(words, depth, descriptor->field(field), input, message);
  }
}

}  // namespace

void FillMessage(const std::vector<std::string>& words, FuzzInput* input, Message* message) {
  Fill(words, 0, input, message);
}

}  // namespace capstan::fuzzing
