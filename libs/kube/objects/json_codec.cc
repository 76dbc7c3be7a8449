#include "libs/kube/objects/json_codec.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_error.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `text` is a JSON object that has none of the fields.
std::string WithFields(absl::string_view fields, absl::string_view text) {
  const absl::string_view rest = absl::StripLeadingAsciiWhitespace(text.substr(text.find('{') + 1));
  return absl::StrCat("{", fields, absl::StartsWith(rest, "}") ? "" : ",", rest);
}

}  // namespace

JsonCodec::JsonCodec(const ResourceType& type)
    : api_version_(ApiVersion(type)),
      kind_(type.kind),
      type_fields_(
          absl::StrCat("\"apiVersion\":", Quoted(api_version_), ",\"kind\":", Quoted(kind_))) {}

absl::StatusOr<std::shared_ptr<const DynamicObject>> JsonCodec::ParseObject(
    absl::string_view object) const {
  CAPSTAN_ASSIGN_OR_RETURN(DynamicObject parsed, DynamicObject::Parse(object));
  if (parsed.kind().empty() && parsed.api_version().empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(parsed, DynamicObject::Parse(WithFields(type_fields_, object)));
  }
  if (parsed.kind() != kind_ || parsed.api_version() != api_version_) {
    return ObjectMalformed(absl::StrCat("it is no ", api_version_, " ", kind_));
  }
  return std::make_shared<const DynamicObject>(std::move(parsed));
}

absl::StatusOr<std::shared_ptr<const DynamicObject>> JsonCodec::ParseBody(
    absl::string_view body) const {
  return ParseObject(body);
}

absl::StatusOr<EncodedList> JsonCodec::SplitList(absl::string_view body) const {
  CAPSTAN_ASSIGN_OR_RETURN(JsonList list, SplitJsonList(body));
  // A custom resource may name its lists as it likes, by custom alone they end so.
  if (!absl::EndsWith(list.head.kind, "List") || list.head.api_version != api_version_) {
    return ObjectMalformed(absl::StrCat("it is no list of ", api_version_, " ", kind_));
  }
  return EncodedList{std::move(list.items), std::move(list.head.resource_version),
                     std::move(list.head.continue_token), list.head.remaining};
}

std::string JsonCodec::Write(const DynamicObject& object) const {
  if (object.kind().empty() && object.api_version().empty()) {
    return WithFields(type_fields_, object.text());
  }
  return object.text();
}

}  // namespace capstan::kube
