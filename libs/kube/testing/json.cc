#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {
namespace {

constexpr int kMaxDepth = 128;

const Json& Null() {
  static const Json* const null = new Json();
  return *null;
}

}  // namespace

Json ParseJson(absl::string_view text) {
  bool too_deep = false;
  const Json::parser_callback_t callback = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) too_deep = true;
    return !too_deep;
  };
  Json value = Json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  return too_deep ? Json(Json::value_t::discarded) : value;
}

std::string WriteJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& Member(const Json& object, absl::string_view name) {
  if (!object.is_object()) return Null();
  const auto found = object.find(std::string(name));
  return found == object.end() ? Null() : *found;
}

const Json& Find(const Json& object, std::initializer_list<absl::string_view> path) {
  const Json* at = &object;
  for (const absl::string_view name : path) at = &Member(*at, name);
  return *at;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : std::string();
}

}  // namespace capstan::kube::testing
