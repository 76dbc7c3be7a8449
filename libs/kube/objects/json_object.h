// Objects and lists of the Kubernetes API as JSON text, without a tree in memory.
#ifndef CAPSTAN_LIBS_KUBE_OBJECTS_JSON_OBJECT_H_
#define CAPSTAN_LIBS_KUBE_OBJECTS_JSON_OBJECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::kube {

// Arrays and objects in each other. What nests deeper is refused, so that no reader's stack is in
// the hands of whoever wrote the object.
inline constexpr int kMaxJsonDepth = 200;

// What every object and list says of itself; empty, 0 or absent if it does not.
struct JsonHead {
  std::string api_version;
  std::string kind;
  // Of `metadata`.
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  // It has a deletionTimestamp.
  bool deleting = false;
  // Of a list's `metadata`.
  std::string continue_token;
  absl::optional<int64_t> remaining;
};

// Reads the text to its end, which must be one JSON object. Linear; holds nothing but the head. All
// errors here are those of Codec.
absl::StatusOr<JsonHead> ReadJsonHead(absl::string_view text);

struct JsonList {
  JsonHead head;
  // Views into the text, each an object by its brackets; ReadJsonHead says whether it is JSON.
  std::vector<absl::string_view> items;
};

absl::StatusOr<JsonList> SplitJsonList(absl::string_view text);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_OBJECTS_JSON_OBJECT_H_
