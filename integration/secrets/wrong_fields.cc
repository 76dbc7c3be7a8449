#include "integration/secrets/wrong_fields.h"

#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"

namespace capstan::integration {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kDepth = 4;

void Fill(Message* message, const std::string& text, int depth) {
  const auto* reflection = message->GetReflection();
  const auto* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    // Of a oneof the last one would stay alone.
    const auto* choice = field->real_containing_oneof();
    if (choice != nullptr && choice->field(0) != field) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (field->is_repeated()) {
        reflection->AddString(message, field, text);
      } else {
        reflection->SetString(message, field, text);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth > 0 &&
               !absl::StartsWith(field->message_type()->full_name(), "google.protobuf.")) {
      Fill(field->is_repeated() ? reflection->AddMessage(message, field)
                                : reflection->MutableMessage(message, field),
           text, depth - 1);
    }
  }
}

}  // namespace

void FillTexts(Message* message, absl::string_view text) {
  Fill(message, std::string(text), kDepth);
}

std::unique_ptr<Message> RequestFullOf(const Method& method, absl::string_view text) {
  std::unique_ptr<Message> request = RequestOf(method);
  FillTexts(request.get(), text);
  return request;
}

}  // namespace capstan::integration
