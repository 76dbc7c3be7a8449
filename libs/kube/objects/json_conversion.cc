#include "libs/kube/objects/json_conversion.h"

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::json;

// Messages whose JSON is not an object of their fields.
enum class Shape { kFields, kTime, kMicroTime, kQuantity, kIntOrString, kRaw, kList };

Shape ShapeOf(const google::protobuf::Descriptor& type) {
  static const auto* const shapes = new std::map<std::string, Shape>{
      {"k8s.io.apimachinery.pkg.apis.meta.v1.Time", Shape::kTime},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", Shape::kMicroTime},
      {"k8s.io.apimachinery.pkg.api.resource.Quantity", Shape::kQuantity},
      {"k8s.io.apimachinery.pkg.util.intstr.IntOrString", Shape::kIntOrString},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", Shape::kRaw},
      {"k8s.io.apimachinery.pkg.runtime.RawExtension", Shape::kRaw},
      {"k8s.io.api.authentication.v1.ExtraValue", Shape::kList},
      {"k8s.io.api.authorization.v1.ExtraValue", Shape::kList},
  };
  const auto found = shapes->find(type.full_name());
  return found == shapes->end() ? Shape::kFields : found->second;
}

// Embedded in Go, hence without a name in JSON.
bool IsInline(const FieldDescriptor& field) {
  static const auto* const names = new std::set<std::string>{
      "volume_source", "persistent_volume_source", "handler", "local_object_reference"};
  return field.message_type() != nullptr && !field.is_repeated() && names->count(field.name()) > 0;
}

absl::Status WrongType(const std::string& path, absl::string_view expected) {
  return ObjectMalformed(absl::StrCat(path.empty() ? "it" : path, " is no ", expected));
}

