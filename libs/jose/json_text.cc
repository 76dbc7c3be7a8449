#include "libs/jose/json_text.h"

#include <set>
#include <string>
#include <vector>

namespace capstan::jose {
namespace {

constexpr int kMaxDepth = 16;

}  // namespace

absl::optional<nlohmann::json> ParseObject(absl::string_view text) {
  bool sound = true;
  // Names seen in each object that is open.
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth >= kMaxDepth) sound = false;
    switch (event) {
      case nlohmann::json::parse_event_t::object_start:
        names.emplace_back();
        break;
      case nlohmann::json::parse_event_t::object_end:
        if (!names.empty()) names.pop_back();
        break;
      case nlohmann::json::parse_event_t::key:
        if (!names.empty() && !names.back().insert(parsed.get<std::string>()).second) sound = false;
        break;
      default:
        break;
    }
    // What is too deep is not kept.
    return depth < kMaxDepth;
  };
  nlohmann::json parsed = nlohmann::json::parse(text.begin(), text.end(), check,
                                                /*allow_exceptions=*/false);
  if (!sound || !parsed.is_object()) return absl::nullopt;
  return parsed;
}

}  // namespace capstan::jose
