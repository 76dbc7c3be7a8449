// Any text: what is taken for an object is one to a reader that builds trees, with the same
// metadata, and the items of a list are those of the tree.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/json_codec.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/resource_type.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

void Check(absl::string_view text) {
  const auto object = DynamicObject::Parse(text);
  if (object.ok()) {
    const nlohmann::json tree = object->ToJson();
    fuzzing::Require(tree.is_object());
    const auto again = DynamicObject::FromJson(tree);
    fuzzing::Require(again.ok() && again->ToJson() == tree);
  }
  const JsonCodec codec({"example.com", "v1", "Widget", "widgets", true});
  const auto page = codec.ParseList(text);
  if (page.ok() && object.ok()) {
    const nlohmann::json tree = object->ToJson();
    for (const auto& item : page->items) fuzzing::Require(item->ToJson().is_object());
    const auto items = tree.find("items");
    if (items != tree.end() && items->is_array()) {
      fuzzing::Require(items->size() == page->items.size());
    }
  }
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::kube::Check(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
