#include "services/node_agent/adapters/checkpoint_text.h"

#include <limits>

#include "nlohmann/json.hpp"

namespace capstan::node_agent {
namespace {

// An error quotes what others said: dump() by itself throws at what is no UTF-8.
std::string Line(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::optional<CheckpointText> ParseCheckpoint(absl::string_view body) {
  const auto object = nlohmann::json::parse(body.begin(), body.end(), nullptr, false);
  if (!object.is_object()) return absl::nullopt;
  const auto directory = object.find("dir");
  const auto step = object.find("step");
  if (directory == object.end() || !directory->is_string() || step == object.end() ||
      !step->is_number_integer()) {
    return absl::nullopt;
  }
  constexpr uint64_t kMostSteps = std::numeric_limits<int64_t>::max();
  if (step->is_number_unsigned() && step->get<uint64_t>() > kMostSteps) return absl::nullopt;
  return CheckpointText{directory->get<std::string>(), step->get<int64_t>()};
}

std::string CommittedText(int64_t step, absl::string_view digest) {
  return Line({{"step", step}, {"manifest_digest", std::string(digest)}});
}

std::string ErrorText(int code, absl::string_view reason, absl::string_view message) {
  return Line({{"code", code}, {"reason", std::string(reason)}, {"message", std::string(message)}});
}

}  // namespace capstan::node_agent
