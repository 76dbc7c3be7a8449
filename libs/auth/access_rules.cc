#include "libs/auth/access_rules.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "libs/status/error.h"

namespace capstan::auth {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::DescriptorPool;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::MethodDescriptor;
using ::google::protobuf::ServiceDescriptor;

absl::Status BadRule(const MethodDescriptor& method, absl::string_view why) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "BAD_ACCESS_RULE",
                       absl::StrCat("method ", method.full_name(), ": ", why),
                       {{"method", method.full_name()}});
}

bool HasCaller(const type::v1::AccessRule& rule, type::v1::AccessRule::Caller caller) {
  for (const int listed : rule.callers()) {
    if (listed == caller) return true;
  }
  return false;
}

// True if `path` leads through singular messages to a singular string.
bool IsStringPath(const Descriptor* message, absl::string_view path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    if (message == nullptr) return false;
    const FieldDescriptor* field = message->FindFieldByName(names[i]);
    if (field == nullptr || field->is_repeated()) return false;
    if (i + 1 == names.size()) return field->type() == FieldDescriptor::TYPE_STRING;
    message = field->message_type();
  }
  return false;
}

}  // namespace

const type::v1::AccessRule* AccessRules::Find(absl::string_view method) {
  {
    absl::ReaderMutexLock lock(&mutex_);
    const auto it = rules_.find(method);
    if (it != rules_.end()) return it->second.get();
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(absl::StripPrefix(method, "/"), '/');
  if (parts.size() != 2) return nullptr;
  const MethodDescriptor* descriptor =
      DescriptorPool::generated_pool()->FindMethodByName(absl::StrCat(parts[0], ".", parts[1]));
  if (descriptor == nullptr) return nullptr;
  std::unique_ptr<const type::v1::AccessRule> rule;
  if (descriptor->options().HasExtension(type::v1::access)) {
    rule = std::make_unique<type::v1::AccessRule>(
        descriptor->options().GetExtension(type::v1::access));
  }
  absl::MutexLock lock(&mutex_);
  return rules_.try_emplace(std::string(method), std::move(rule)).first->second.get();
}

absl::Status CheckServiceRules(absl::string_view service) {
  const ServiceDescriptor* descriptor =
      DescriptorPool::generated_pool()->FindServiceByName(std::string(service));
  if (descriptor == nullptr) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "UNKNOWN_SERVICE",
                         absl::StrCat("no descriptor of service ", service, " is linked in"),
                         {{"service", std::string(service)}});
  }
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const MethodDescriptor& method = *descriptor->method(i);
    if (!method.options().HasExtension(type::v1::access)) {
      return BadRule(method, "has no capstan.type.v1.access option");
    }
    const type::v1::AccessRule& rule = method.options().GetExtension(type::v1::access);
    if (rule.callers().empty()) return BadRule(method, "admits no caller");
    if (HasCaller(rule, type::v1::AccessRule::CALLER_UNSPECIFIED)) {
      return BadRule(method, "lists CALLER_UNSPECIFIED");
    }
    if (HasCaller(rule, type::v1::AccessRule::CALLER_SERVICE) == rule.services().empty()) {
      return BadRule(method, "must list services if and only if it admits CALLER_SERVICE");
    }
    if (rule.placement() && !HasCaller(rule, type::v1::AccessRule::CALLER_NODE)) {
      return BadRule(method, "asks Nodes for a Placement but admits none");
    }
    if (!rule.permission().empty() && !HasCaller(rule, type::v1::AccessRule::CALLER_PERSON)) {
      return BadRule(method, "asks for a permission but admits no person");
    }
    if (!rule.resource_field().empty() &&
        !IsStringPath(method.input_type(), rule.resource_field())) {
      return BadRule(method, absl::StrCat("resource_field '", rule.resource_field(),
                                          "' is not a string field of the request"));
    }
  }
  return absl::OkStatus();
}

std::string ResourceOf(const google::protobuf::Message& request, absl::string_view path) {
  const google::protobuf::Message* message = &request;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(names[i]);
    if (field == nullptr || field->is_repeated()) return "";
    if (i + 1 == names.size()) {
      if (field->type() != FieldDescriptor::TYPE_STRING) return "";
      return message->GetReflection()->GetString(*message, field);
    }
    if (field->message_type() == nullptr || !message->GetReflection()->HasField(*message, field)) {
      return "";
    }
    message = &message->GetReflection()->GetMessage(*message, field);
  }
  return "";
}

absl::string_view ProjectOf(absl::string_view resource) {
  if (!absl::ConsumePrefix(&resource, "projects/")) return "";
  return resource.substr(0, resource.find('/'));
}

}  // namespace capstan::auth
