#include "libs/kube/objects/dynamic_object.h"

#include "libs/kube/objects/object_error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {

absl::StatusOr<DynamicObject> DynamicObject::Parse(absl::string_view text) {
  CAPSTAN_ASSIGN_OR_RETURN(JsonHead head, ReadJsonHead(text));
  return DynamicObject(std::string(text), std::move(head));
}

absl::StatusOr<DynamicObject> DynamicObject::FromJson(const nlohmann::json& json) {
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    return ObjectMalformed("a string in it is not UTF-8");
  }
  CAPSTAN_ASSIGN_OR_RETURN(JsonHead head, ReadJsonHead(text));
  return DynamicObject(std::move(text), std::move(head));
}

nlohmann::json DynamicObject::ToJson() const {
  return nlohmann::json::parse(text_, nullptr, /*allow_exceptions=*/false);
}

}  // namespace capstan::kube