class Reader {
 public:
  absl::Status ReadFields(const Json& json, const std::string& path, Message* message) {
    if (!json.is_object()) return WrongType(path, "object");
    const google::protobuf::Descriptor& type = *message->GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (IsInline(field)) {
        CAPSTAN_RETURN_IF_ERROR(ReadInline(json, path, field, message));
        continue;
      }
      const auto value = json.find(field.json_name());
      if (value == json.end() || value->is_null()) continue;
      const std::string below = absl::StrCat(path, ".", field.json_name());
      if (field.is_map()) {
        CAPSTAN_RETURN_IF_ERROR(ReadMap(*value, below, field, message));
      } else if (field.is_repeated()) {
        if (!value->is_array()) return WrongType(below, "list");
        for (const Json& item : *value) {
          CAPSTAN_RETURN_IF_ERROR(ReadValue(item, below, field, message));
        }
      } else {
        CAPSTAN_RETURN_IF_ERROR(ReadValue(*value, below, field, message));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadInline(const Json& json, const std::string& path, const FieldDescriptor& field,
                          Message* message) {
    const google::protobuf::Descriptor& type = *field.message_type();
    for (int i = 0; i < type.field_count(); ++i) {
      const auto value = json.find(type.field(i)->json_name());
      if (value == json.end() || value->is_null()) continue;
      return ReadFields(json, path, message->GetReflection()->MutableMessage(message, &field));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMap(const Json& json, const std::string& path, const FieldDescriptor& field,
                       Message* message) {
    if (!json.is_object()) return WrongType(path, "object");
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& mapped = *field.message_type()->map_value();
    for (const auto& [name, value] : json.items()) {
      if (value.is_null()) continue;
      Message* const entry = message->GetReflection()->AddMessage(message, &field);
      entry->GetReflection()->SetString(entry, &key, name);
      CAPSTAN_RETURN_IF_ERROR(ReadValue(value, path, mapped, entry));
    }
    return absl::OkStatus();
  }

  absl::Status ReadInteger(const Json& json, const std::string& path, int64_t least, int64_t most,
                           int64_t* out) {
    if (!json.is_number_integer() ||
        (json.is_number_unsigned() &&
         json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
      return WrongType(path, "integer");
    }
    *out = json.get<int64_t>();
    if (*out < least || *out > most) return WrongType(path, "integer of the field's width");
    return absl::OkStatus();
  }

  absl::Status ReadValue(const Json& json, const std::string& path, const FieldDescriptor& field,
                         Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const bool many = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        if (!json.is_string()) return WrongType(path, "text");
        std::string text = json.get<std::string>();
        if (field.type() == FieldDescriptor::TYPE_BYTES) {
          std::string bytes;
          if (!absl::Base64Unescape(text, &bytes)) return WrongType(path, "base64");
          text = std::move(bytes);
        }
        many ? reflection.AddString(message, &field, std::move(text))
             : reflection.SetString(message, &field, std::move(text));
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!json.is_boolean()) return WrongType(path, "boolean");
        many ? reflection.AddBool(message, &field, json.get<bool>())
             : reflection.SetBool(message, &field, json.get<bool>());
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_INT32: {
        int64_t value = 0;
        CAPSTAN_RETURN_IF_ERROR(ReadInteger(json, path, std::numeric_limits<int32_t>::min(),
                                            std::numeric_limits<int32_t>::max(), &value));
        many ? reflection.AddInt32(message, &field, static_cast<int32_t>(value))
             : reflection.SetInt32(message, &field, static_cast<int32_t>(value));
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t value = 0;
        CAPSTAN_RETURN_IF_ERROR(ReadInteger(json, path, std::numeric_limits<int64_t>::min(),
                                            std::numeric_limits<int64_t>::max(), &value));
        many ? reflection.AddInt64(message, &field, value)
             : reflection.SetInt64(message, &field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ReadMessage(json, path,
                           many ? reflection.AddMessage(message, &field)
                                : reflection.MutableMessage(message, &field));
      default:
        return ObjectMalformed(absl::StrCat(path, " has a type that objects do not use"));
    }
  }

  static void SetText(Message* message, const char* name, std::string text) {
    message->GetReflection()->SetString(message, message->GetDescriptor()->FindFieldByName(name),
                                        std::move(text));
  }
  static void SetInt64(Message* message, const char* name, int64_t value) {
    message->GetReflection()->SetInt64(message, message->GetDescriptor()->FindFieldByName(name),
                                       value);
  }
  static void SetInt32(Message* message, const char* name, int64_t value) {
    message->GetReflection()->SetInt32(message, message->GetDescriptor()->FindFieldByName(name),
                                       static_cast<int32_t>(value));
  }

  absl::Status ReadTime(const Json& json, const std::string& path, bool micro, Message* message) {
    absl::Time time;
    std::string error;
    if (!json.is_string() ||
        !absl::ParseTime(absl::RFC3339_full, json.get<std::string>(), &time, &error)) {
      return WrongType(path, "time of RFC 3339");
    }
    // ParseTime knows "infinite-future" too.
    const int64_t seconds = absl::ToUnixSeconds(time);
    if (seconds < kLeastSeconds || seconds > kMostSeconds)
      return WrongType(path, "time of RFC 3339");
    SetInt64(message, "seconds", seconds);
    const int64_t nanos = absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds));
    if (micro && nanos != 0) SetInt32(message, "nanos", nanos / 1000 * 1000);
    return absl::OkStatus();
  }

  absl::Status ReadMessage(const Json& json, const std::string& path, Message* message) {
    switch (ShapeOf(*message->GetDescriptor())) {
      case Shape::kFields:
        return ReadFields(json, path, message);
      case Shape::kTime:
      case Shape::kMicroTime:
        // In lists and maps, since a field that is null is passed over.
        if (json.is_null()) return absl::OkStatus();
        return ReadTime(json, path, ShapeOf(*message->GetDescriptor()) == Shape::kMicroTime,
                        message);
      case Shape::kQuantity:
        if (json.is_number()) {
          SetText(message, "string", json.dump());
        } else if (json.is_string()) {
          SetText(message, "string", json.get<std::string>());
        } else {
          return WrongType(path, "quantity");
        }
        return absl::OkStatus();
      case Shape::kIntOrString: {
        if (json.is_string()) {
          SetInt64(message, "type", 1);
          SetText(message, "str_val", json.get<std::string>());
          return absl::OkStatus();
        }
        int64_t value = 0;
        CAPSTAN_RETURN_IF_ERROR(ReadInteger(json, path, std::numeric_limits<int32_t>::min(),
                                            std::numeric_limits<int32_t>::max(), &value));
        SetInt64(message, "type", 0);
        SetInt32(message, "int_val", value);
        return absl::OkStatus();
      }
      case Shape::kRaw:
        SetText(message, "raw", json.dump());
        return absl::OkStatus();
      case Shape::kList: {
        if (!json.is_array()) return WrongType(path, "list");
        for (const Json& item : json) {
          CAPSTAN_RETURN_IF_ERROR(
              ReadValue(item, path, *message->GetDescriptor()->FindFieldByName("items"), message));
        }
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

 public:
  // Years 1 to 9999.
  static constexpr int64_t kLeastSeconds = -62135596800;
  static constexpr int64_t kMostSeconds = 253402300799;
};

absl::Status WriteFields(const Message& message, Json* out);

int64_t Int64Of(const Message& message, const char* name) {
  return message.GetReflection()->GetInt64(message, message.GetDescriptor()->FindFieldByName(name));
}
int32_t Int32Of(const Message& message, const char* name) {
  return message.GetReflection()->GetInt32(message, message.GetDescriptor()->FindFieldByName(name));
}
std::string TextOf(const Message& message, const char* name) {
  return message.GetReflection()->GetString(message,
                                            message.GetDescriptor()->FindFieldByName(name));
}

// A discarded value: there is nothing to write.
absl::StatusOr<Json> WriteMessage(const Message& message) {
  switch (const Shape shape = ShapeOf(*message.GetDescriptor()); shape) {
    case Shape::kFields: {
      Json object = Json::object();
      CAPSTAN_RETURN_IF_ERROR(WriteFields(message, &object));
      return object;
    }
    case Shape::kTime:
    case Shape::kMicroTime: {
      const Reflection& reflection = *message.GetReflection();
      if (!reflection.HasField(message, message.GetDescriptor()->FindFieldByName("seconds"))) {
        return Json(Json::value_t::discarded);
      }
      const int64_t seconds = Int64Of(message, "seconds");
      const int32_t nanos = Int32Of(message, "nanos");
      if (seconds < Reader::kLeastSeconds || seconds > Reader::kMostSeconds || nanos < 0 ||
          nanos > 999999999) {
        return ObjectMalformed("it has a time out of the years 1 to 9999");
      }
      const absl::Time time = absl::FromUnixSeconds(seconds) + absl::Nanoseconds(nanos);
      return Json(absl::FormatTime(
          shape == Shape::kTime ? "%E4Y-%m-%d%ET%H:%M:%SZ" : "%E4Y-%m-%d%ET%H:%M:%E6SZ", time,
          absl::UTCTimeZone()));
    }
    case Shape::kQuantity:
      return Json(TextOf(message, "string"));
    case Shape::kIntOrString:
      return Int64Of(message, "type") == 0 ? Json(Int32Of(message, "int_val"))
                                           : Json(TextOf(message, "str_val"));
    case Shape::kRaw: {
      const std::string raw = TextOf(message, "raw");
      if (raw.empty()) return Json(Json::value_t::discarded);
      CAPSTAN_RETURN_IF_ERROR(ReadJsonHead(raw).status());
      return Json::parse(raw, nullptr, /*allow_exceptions=*/false);
    }
    case Shape::kList: {
      Json list = Json::array();
      const FieldDescriptor* const items = message.GetDescriptor()->FindFieldByName("items");
      for (int i = 0; i < message.GetReflection()->FieldSize(message, items); ++i) {
        list.push_back(message.GetReflection()->GetRepeatedString(message, items, i));
      }
      return list;
    }
  }
  return Json(Json::value_t::discarded);
}

Json Plain(const FieldDescriptor& field, std::string text) {
  if (field.type() == FieldDescriptor::TYPE_BYTES) return Json(absl::Base64Escape(text));
  return Json(std::move(text));
}

absl::StatusOr<Json> WriteItem(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Plain(field, reflection.GetRepeatedString(message, &field, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Json(reflection.GetRepeatedBool(message, &field, i));
    case FieldDescriptor::CPPTYPE_INT32:
      return Json(reflection.GetRepeatedInt32(message, &field, i));
    case FieldDescriptor::CPPTYPE_INT64:
      return Json(reflection.GetRepeatedInt64(message, &field, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteMessage(reflection.GetRepeatedMessage(message, &field, i));
    default:
      return ObjectMalformed("a field has a type that objects do not use");
  }
}

absl::StatusOr<Json> WriteOne(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Plain(field, reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Json(reflection.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      return Json(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return Json(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteMessage(reflection.GetMessage(message, &field));
    default:
      return ObjectMalformed("a field has a type that objects do not use");
  }
}

absl::Status WriteFields(const Message& message, Json* out) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->is_map()) {
      Json& map = (*out)[field->json_name()];
      map = Json::object();
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        const Message& entry = reflection.GetRepeatedMessage(message, field, i);
        const std::string key =
            entry.GetReflection()->GetString(entry, field->message_type()->map_key());
        CAPSTAN_ASSIGN_OR_RETURN(Json value, WriteOne(entry, *field->message_type()->map_value()));
        map[key] = value.is_discarded() ? Json() : std::move(value);
      }
    } else if (field->is_repeated()) {
      Json& list = (*out)[field->json_name()];
      list = Json::array();
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        CAPSTAN_ASSIGN_OR_RETURN(Json value, WriteItem(message, *field, i));
        list.push_back(value.is_discarded() ? Json() : std::move(value));
      }
    } else if (IsInline(*field)) {
      CAPSTAN_RETURN_IF_ERROR(WriteFields(reflection.GetMessage(message, field), out));
    } else {
      CAPSTAN_ASSIGN_OR_RETURN(Json value, WriteOne(message, *field));
      const bool is_empty_text = value.is_string() && value.get_ref<std::string&>().empty();
      if (!value.is_discarded() && !is_empty_text) (*out)[field->json_name()] = std::move(value);
    }
  }
  return absl::OkStatus();
}

class Builtin final : public ObjectConverter {
 public:
  Builtin() {
    Add(kConfigMaps);
    Add(kCoreEvents);
    Add(kNamespaces);
    Add(kNodes);
    Add(kPersistentVolumes);
    Add(kPersistentVolumeClaims);
    Add(kPods);
    Add(kSecrets);
    Add(kServiceAccounts);
    Add(kDaemonSets);
    Add(kDeployments);
    Add(kLeases);
    Add(kEvents);
    Add(kPodDisruptionBudgets);
    Add(kTokenReviews);
    Add(kSubjectAccessReviews);
    Add(kSelfSubjectAccessReviews);
    Add(kBindings);
    Add(kEvictions);
    Add(kTokenRequests);
    Add(kScales);
    kinds_[{"v1", "Status"}] = &meta_v1::Status::default_instance();
    kinds_[{"v1", "DeleteOptions"}] = &meta_v1::DeleteOptions::default_instance();
    kinds_[{"meta.k8s.io/v1", "DeleteOptions"}] = &meta_v1::DeleteOptions::default_instance();
  }

  bool Knows(absl::string_view api_version, absl::string_view kind) const override {
    return Find(api_version, kind) != nullptr;
  }
  absl::StatusOr<std::string> ToProtobuf(absl::string_view api_version, absl::string_view kind,
                                         absl::string_view json) const override {
    const Message* const prototype = Find(api_version, kind);
    if (prototype == nullptr) return ObjectMalformed("its kind has no message");
    const std::unique_ptr<Message> message(prototype->New());
    CAPSTAN_RETURN_IF_ERROR(JsonToMessage(json, message.get()));
    return message->SerializeAsString();
  }
  absl::StatusOr<std::string> ToJson(absl::string_view api_version, absl::string_view kind,
                                     absl::string_view text) const override {
    const Message* const prototype = Find(api_version, kind);
    if (prototype == nullptr) return ObjectMalformed("its kind has no message");
    const std::unique_ptr<Message> message(prototype->New());
    if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
        !message->ParseFromArray(text.data(), static_cast<int>(text.size()))) {
      return ObjectMalformed("its message is damaged");
    }
    return MessageToJson(api_version, kind, *message);
  }

 private:
  template <typename T>
  void Add(const TypedResource<T>& resource) {
    kinds_[{ApiVersion(resource.type()), resource.kind}] = &T::default_instance();
  }
  const Message* Find(absl::string_view api_version, absl::string_view kind) const {
    const auto found = kinds_.find({std::string(api_version), std::string(kind)});
    return found == kinds_.end() ? nullptr : found->second;
  }

  std::map<std::pair<std::string, std::string>, const Message*> kinds_;
};

}  // namespace

absl::Status JsonToMessage(absl::string_view json, Message* message) {
  // Bounds the depth before anything builds a tree.
  CAPSTAN_RETURN_IF_ERROR(ReadJsonHead(json).status());
  const Json tree = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!tree.is_object()) return ObjectMalformed("it is no JSON object");
  return Reader().ReadFields(tree, "", message);
}

absl::StatusOr<std::string> MessageToJson(absl::string_view api_version, absl::string_view kind,
                                          const Message& message) {
  Json out = Json::object();
  if (!api_version.empty()) out["apiVersion"] = std::string(api_version);
  if (!kind.empty()) out["kind"] = std::string(kind);
  CAPSTAN_RETURN_IF_ERROR(WriteFields(message, &out));
  // proto2 does not check that text is UTF-8, which JSON must be.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const ObjectConverter& BuiltinConverter() {
  static const Builtin* const converter = new Builtin();
  return *converter;
}

}  // namespace capstan::kube
