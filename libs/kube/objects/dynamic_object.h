// Objects of types that no message is there for: custom resources.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_DYNAMIC_OBJECT_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_DYNAMIC_OBJECT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_traits.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {

// The JSON text as the server gave it, with what is asked for most read out of it. To change one:
// ToJson, change, FromJson; nothing else of it is lost. A value; const methods are for any thread.
class DynamicObject {
 public:
  // The empty object `{}`.
  DynamicObject() : text_("{}") {}

  // One JSON object, nested at most kMaxJsonDepth deep. Errors are those of Codec.
  static absl::StatusOr<DynamicObject> Parse(absl::string_view text);
  static absl::StatusOr<DynamicObject> FromJson(const nlohmann::json& json);

  const std::string& text() const { return text_; }
  // As large a tree as the text has values, made anew each time.
  nlohmann::json ToJson() const;

  const std::string& api_version() const { return head_.api_version; }
  const std::string& kind() const { return head_.kind; }
  const std::string& ns() const { return head_.ns; }
  const std::string& name() const { return head_.name; }
  const std::string& uid() const { return head_.uid; }
  const std::string& resource_version() const { return head_.resource_version; }
  int64_t generation() const { return head_.generation; }
  // It has a deletionTimestamp.
  bool deleting() const { return head_.deleting; }

 private:
  DynamicObject(std::string text, JsonHead head) : text_(std::move(text)), head_(std::move(head)) {}

  std::string text_;
  JsonHead head_;
};

template <>
struct ObjectTraits<DynamicObject> {
  static absl::string_view Namespace(const DynamicObject& object) { return object.ns(); }
  static absl::string_view Name(const DynamicObject& object) { return object.name(); }
  static absl::string_view Uid(const DynamicObject& object) { return object.uid(); }
  static absl::string_view ResourceVersion(const DynamicObject& object) {
    return object.resource_version();
  }
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_DYNAMIC_OBJECT_H_
