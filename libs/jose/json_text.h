#ifndef CAPSTAN_LIBS_JOSE_JSON_TEXT_H_
#define CAPSTAN_LIBS_JOSE_JSON_TEXT_H_

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

namespace capstan::jose {

// The JSON object that `text` is, from whomever it came. Nothing if it is no object, nests deeper
// than 16, or names a member twice in one object: readers differ in which of the two they believe.
absl::optional<nlohmann::json> ParseObject(absl::string_view text);

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_JSON_TEXT_H_
