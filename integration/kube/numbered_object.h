// Objects of the types that the exercise follows, which say by a number which write made them.
#ifndef CAPSTAN_INTEGRATION_KUBE_NUMBERED_OBJECT_H_
#define CAPSTAN_INTEGRATION_KUBE_NUMBERED_OBJECT_H_

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "integration/kube/real_client.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/resources.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {

using Labels = std::map<std::string, std::string>;

// Every write has a number that is higher than that of all before it, in this annotation.
inline constexpr char kNumber[] = "number";
// Goes from one value to the other with the number, so that objects come into selections and leave.
inline constexpr char kColour[] = "colour";

// 0 if it has none.
template <typename T>
int64_t NumberOf(const T& object) {
  std::string text;
  if constexpr (std::is_same_v<T, DynamicObject>) {
    text = object.ToJson().value("/metadata/annotations/number"_json_pointer, "");
  } else {
    const auto& annotations = object.metadata().annotations();
    const auto found = annotations.find(kNumber);
    if (found != annotations.end()) text = found->second;
  }
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

inline const char* ColourOf(int64_t number) { return number % 2 == 0 ? "even" : "odd"; }

template <typename T>
T Numbered(const T& object, int64_t number) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    nlohmann::json json = object.ToJson();
    json["metadata"]["annotations"][kNumber] = absl::StrCat(number);
    json["metadata"]["labels"][kColour] = ColourOf(number);
    return ObjectOf(json);
  } else {
    T changed = object;
    (*changed.mutable_metadata()->mutable_annotations())[kNumber] = absl::StrCat(number);
    (*changed.mutable_metadata()->mutable_labels())[kColour] = ColourOf(number);
    return changed;
  }
}

// "" if it has none.
template <typename T>
std::string LabelOf(const T& object, const std::string& label) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    const nlohmann::json& json = object.ToJson();
    const auto at = nlohmann::json::json_pointer("/metadata/labels/" + label);
    return json.value(at, "");
  } else {
    const auto found = object.metadata().labels().find(label);
    return found == object.metadata().labels().end() ? "" : found->second;
  }
}

inline bool SameObject(const DynamicObject& a, const DynamicObject& b) {
  return a.ToJson() == b.ToJson();
}
template <typename T>
bool SameObject(const T& a, const T& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

// One that the server takes; Pods stay Pending for ever. `ns` is not looked at for Nodes.
template <typename T>
T NewObject(const std::string& ns, const std::string& name, const Labels& labels = {}) {
  if constexpr (std::is_same_v<T, DynamicObject>) {
    return ObjectOf({{"apiVersion", "test.capstan.dev/v1"},
                     {"kind", "Widget"},
                     {"metadata", {{"namespace", ns}, {"name", name}, {"labels", labels}}},
                     {"spec", {{"copies", 0}, {"items", 0}}}});
  } else {
    T object;
    object.mutable_metadata()->set_name(name);
    if (!std::is_same_v<T, core_v1::Node>) object.mutable_metadata()->set_namespace_(ns);
    for (const auto& [key, value] : labels)
      (*object.mutable_metadata()->mutable_labels())[key] = value;
    if constexpr (std::is_same_v<T, core_v1::Pod>) {
      auto* const container = object.mutable_spec()->add_containers();
      container->set_name("c");
      container->set_image("none");
      // No node has it, so that the Pod stays where it is and is gone when it is deleted.
      object.mutable_spec()->set_scheduler_name("nobody");
    }
    return object;
  }
}

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_NUMBERED_OBJECT_H_
