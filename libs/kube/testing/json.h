// JSON as the fake API server and what is tested with it hold objects.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_JSON_H_
#define CAPSTAN_LIBS_KUBE_TESTING_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::testing {

// Members are sorted by name, so equal values have equal texts.
using Json = nlohmann::json;

// A discarded value (is_discarded()) if the text is no JSON or nests deeper than 128.
Json ParseJson(absl::string_view text);
// Never throws: bytes that are no UTF-8 are replaced.
std::string WriteJson(const Json& value);

// The member, or null if `object` is no object or has none of that name.
const Json& Member(const Json& object, absl::string_view name);
// By names, from the root: Find(pod, {"spec", "nodeName"}).
const Json& Find(const Json& object, std::initializer_list<absl::string_view> path);
// The text, or "" for what is no string.
std::string Text(const Json& value);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_JSON_H_
